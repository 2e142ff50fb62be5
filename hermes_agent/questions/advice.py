"""The run in short, what to change and what a fix would bring."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hermes_agent.evidence.sentences import quoted
from hermes_agent.model.diagnosis import AdviceRecord, CauseRecord
from hermes_agent.model.display import cause_title, on_ranks
from hermes_agent.questions.causes import about
from hermes_agent.questions.discussion import Discussion, cited
from hermes_agent.questions.prose import blocks, bullets, capital, general, listed, paragraph, quoted_from
from hermes_agent.questions.question import Question
from hermes_agent.questions.recording import no_such_rank
from hermes_agent.questions.subjects import Subject, subject_of
from hermes_agent.report.text import EFFORTS
from tools.errors import UsageError
from tools.findings import Fact

CAUSES_TOLD = 3
MEASUREMENTS_TOLD = 3


def summarise(discussion: Discussion, _: Question) -> str:
    """The verdict, the causes and the first change to make."""
    diagnosis = discussion.diagnosis
    return blocks(
        [
            paragraph(diagnosis.answer),
            bullets(cause.claim for cause in diagnosis.causes[:CAUSES_TOLD]),
            _first_change(discussion),
            _open_questions(discussion),
        ]
    )


def _first_change(discussion: Discussion) -> str:
    if not discussion.diagnosis.advice:
        return ""
    item = discussion.diagnosis.advice[0]
    return paragraph(["What to change first:", quoted_from(item.optimization, item.id), item.text])


def _open_questions(discussion: Discussion) -> str:
    """Without a verdict, what to measure next."""
    diagnosis = discussion.diagnosis
    if diagnosis.verdict != "inconclusive" or not diagnosis.next_measurements:
        return ""
    needs = [general(need) for need in diagnosis.next_measurements[:MEASUREMENTS_TOLD]]
    return "To know more, record:\n" + bullets(f"{need}." for need in needs)


FURTHER = 4


def what_to_change(discussion: Discussion, question: Question) -> str:
    """The first change in full and the next ones by title; for a cause that was named, the changes for it."""
    subject = question.subject
    advice = discussion.diagnosis.advice
    if subject is not None:
        chosen = [item for item in advice if item.for_ in subject.causes]
        if subject.mechanism and any(item.mechanism == subject.mechanism for item in chosen):
            chosen = [item for item in chosen if item.mechanism == subject.mechanism]
        if not chosen:
            lead = f"There is no advice on {subject.title} for this run, because it was not found as a cause."
            return blocks([lead, about(discussion, subject)])
        return _ordered(discussion, chosen, "For that, change this first:")
    if not advice:
        return _nothing(discussion)
    return _ordered(discussion, advice, "Change this first:")


def _ordered(discussion: Discussion, items: Sequence[AdviceRecord], lead: str) -> str:
    further = [quoted_from(item.optimization, item.id) for item in items[1 : FURTHER + 1]]
    return blocks(
        [
            f"{lead} {in_full(discussion, items[0])}",
            "After that:\n" + bullets(further) if further else "",
        ]
    )


def in_full(discussion: Discussion, item: AdviceRecord) -> str:
    """One piece of advice: what, how, what it brings, risk, how to verify, and the cases like it."""
    for_cause = cause_title(item.for_, item.mechanism)
    cases = [f"[{name}]" for name in item.cases]
    parts = [
        quoted_from(item.optimization, item.id),
        f"It is for {for_cause} and takes {EFFORTS.get(item.effort, 'some time')} of work [{item.id}].",
    ]
    return blocks(
        [
            paragraph(parts),
            paragraph(["How:", quoted_from(item.how, item.id)]),
            item.text or "What it would bring cannot be replayed from this recording.",
            paragraph(["Risk:", quoted_from(item.risk, item.id)]),
            paragraph(["To verify:", quoted_from(item.verify, item.id)]),
            f"Cases like it: {listed(cases)}." if cases else "",
        ]
    )


def _nothing(discussion: Discussion) -> str:
    lead = discussion.diagnosis.headline
    if discussion.diagnosis.verdict == "healthy":
        return paragraph([lead, "Nothing was found that would be worth changing."])
    return paragraph([lead, "No cause was found that could be advised on; ask what could not be checked."])


ALL = re.compile(r"\b(everything|every (cause|problem)|both|all (of )?(them|causes|problems|these|this)|all)\b")


def what_if(discussion: Discussion, question: Question) -> str:
    """What a step would take without the cause that the question names, else without each cause found."""
    causes = discussion.diagnosis.causes
    if len(together := _together(discussion, question)) > 1:
        return blocks([_jointly(discussion, together), *(_gain(discussion, each) for each in together)])
    if question.subject is not None:
        return _of_subject(discussion, question)
    advised = [discussion.advice[name] for name in question.ids if name in discussion.advice]
    chosen = [each for each in causes if any((a.for_, a.mechanism) == (each.cause, each.mechanism) for a in advised)]
    if not chosen and question.ranks:
        chosen = [each for each in causes if set(question.ranks) & set(each.ranks)]
        if not chosen:
            return "No cause was found on the ranks you name, so there is nothing to predict for them."
    if not causes:
        return f"{discussion.diagnosis.headline} No cause was found whose removal could be predicted."
    return blocks(_gain(discussion, each) for each in (chosen or causes))


def _together(discussion: Discussion, question: Question) -> list[CauseRecord]:
    """The causes a question wants gone at once: several that it names, or all that were found."""
    causes = discussion.diagnosis.causes
    advised = [discussion.advice[name] for name in question.ids if name in discussion.advice]
    if len(question.subjects) > 1:
        chosen = [each for subject in question.subjects for each in _meant(causes, subject)]
    elif len(advised) > 1:
        keys = [(item.for_, item.mechanism) for item in advised]
        chosen = [each for each in causes if (each.cause, each.mechanism) in keys]
    elif ALL.search(question.words) and question.subject is None:
        chosen = list(causes)
    else:
        chosen = []
    return [each for place, each in enumerate(chosen) if each not in chosen[:place]]


def _meant(causes: Sequence[CauseRecord], subject: Subject) -> list[CauseRecord]:
    same = [each for each in causes if each.cause in subject.causes]
    return [each for each in same if subject.mechanism in (None, each.mechanism)]


def _jointly(discussion: Discussion, causes: Sequence[CauseRecord]) -> str:
    """The step with all of them gone at once, by one replay; what they share is not counted twice."""
    left_out = [each for each in causes if each.method != "replay"]
    causes = [each for each in causes if each.method == "replay"]
    if len(causes) < 2:
        return "They cannot be replayed together, so no joint gain is predicted."
    keys = dict.fromkeys(each.cause + (f"/{each.mechanism}" if each.mechanism else "") for each in causes)
    names = listed(list(dict.fromkeys(cause_title(each.cause, each.mechanism) for each in causes)))
    together = {"causes": ",".join(keys)}
    try:
        facts = [discussion.measure("joint_step_ms", **together)]
        facts += [discussion.measure("joint_speedup", bound=bound, **together) for bound in ("expected", "low", "high")]
    except UsageError as error:
        return f"What a step would take without {names} together is not predicted: {quoted(str(error))}."
    text = (
        f"With {names} all gone a step would take {{0}}, {{1}} faster; expect between {{2}} and {{3}}. "
        "They are replayed together, so what they share is counted once."
    )
    single = "How much steps vary is not known from a single one." if len(discussion.diagnosis.run.steps) == 1 else ""
    without = listed([cause_title(each.cause, each.mechanism) for each in left_out]) if left_out else ""
    rest = f"Left out because no replay can remove it: {without}." if without else ""
    return paragraph([discussion.say(text, *facts), single, rest])


def _of_subject(discussion: Discussion, question: Question) -> str:
    subject = question.subject
    assert subject is not None
    same = [each for each in discussion.diagnosis.causes if each.cause in subject.causes]
    exact = _meant(same, subject)
    if exact or (same and subject.mechanism is None):
        return blocks(_gain(discussion, each) for each in exact or same)
    lead = f"{capital(subject.title)} was not found as a cause of this run, so no gain from fixing it is predicted."
    return blocks([lead, about(discussion, subject)])


def _gain(discussion: Discussion, cause: CauseRecord) -> str:
    texts = [
        item.text
        for item in discussion.diagnosis.advice
        if (item.for_, item.mechanism) == (cause.cause, cause.mechanism) and item.text
    ]
    where = on_ranks(cause.ranks, discussion.diagnosis.run.ranks)
    name = f"{cause_title(cause.cause, cause.mechanism)}{where}"
    impact = discussion.impact(cause)
    share = (
        f"{capital(name)} costs {cited(impact)} per step, nothing counted that the causes ranked above it take."
        if impact
        else ""
    )
    if texts:
        return paragraph([_of_ranks(texts, where), share])
    return paragraph([f"What a step would take without {name} cannot be replayed from this recording.", share])


def _of_ranks(texts: list[str], where: str) -> str:
    """The same cause may be listed for several ranks: the prediction that names them."""
    return next((text for text in texts if where in text), texts[0])


MEASURE_IT = (
    "Add one or two for handing batches over, keep the workers of all ranks on a machine below its cores, and record "
    "again: the wait for data should be gone, and more workers than that bring nothing."
)
UNKNOWN = (
    "How many are needed cannot be told from this recording: the time to make a batch shows only where the training "
    "process loads the data itself. What it needs: a recording of a few steps with `num_workers=0`, and the number of "
    "cores. Failing that, double the workers until the wait for data no longer falls."
)


def how_many_workers(discussion: Discussion, question: Question) -> str:
    """The fewest workers that keep up where a batch's making was recorded, else what would tell."""
    if refusal := no_such_rank(discussion, question):
        return refusal
    profile = discussion.material.profile()
    ranks = question.ranks or profile.run.rank_numbers
    least = {rank: fact for rank in ranks if (fact := _least(discussion, rank)) is not None}
    if least:
        rank = max(least, key=lambda each: least[each].value)
        return blocks([_told(discussion, rank, several=len(least) > 1), MEASURE_IT])
    subject = subject_of("data loader")
    return blocks([UNKNOWN, about(discussion, subject) if subject else ""])


def _least(discussion: Discussion, rank: int) -> Fact | None:
    try:
        return discussion.measure("loader_workers_least", rank=rank)
    except UsageError:
        return None


def _told(discussion: Discussion, rank: int, *, several: bool) -> str:
    where = f" on rank {rank}, which needs no fewer than the others" if several else ""
    facts = [
        discussion.measure("loader_workers_least", rank=rank),
        discussion.measure("loader_span_ms", rank=rank),
        discussion.measure("part_ms", part="data_wait", rank=rank),
    ]
    text = (
        f"At least {{0}}{where}: the training process makes each batch itself, for {{1}} per step, and the step waits "
        "{2} for it; that many processes make batches as fast as the rest of the step uses them."
    )
    return discussion.say(text, *facts)


def against_baseline(discussion: Discussion, _: Question) -> str:
    """The comparison that the diagnosis holds, or how to get one."""
    comparison = discussion.diagnosis.comparison
    if comparison is None:
        return (
            "This run was diagnosed without a baseline, so there is nothing to compare with. "
            "`hermes-dx compare BEFORE AFTER` compares two runs, and `--baseline RUN` makes it part of the diagnosis."
        )
    return blocks([comparison.headline, bullets(comparison.changes)])
