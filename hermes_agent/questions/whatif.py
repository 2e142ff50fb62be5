"""What if I fix X? From the predictions of the diagnosis, which come from the replay of the recorded steps."""

from __future__ import annotations

from hermes_agent.questions.discussion import Discussion, cited
from hermes_agent.questions.prose import blocks, capital, paragraph
from hermes_agent.questions.question import Question
from hermes_agent.questions.suspicion import about
from hermes_agent.report.diagnosis import CauseRecord
from hermes_agent.report.wording import cause_title, on_ranks


def what_if(discussion: Discussion, question: Question) -> str:
    """What a step would take without the cause that the question names, else without each cause found."""
    causes = discussion.diagnosis.causes
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


def _of_subject(discussion: Discussion, question: Question) -> str:
    subject = question.subject
    assert subject is not None
    same = [each for each in discussion.diagnosis.causes if each.cause in subject.causes]
    exact = [each for each in same if subject.mechanism in (None, each.mechanism)]
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
