"""The questions understood without a language model: one table, tried from top to bottom."""

from __future__ import annotations

from hermes_agent.questions.changes import what_to_change
from hermes_agent.questions.comparison import against_baseline
from hermes_agent.questions.definitions import define
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.gaps import what_is_open
from hermes_agent.questions.help import not_understood, what_can_be_asked
from hermes_agent.questions.identifiers import explain_ids
from hermes_agent.questions.intent import Intent
from hermes_agent.questions.measured import MEASURED
from hermes_agent.questions.overview import summarise
from hermes_agent.questions.parts import break_down
from hermes_agent.questions.question import Question
from hermes_agent.questions.ranks import which_rank
from hermes_agent.questions.similar import similar_cases
from hermes_agent.questions.steps import which_step
from hermes_agent.questions.suspicion import suspect
from hermes_agent.questions.whatif import what_if

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
