"""What if I fix X? From the predictions of the diagnosis, which come from the replay of the recorded steps."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hermes_agent.evidence.sentences import quoted
from hermes_agent.model.diagnosis import CauseRecord
from hermes_agent.model.display import cause_title, on_ranks
from hermes_agent.questions.discussion import Discussion, cited
from hermes_agent.questions.prose import blocks, capital, listed, paragraph
from hermes_agent.questions.question import Question
from hermes_agent.questions.subjects import Subject
from hermes_agent.questions.suspicion import about
from tools.errors import UsageError

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
