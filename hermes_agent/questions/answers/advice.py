"""Answers about the whole run: the diagnosis in short, what to change, what a fix would bring, what changed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hermes_agent.evidence.ledger import quoted
from hermes_agent.evidence.spent_parts import ranks_of, spent_parts, stored_part
from hermes_agent.model.diagnosis import AdviceRecord, CauseRecord, LeadRecord
from hermes_agent.model.display import PART_TITLES, cause_title, costs, on_ranks
from hermes_agent.questions.answers.cause_records import fewest_workers, stated_workers
from hermes_agent.questions.answers.causes import about
from hermes_agent.questions.answers.checkpoints import other_interval
from hermes_agent.questions.discussion import Discussion, cited
from hermes_agent.questions.prose import blocks, bullets, capital, general, listed, paragraph, quoted_from
from hermes_agent.questions.reading.question import Question, Subject, normalised, subject_of, wording
from hermes_agent.questions.typed_changes import with_changes
from tools.analyzers.steps.output_warnings import lost_from
from tools.errors import UsageError
from tools.knowledge.taxonomy import EFFORTS, Optimization, known_mechanism, optimizations
from tools.knowledge.thresholds import Thresholds
from tools.knowledge.untrained import fitting
from tools.views.communication.gradient_sync import exchanged_by
from tools.views.device.kind import device_kind
from tools.views.training_seen import trains

SUPPORTED = Thresholds()["confidence"]
LOW_CONFIDENCE = "Low confidence; the likeliest change to help:"
CAUSES_LISTED = 3
WARNED = "step_time.output"
TREND, FLUCTUATION = "step_time.trend", "step_time.fluctuation"
FURTHER = 4  # changes listed by title
NEXT_MEASUREMENTS = 3
ALL = re.compile(r"\b(everything|every (cause|problem)|both|all (of )?(them|causes|problems|these|this)|all)\b")
FREE = re.compile(
    r"\b(comm(unication)?|collectives?|nccl|network|all ?reduces?|all ?gathers?)\b.*"
    r"\b(free|zero|instant\w*|infinite\w*|no time)\b"
)
AS_FAST = re.compile(r"\bas fast as\b|\blike (the )?(others?|other ranks)\b")
HARDWARE = re.compile(
    r"\b(\d+ ?(gbit|gbps|gbe|gb|g)|gbit|ethernet|infiniband|nvlink|[abhv]\d00s?"
    r"|(faster|better|newer|other|another) (gpus?|networks?|interconnects?|nics?|devices?|cpus?|hardware))\b"
)
# Words of a what-if question that name no change of their own; any other word does.
GENERAL = re.compile(
    r"(a|about|add|all|an|and|any|apply|applied|are|as|at|be|best|both|bring|brings|by|can|cause|causes|"
    r"change|changed|changes|could|did|difference|do|does|enable|estimate|estimated|every|everything|"
    r"expect|expected|fast|faster|first|fix|fixed|fixes|fixing|for|from|gain|gains|get|gets|give|gives|"
    r"gone|had|happen|happens|have|help|helps|how|i|if|improve|improvement|in|is|issue|issues|it|its|less|"
    r"main|make|makes|many|matter|me|might|more|most|much|my|next|of|on|one|ones|optimization|"
    r"optimizations|or|our|per|percent|potential|predict|predicted|prediction|problem|problems|rank|ranks|"
    r"reduce|remove|removed|removing|run|save|saved|saves|saving|savings|second|set|should|slow|slower|so|"
    r"solve|solved|speed|speedup|step|steps|suppose|switch|that|the|them|then|there|these|they|this|those|"
    r"time|to|top|training|try|turn|two|up|us|use|using|was|we|were|what|will|win|with|without|worth|would|"
    r"you|your|together|once|combined|only|just|really|else|anything|something|same|still|likely|roughly|about)"
)
SWITCHES = {"true", "false", "1", "0", "recommended", "advice", "suggested"}
# A question for yes or no about the whole run: is it well, or is it slow.
HEALTH = re.compile(
    r"^(?:is|was|does|do|are|am|looks?|everything|all)\b.*\b(?:(?P<well>healthy|ok|okay|fine|good|well|normal|efficient|optimal|fast)"
    r"|slow|bad|unhealthy|broken|wrong|inefficient|problems?|issues?|odd|off|strange|unusual|(?P<usual>reasonable|plausible"
    r"|acceptable|to be expected))\b"
)
OF_SPEED = re.compile(r"\bslow|\binefficient")
HOLDS = 0.99  # of the cost: a part of the step that is smaller cannot hold it
SUBJECT_ASKED = re.compile(r"^(is|are|was|were|could|can|might|does|do)\b")


def summarise(discussion: Discussion, question: Question) -> str | None:
    """The verdict, the causes and the first change to make; None for "is X the bottleneck?", which is about X."""
    if question.subject is not None and SUBJECT_ASKED.search(question.words):
        return None
    diagnosis = discussion.diagnosis
    asked = HEALTH.search(question.words)
    kind = "" if asked is None else "usual" if asked["usual"] else "well" if asked["well"] else "slow"
    of_losses = asked is not None and not OF_SPEED.search(asked[0]) and not discussion.profile().traced
    lost = of_losses and lost_from(discussion.profile()) is not None
    lead = wording(f"{kind}_{'lost' if lost else diagnosis.verdict}") if kind else ""
    if kind in ("well", "usual") and (unchanged := _nothing_found(discussion)):
        lead = unchanged
    first = next(iter(_supported_first(discussion)), None)
    unpriced = "" if first else _try_first(discussion)
    needs = diagnosis.next_measurements[:NEXT_MEASUREMENTS] if diagnosis.verdict == "inconclusive" else []
    return blocks(
        [
            paragraph([lead, *diagnosis.answer, _part_of_first(discussion)]),
            bullets(cause.claim for cause in diagnosis.causes[:CAUSES_LISTED]),
            *([paragraph(["Fix first:", quoted_from(first.optimization, first.id), first.text])] if first else []),
            unpriced,
            "To know more, record:\n" + bullets(f"{general(need)}." for need in needs) if needs else "",
        ]
    )


def _try_first(discussion: Discussion) -> str:
    """The change for the first thing that was found at a cost that is not known."""
    for lead in _unpriced(discussion)[:1] if discussion.profile().measured else []:
        if (change := _change_for(discussion, lead)) is not None:
            return f"Try first, at a gain that is not known: {general(change.title())}. How: {general(change.how)}."
    return ""


def _nothing_found(discussion: Discussion) -> str:
    """That the recorded steps of a run without a trace show nothing wrong, with their drift; empty where something was
    found, or too few steps are recorded to show it."""
    profile, checks = discussion.profile(), discussion.diagnosis.checks
    clean = {each.analyzer: each.text for each in checks if each.status == "clean"}
    if profile.traced or profile.series is None or not clean.keys() & {TREND, FLUCTUATION}:
        return ""
    if discussion.diagnosis.causes or any(each.status == "found" for each in checks):
        return ""
    return paragraph([wording("nothing_found"), *clean.get(TREND, [])])


def _part_of_first(discussion: Discussion) -> str:
    """The part of the step that the first cause spends, at its rank; empty where it may be one of several."""
    diagnosis = discussion.diagnosis
    if not diagnosis.causes or not diagnosis.breakdown:
        return ""
    first = diagnosis.causes[0]
    ranks = ranks_of(first)
    parts = spent_parts(diagnosis, first, ranks)
    if len(parts) != 1:
        return ""
    part, rank = next(iter(parts)), next(iter(ranks)) if len(ranks) == 1 else None
    taken = stored_part(diagnosis, part, rank)
    if taken is None or taken.value < HOLDS * first.impact_ms_per_step:
        return ""
    several = len(discussion.ranks) > 1
    where = f" on rank {rank}" if several and rank is not None else ""
    mean = ", as the mean over ranks" if several and rank is None else ""
    title = "host time" if part == "host" else PART_TITLES[part]
    return discussion.say(f"The cost is part of {title}{where}: {{0}} per step{mean}.", taken)


def against_baseline(discussion: Discussion, _: Question) -> str:
    """The comparison that the diagnosis holds, or how to get one."""
    comparison = discussion.diagnosis.comparison
    return wording("no_baseline") if comparison is None else blocks([comparison.headline, bullets(comparison.changes)])


def what_to_change(discussion: Discussion, question: Question) -> str:
    """The first change in full and the next ones by title; for a cause that was named, the changes for it."""
    subject, advice = question.subject, discussion.diagnosis.advice
    if subject is not None:
        chosen = [item for item in advice if item.for_ in subject.causes]
        exact = [item for item in chosen if subject.mechanism and item.mechanism == subject.mechanism]
        if not chosen:
            lead = f"There is no advice on {subject.title} for this run: not among the causes found."
            return blocks([lead, about(discussion, subject)])
        return _ordered(exact or chosen, "For that, change this first:")
    if advice:
        sure = any(each.confidence >= SUPPORTED for each in discussion.diagnosis.causes)
        return _ordered(_supported_first(discussion), "Change this first:" if sure else LOW_CONFIDENCE)
    if unpriced := _for_unpriced(discussion):
        return unpriced
    checks = discussion.diagnosis.checks
    warned = next((each.text for each in checks if each.analyzer == WARNED and each.status != "clean"), [])
    if warned:  # what the job's output warns of stands with what to do about it
        return paragraph(warned)
    healthy = discussion.diagnosis.verdict == "healthy"
    said = f"{discussion.diagnosis.headline} {wording('nothing_to_change' if healthy else 'no_advice')}"
    leads = [] if healthy else discussion.diagnosis.leads[:1]
    return blocks(
        [said, *(f"What was seen and not explained: {each.claim} Decided by: {each.decide_by}." for each in leads)]
    )


def _unpriced(discussion: Discussion) -> list[LeadRecord]:
    """The leads of a run without a trace that show something at a cost that is not known."""
    diagnosis = discussion.diagnosis
    if discussion.profile().traced or diagnosis.verdict == "healthy":
        return []
    return [each for each in diagnosis.leads if not each.impact_ms_per_step]


def _change_for(discussion: Discussion, lead: LeadRecord) -> Optimization | None:
    """The first change for the likeliest cause of a lead that suits the run."""
    profile = discussion.profile()
    for each in lead.candidates[:1]:
        kind = device_kind(profile)
        rows = optimizations(each.cause, each.mechanism, None, kind, exchanged_by(profile))
        rows = tuple(row for row in rows if kind is not None or row.hardware != ("host",))
        known = (row if trains(profile) else fitting(row) for row in rows)
        return next((row for row in known if row is not None), None)
    return None


def _for_unpriced(discussion: Discussion) -> str:
    """What to change for what was found at a cost that is not known; empty where nothing was, or the job hangs."""
    found = _unpriced(discussion) if discussion.profile().measured else []
    if not found:
        return ""
    first, *others = found
    change = _change_for(discussion, first)
    also = paragraph(["Also found, at a cost that is not known:", *(each.claim for each in others)]) if others else ""
    if change is None:
        return blocks([f"{wording('unpriced')} {first.claim}", f"Decided by: {general(first.decide_by)}.", also])
    cause = first.candidates[0]
    return blocks(
        [
            f"{wording('unpriced')} {first.claim}",
            f"Change this first: {general(change.title())}. It is for {cause_title(cause.cause, cause.mechanism)} and "
            f"takes {EFFORTS.get(change.effort, 'some time')} of work.",
            f"How: {general(change.how)}.",
            f"What it would bring is not known. What shows it: {general(first.decide_by)}.",
            f"Risk: {general(change.risk)}.",
            f"To verify: {general(change.verify)}.",
            also,
        ]
    )


def in_full(item: AdviceRecord) -> str:
    """One piece of advice: what, how, predicted gain, risk, how to verify, and the cases like it."""
    effort = EFFORTS.get(item.effort, "some time")
    cases = [f"[{name}]" for name in item.cases]
    return blocks(
        [
            f"{quoted_from(item.optimization, item.id)} It is for {cause_title(item.for_, item.mechanism)} and takes "
            f"{effort} of work [{item.id}].",
            f"How: {quoted_from(item.how, item.id)}",
            item.text or "What it would bring cannot be replayed from this recording.",
            f"Risk: {quoted_from(item.risk, item.id)}",
            f"To verify: {quoted_from(item.verify, item.id)}",
            f"Cases like it: {listed(cases)}." if cases else "",
        ]
    )


def what_if(discussion: Discussion, question: Question) -> str:
    """The step with the changes that the question names, else without its cause, else without each cause found."""
    if interval := other_interval(discussion, question):
        return interval
    item = _named_advice(discussion, question)
    advised = "" if item is None else in_full(item)
    predicted, instead = with_changes(discussion, question)
    if predicted:
        return predicted
    if instead:
        return blocks([instead, _without_causes(discussion, question) or _not_predicted(discussion, question)])
    return advised or _not_predicted(discussion, question) or _without_causes(discussion, question)


def _without_causes(discussion: Discussion, question: Question) -> str:
    """The step without the causes that a question names, together where it names several; else without each found."""
    causes, subject = discussion.diagnosis.causes, question.subject
    if len(together := _together(discussion, question)) > 1:
        return blocks([_jointly(discussion, together), *(_gain(discussion, each) for each in together)])
    if subject is not None:
        if meant := _meant(causes, subject):
            return blocks(_gain(discussion, each) for each in meant)
        if subject.mechanism == "too_few_workers" and (enough := fewest_workers(discussion, question.ranks)):
            return blocks([enough, wording("workers_gain"), _cheaper_than_workers(discussion)])
        lead = f"Not among the causes of this run: {subject.title}. So no gain from fixing that is predicted."
        return blocks([lead, about(discussion, subject, question.words)])
    chosen = _advised(discussion, question)
    if not chosen and question.ranks:
        chosen = [each for each in causes if set(question.ranks) & set(each.ranks)]
        if not chosen:
            return "No cause was found on the ranks you name, so there is nothing to predict for them."
    if not causes:
        return f"{discussion.diagnosis.headline} No cause was found whose removal could be predicted."
    return blocks(_gain(discussion, each) for each in (chosen or causes))


def how_many_workers(discussion: Discussion, question: Question) -> str:
    """The fewest workers that keep up where a batch's making was recorded, else what to record."""
    if enough := fewest_workers(discussion, question.ranks):
        return blocks([enough, wording("check_workers"), _cheaper_than_workers(discussion)])
    subject = subject_of("data loader")
    return blocks(
        [stated_workers(discussion), wording("unknown_workers"), about(discussion, subject) if subject else ""]
    )


def _cheaper_than_workers(discussion: Discussion) -> str:
    """The cause of the slow loader where it is not too few workers, which hide its work and do not remove it."""
    causes = discussion.diagnosis.causes
    data = next(
        (each for each in causes if each.cause == "slow_data_processing" and known_mechanism(each.mechanism)), None
    )
    if data is None or data.mechanism == "too_few_workers":
        return ""
    key = (data.cause, data.mechanism)
    items = [item for item in discussion.diagnosis.advice if (item.for_, item.mechanism) == key]
    first = f" What to change first: {quoted_from(items[0].optimization, items[0].id)}" if items else ""
    where = on_ranks(data.ranks, discussion.ranks, data.stands_for)
    return wording("workers_hide").format(title=cause_title(data.cause, data.mechanism), where=where) + first


def _supported_first(discussion: Discussion) -> list[AdviceRecord]:
    """The advice as the diagnosis orders it, what is for well supported causes before the rest."""
    causes = discussion.diagnosis.causes
    sure = {(each.cause, each.mechanism) for each in causes if each.confidence >= SUPPORTED}
    return sorted(discussion.diagnosis.advice, key=lambda item: (item.for_, item.mechanism) not in sure)


def _ordered(items: Sequence[AdviceRecord], lead: str) -> str:
    further = bullets(quoted_from(item.optimization, item.id) for item in items[1 : FURTHER + 1])
    return blocks([f"{lead} {in_full(items[0])}", f"After that:\n{further}" if further else ""])


def _meant(causes: Sequence[CauseRecord], subject: Subject) -> list[CauseRecord]:
    same = [each for each in causes if each.cause in subject.causes]
    return [each for each in same if subject.mechanism in (None, each.mechanism)]


def _advised(discussion: Discussion, question: Question) -> list[CauseRecord]:
    """The causes that the advice named in the question is for."""
    named = [discussion.advice[name] for name in question.ids if name in discussion.advice]
    keys = {(item.for_, item.mechanism) for item in named}
    return [each for each in discussion.diagnosis.causes if (each.cause, each.mechanism) in keys]


def _named_advice(discussion: Discussion, question: Question) -> AdviceRecord | None:
    """The advice of this run whose own words a question uses: all its particular ones, one of the title among them."""
    asked = set(_particular(question.words)) - SWITCHES
    if not asked or question.ids:
        return None
    for item in discussion.diagnosis.advice:
        title = set(_stems(normalised(item.optimization)))
        whole = title | set(_stems(normalised(item.how)))
        stems = set(_stems(" ".join(asked)))
        if stems <= whole and stems & title:
            return item
    return None


def _particular(words: str) -> list[str]:
    """The words of a what-if question that name a change of their own."""
    return [word for word in words.split() if not GENERAL.fullmatch(word)]


def _stems(words: str) -> list[str]:
    return [word.removesuffix("s") for word in words.split()]


def _not_predicted(discussion: Discussion, question: Question) -> str:
    """Why a change that is no fix of a cause is not predicted, and what can be asked; empty for a fix."""
    words, causes = question.words, discussion.diagnosis.causes
    titles = dict.fromkeys(cause_title(each.cause, each.mechanism) for each in causes[:CAUSES_LISTED])
    can = bullets(f"“What if I fix {title}?”" for title in titles)
    can = f"What can be asked:\n{can}" if can else ""
    if FREE.search(words):
        return blocks([discussion.say(wording("not_predicted_free")), can])
    if AS_FAST.search(words) and question.ranks:
        alone = [each for each in causes if each.ranks and set(each.ranks) <= set(question.ranks)]
        if len(discussion.ranks) < 2 or not alone:
            return blocks([f"{wording('not_predicted_rank')} no cause was found on it alone.", can])
        lead = f"{wording('not_predicted_rank')} the causes found on it alone follow."
        return blocks([lead, *(_gain(discussion, each) for each in alone)])
    unnamed = question.subject is None and not question.ids and not question.ranks
    if HARDWARE.search(words) or (unnamed and _particular(words)):
        return blocks([wording("not_predicted"), can])
    return ""


def _together(discussion: Discussion, question: Question) -> list[CauseRecord]:
    """The causes a question wants gone at once: several that it names, or all that were found."""
    causes = discussion.diagnosis.causes
    if len(question.subjects) > 1:
        chosen = [each for subject in question.subjects for each in _meant(causes, subject)]
    elif len(set(question.ids) & set(discussion.advice)) > 1:
        chosen = _advised(discussion, question)
    else:
        chosen = list(causes) if ALL.search(question.words) and question.subject is None else []
    return [each for place, each in enumerate(chosen) if each not in chosen[:place]]


def _titles(causes: Sequence[CauseRecord]) -> list[str]:
    return list(dict.fromkeys(cause_title(each.cause, each.mechanism) for each in causes))


def _jointly(discussion: Discussion, causes: Sequence[CauseRecord]) -> str:
    """The step with all of them gone at once, by one replay; what they share is not counted twice."""
    left_out = [each for each in causes if each.method != "replay"]
    causes = [each for each in causes if each.method == "replay"]
    if len(causes) < 2:
        return "They cannot be replayed together, so no joint gain is predicted."
    keys = dict.fromkeys(each.cause + (f"/{each.mechanism}" if each.mechanism else "") for each in causes)
    names = listed(_titles(causes))
    try:
        joint = discussion.say(wording("joint").format(names=names), causes=",".join(keys))
    except UsageError as error:
        return f"What a step would take without {names} together is not predicted: {quoted(str(error))}."
    single = "How much steps vary is not known from a single one." if len(discussion.diagnosis.run.steps) == 1 else ""
    rest = f"Left out because no replay can remove it: {listed(_titles(left_out))}." if left_out else ""
    return paragraph([joint, single, rest])


def _gain(discussion: Discussion, cause: CauseRecord) -> str:
    key, where = (cause.cause, cause.mechanism), on_ranks(cause.ranks, discussion.ranks, cause.stands_for)
    items = [item for item in discussion.diagnosis.advice if (item.for_, item.mechanism) == key and item.text]
    name, impact = f"{cause_title(*key)}{where}", discussion.impact(cause)
    cost = f"{capital(name)} {costs(*key)} {cited(impact)} per step" if impact else ""
    first = discussion.diagnosis.causes[:1] == [cause]
    cost += f"{'' if first else ', not counting what the causes ranked above it take'}." if cost else ""
    # The same cause may be listed for several ranks: the prediction that was measured for these.
    predicted = {item.text: discussion.evidence[item.evidence[0]].arguments for item in items if item.evidence}
    unknown = f"What a step would take without {name} cannot be replayed from this recording."
    exact = (text for text, arguments in predicted.items() if impact and arguments == impact.arguments)
    text = next(exact, items[0].text if items else unknown)
    return paragraph([text.replace("Fixing this", f"Fixing {name}", 1), cost])
