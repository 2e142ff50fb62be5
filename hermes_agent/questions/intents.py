"""The questions understood without a language model: one table, tried from top to bottom."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from hermes_agent.evidence.verifier import cited_ids
from hermes_agent.model.diagnosis import EvidenceRecord
from hermes_agent.questions.advice import against_baseline, how_many_workers, summarise, what_if, what_to_change
from hermes_agent.questions.cases import explain_ids, for_text, similar_cases
from hermes_agent.questions.causes import define, how_sure, suspect
from hermes_agent.questions.causes import unanswered_checks as what_is_open
from hermes_agent.questions.device import by_kind, how_busy, launch_queue, memory_peak, top_host_calls, top_kernels
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.foreign import in_english
from hermes_agent.questions.prose import blocks, bullets, unbracketed
from hermes_agent.questions.question import Question, read_question
from hermes_agent.questions.ranks import which_rank, why_wait
from hermes_agent.questions.recording import what_is_recorded
from hermes_agent.questions.steps import break_down, how_long, which_step
from tools.errors import UsageError

Answering = Callable[[Discussion, Question], str | None]  # None: not meant after all, try the next


@dataclass(frozen=True)
class Intent:
    """One kind of question. ``patterns`` holds one pattern a line, over the question's normalised words."""

    name: str
    about: str
    example: str
    patterns: str
    answer: Answering

    def fits(self, words: str) -> bool:
        """Whether any pattern is in the words."""
        return any(re.search(pattern, words) for pattern in self.patterns.split())


# A blank in the words is written ``\s``. Tried from top to bottom.
MEASURED: tuple[Intent, ...] = (
    Intent(
        name="certainty",
        about="How sure the diagnosis is",
        example="How sure are you?",
        patterns=r"""
            \bhow\s(sure|certain|confident|reliable|accurate|trustworthy)\b
            \bare\syou\s(really\s|quite\s)?(sure|certain|confident)\b
            \bconfidence\b
            \b(can|should)\s(i|we)\s(trust|believe|rely)\b
        """,
        answer=how_sure,
    ),
    Intent(
        name="workers",
        about="How many loader workers to use",
        example="How many workers should I use?",
        patterns=r"""
            \bhow\smany\b.*\b(workers?|loader\sprocess(es)?|loaders)\b
            \bnumber\sof\s(data\s?loader\s|loader\s)?workers\b
            \b(what|which)\snum\sworkers\b
            \bnum\sworkers\b.*\b(should|best|right|use|set|value)\b
        """,
        answer=how_many_workers,
    ),
    Intent(
        name="duration",
        about="How long a step takes",
        example="How long does a step take?",
        patterns=r"""
            \bhow\s(long|slow|fast)\b.*\b(steps?|iterations?)\b
            ^((what\sis|whats)\s)?(the\s|my\s|our\s)?((average|mean|median|typical)\s)?(step|iteration)\s(time|duration|length)$
            \b(steps|iterations)\s(per|a)\ssecond\b
            \bthroughput\b
        """,
        answer=how_long,
    ),
    Intent(
        name="kernels",
        about="Which kernels take most time",
        example="Which kernel takes the most time?",
        patterns=r"""
            \b(which|top|slowest|longest|biggest|largest|heaviest|hottest|expensive|list)\b.*\bkernels?\b
            \bwhat\s(gpu\s|device\s|cuda\s)?kernels?\b
            \bkernels?\b.*\b(most|longest)\b
        """,
        answer=top_kernels,
    ),
    Intent(
        name="host_calls",
        about="Which host calls take most time",
        example="What are the top host calls?",
        patterns=r"""
            \b(which|top|slowest|longest|biggest|expensive|list|most)\b.*\b(calls?|functions?|operators?|operations?|ops)\b
            \bwhat\b.*\b(host|cpu|python|runtime|cuda|api)\s(calls?|functions?)\b
            \bwhat\b.*\b(host|cpu|program)\b.*\b(doing|do|spend)\b
        """,
        answer=top_host_calls,
    ),
    Intent(
        name="collectives",
        about="Which collectives run, and for how long",
        example="Which collectives are there?",
        patterns=r"""
            \b(how\s(long|many|often|much\stime)|list|which|show)\b(?!.*\branks?\b).*\bcollectives?\b
            \b(how\s(long|many|often|much\stime)|list|which|show)\b(?!.*\branks?\b).*\b(all|reduce)\s?(reduce|gather|to\s?all|scatter)s?\b
            \b(how\s(long|many|often|much\stime)|list|which|show)\b(?!.*\branks?\b).*\b(broadcast|barrier|send\srecv)s?\b
            ^(what\sare\s)?(the\s)?collectives?$
            \bcollectives?\sby\b
        """,
        answer=by_kind,
    ),
    Intent(
        name="waiting",
        about="Why ranks wait for each other",
        example="Why do ranks wait?",
        patterns=r"""
            \b(why|how\slong)\b.*\b(ranks?|gpus?|others?|they|everyone|everybody|processes|workers)\b.*\bwait(s|ing)?\b
            \b(who|whom|which\sranks?|what)\b.*\b(ranks?|others?|everybody|everyone|they|all)?\s?wait(s|ing|ed)?\sfor\b
        """,
        answer=why_wait,
    ),
    Intent(
        name="launch_queue",
        about="Why the device is idle, and the launch queue",
        example="Why is the device idle although work is launched?",
        patterns=r"""
            \blaunch\squeue\b
            \bqueue\s(length|depth)\b
            \bidle\b.*\b(launched|queued|why|reasons?)\b
            \b(why|when|how\slong)\b.*\bidle\b
            ^(the\s)?(device\s|gpu\s)?idle(\stime)?$
        """,
        answer=launch_queue,
    ),
    Intent(
        name="utilisation",
        about="How busy the device is",
        example="What is the GPU utilization in percent?",
        patterns=r"""
            \b(gpu|gpus|device|accelerator)s?\s(utili[sz]ation|usage|busy|load)\b
            \bhow\s(busy|idle|well\sused|utili[sz]ed)\b
            \butili[sz]ation\b.*\b(percent(age)?|number|figure)\b
            \b(what|how)\b.*\b(is|high|low|much)\b.*\butili[sz]ation\b
            ^utili[sz]ation$
        """,
        answer=how_busy,
    ),
    Intent(
        name="memory",
        about="How much device memory is used",
        example="What is the peak memory?",
        patterns=r"""
            \b(peak|max|maximum|highest)\b.*\bmemory\b
            \bmemory\b.*\b(peak|usage|used|footprint|consumption)\b
            \bhow\s(much|full)\b.*\bmemory\b
        """,
        answer=memory_peak,
    ),
    Intent(
        name="recording",
        about="What the recording says of the run",
        example="What is this run?",
        patterns=r"""
            ^what\s(is|was|kind\sof\srun\sis)\sthis(\s(run|trace|recording|job|about))?$
            \bwhat\s(am\si|are\swe)\slooking\sat\b
            \bbatch\ssizes?\b
            \b(which|what)\s(kind\sof\s|type\sof\s)?(model|hardware|cluster|layout|shapes?|world\ssize|parallelism)\b
            \bwhat\s(gpus?|devices?)\b(?!.*\b(slow\w*|late|worst|idle|wait\w*|fast\w*)\b)
            \bhow\smany\s(ranks?|gpus?|devices?|steps?|nodes?)\b(?!.*\b(slow\w*|over|late|far|wait\w*)\b)
            \bdescribe\s(the|this)\s(run|trace|recording|job)\b
        """,
        answer=what_is_recorded,
    ),
)


EXAMPLES = ("Why is it slow?", "What should I change first?", "Could it be the network?")


def what_can_be_asked(topics: list[tuple[str, str]]) -> str:
    """All topics with an example each."""
    rows = [f"{about}: “{example}”" for about, example in topics]
    return blocks(["You can ask:\n" + bullets(rows), "Answers cite their evidence; `show E1` opens it."])


def not_understood(discussion: Discussion, text: str) -> str:
    """That the question was not understood, three that would be, and cases close to its words."""
    lead = (
        "I answer from measurements without a language model, and this question I did not understand. Ask for example:"
    )
    return blocks([f"{lead}\n{bullets(f'“{example}”' for example in EXAMPLES)}", for_text(discussion, text)])


NOT_UNDERSTOOD = "not_understood"


def _help(_: Discussion, __: Question) -> str:
    return what_can_be_asked([(intent.about, intent.example) for intent in INTENTS if intent.example])


# A blank in the words is written ``\s``.
INTENTS: tuple[Intent, ...] = (
    Intent(
        name="help",
        about="What can be asked",
        example="",
        patterns=r"""
            ^(help|commands|usage|hi|hello)$
            what\s(else\s)?can\s((i|we)\s(ask|say)|you\s(do|answer|say|tell))
            ^how\s(do|can)\s(i|you)\s(use|work)(\sthis|\sit|\shermes)?$
            which\squestions
        """,
        answer=_help,
    ),
    Intent(
        name="what_if",
        about="What a fix would bring",
        example="What if I fix the data loader?",
        patterns=r"""
            \bwhat\sif\b
            \bhow\smuch\b.*\b(bring|gain|save|faster|speed\s?up|win|help|get|improve)
            \bspeed\s?up\b.*\bif\b
            \bwhat\swould\b.*\b(bring|gain|save|give|happen)\b
            \b(expected|predicted|potential)\s(gain|speed\s?up|saving)s?
            \bhow\s(fast|much\sfaster)\b.*\b(would|could|can|without)\b
            ^(if|suppose)\b.*\b(fix|remov|gone|without)
            \bworth\s(it|fixing)\b
        """,
        answer=what_if,
    ),
    Intent(
        name="identifiers",
        about="What an id stands for",
        example="Show E1",
        patterns=r"\b[eac]\d+\b",
        answer=explain_ids,
    ),
    Intent(
        name="gaps",
        about="What could not be checked",
        example="What could you not check?",
        patterns=r"""
            \b(could|can|did|do)\s(you|we|it)\snot\s(be\s)?(check|answer|look|see|tell|say|measure|know)
            \b(could|can|did)\snot\s(you\s|we\s)?(be\s)?(check|answer|look|see|tell|say|measure)
            \b(couldnt|cant|cannot|didnt|dont)\s(you\s|we\s)?(be\s)?(check|answer|look|see|tell|say|measure|know)
            \b(unchecked|unanswered|blind\sspots?|unknowns?|not\schecked|open\squestions?|coverage)\b
            \bwhat\s(else\s)?(should|could|do|must)\s(i|we)\s(record|measure|collect|profile|log)\b
            \bwhats?\s(is\s|are\s)?(still\s)?(missing|open|not\scovered)\b
        """,
        answer=what_is_open,
    ),
    Intent(
        name="comparison",
        about="What changed against a baseline",
        example="Compare with the baseline",
        patterns=r"""
            \bbaseline\b
            \bcompar(e|ed|ison)\b(?!.*\b(ranks?|steps?)\b)
            \bwhat\s(has\s)?changed\b
            \b(last\sweek|last\srun|last\stime|previous\srun|regress(ed|ion))\b
        """,
        answer=against_baseline,
    ),
    Intent(
        name="similar_cases",
        about="Similar public cases",
        example="Are there similar cases?",
        patterns=r"""
            \b(similar|known|public|past|other|same)\s(cases?|issues?|problems?|reports?|incidents?)\b
            \bcases?\b
            \b(anyone|somebody|someone|others)\s(else\s)?(seen|had|have|has|experienced)\b
            \bseen\s(this\s)?(before|elsewhere)\b
        """,
        answer=similar_cases,
    ),
    *MEASURED,
    Intent(
        name="breakdown",
        about="Where the time of a rank or step goes",
        example="Where does the time go?",
        patterns=r"""
            \bbreak\s?down\b
            \bwhere\s(does|did|do|is)\s(the\s|my\s|its?\s|all\s)*(time|step|milliseconds)\b
            \bsplit\b.*\b(time|step)\b
            \btime\s(is\s)?(spent|go|goes|went)\b
            \bwhat\s(does|did|is)\s(rank|step)\s\d+\s(do|doing|spend|take)
        """,
        answer=break_down,
    ),
    Intent(
        name="change",
        about="What to change, first or for one cause",
        example="What should I change first?",
        patterns=r"""
            \bwhat\s(should|can|could|must|do|would)\s(i|we|you|be)\b.*\b(change|do|fix|try|improve|optimi[sz]e)
            \bwhat\s(should|can|could|must|do|would)\s(i|we|you|be)\b.*\b(recommend|suggest|tune)
            \bhow\s(do|can|could|should|would|to)\b.*\b(fix|solve|improve|speed|avoid|mend|remove|optimi[sz]e)
            \bhow\s(do|can|could|should|would|to)\b.*\b(get\srid|faster|reduce)
            \b(advice|advise|recommend|suggest|recommendations?|suggestions?|optimi[sz]ations?|remed(y|ies))\b
            ^(fix|solve|change|optimi[sz]e|improve|speed)\b
            \b(next\ssteps?|fix\s(it|this|that)(\sfirst)?)$
            \bfirst\sthing\b
        """,
        answer=what_to_change,
    ),
    Intent(
        name="ranks",
        about="Which rank is slow",
        example="Which rank is the slowest?",
        patterns=r"""
            \b(which|who|slowest|fastest|worst|compare)\b.*\b(ranks?|gpus?|workers?|nodes?|process(es)?)\b
            \bwhat\b.*\b(slowest|fastest|worst)\s(rank|gpu|worker|node)
            \branks?\s\d+\b
            \b(ranks?|gpus?)\s(is|are|differ|even|equal)\b
            ^(the\s)?ranks?$
            \bacross\s(the\s|all\s)?ranks\b
        """,
        answer=which_rank,
    ),
    Intent(
        name="steps",
        about="Which step is slow, spikes",
        example="Which step is the slowest?",
        patterns=r"""
            \b(which|slowest|fastest|longest|worst|slow|long)\b.*\b(steps|iterations?)\b
            \b(which|slowest|fastest|longest|worst)\sstep\b
            \bsteps?\s\d+\b
            \b(spikes?|spiky|outliers?|jitter\w*|fluctuat\w*|hiccups?|stead(y|iness)|drift\w*|periodic\w*|trend)\b
            \b(varian(ce|t)|vary|varies)\b
            \bsteps?\stimes?\b
            ^(the\s)?steps?$
        """,
        answer=which_step,
    ),
    Intent(
        name="overview",
        about="Why the run is slow",
        example="Why is it slow?",
        patterns=r"""
            ^why$
            \bwhy\b.*\b(slow|slower|bad|long|stuck)\b
            \b(summary|summari[sz]e|overview|diagnosis|verdict|tl\s?dr|in\sshort|conclusion|root\scause|bottlenecks?)\b
            \bwhats?\s(is\s|are\s)?(the\s)?(main\s|first\s|biggest\s)?(wrong|causes?|problems?|issues?|matter|reasons?)\b
            \b(is|was)\s(it|this|this\srun|the\srun|everything|my\s(run|training))\s(slow|healthy|ok|okay|fine|good)\b
            \bwhat\s(did\syou\sfind|happened|slows)\b
            ^explain(\sit|\sthis)?$
        """,
        answer=summarise,
    ),
    Intent(
        name="definition",
        about="What a cause means",
        example="What is a straggler?",
        patterns=r"""
            ^(what|whats|define|explain|describe|tell\sme)(\sis|\sare|\sdoes|\sabout)?\b
            \bmeaning\sof\b
        """,
        answer=define,
    ),
    Intent(
        name="suspicion",
        about="Whether it could be some cause, and why not",
        example="Could it be the network?",
        patterns=r".",
        answer=suspect,
    ),
)


def answer_text(discussion: Discussion, question: Question) -> tuple[str, str]:
    """Name of the intent that answered (``NOT_UNDERSTOOD`` when none did) and the answer as Markdown."""
    for intent in INTENTS:
        if intent.fits(question.words):
            text = intent.answer(discussion, question)
            if text is not None:
                return intent.name, text
    return NOT_UNDERSTOOD, not_understood(discussion, question.text)


NOT_MEASURABLE = "not_measurable"


@dataclass(frozen=True)
class Reply:
    """The answer's text, the figures it cites, and which kind of question it was taken for.

    ``intent`` is ``not_understood`` where no kind fitted and ``not_measurable`` where the run cannot give the figure.
    """

    text: str
    evidence: tuple[EvidenceRecord, ...]
    intent: str
    notes: tuple[str, ...] = ()


def reply(discussion: Discussion, text: str) -> Reply:
    """Answers a question from the diagnosis and from what can be measured on the run.

    Raises InputError when the run has to be read again and cannot be.
    """
    foreign = in_english(text)
    try:
        intent, written = answer_text(discussion, read_question(foreign.question if foreign else text))
    except UsageError as error:
        intent, written = NOT_MEASURABLE, f"That cannot be measured on this run: {unbracketed(str(error))}."
    if foreign:
        written = f"Understood from {foreign.language} as `{foreign.question}`; answers are in English.\n\n{written}"
    known = discussion.evidence
    cited = dict.fromkeys(name for name in cited_ids(written) if name in known)
    return Reply(written.strip(), tuple(known[name] for name in cited), intent)
