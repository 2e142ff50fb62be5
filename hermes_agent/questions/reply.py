"""From a question to an answer whose every sentence stands up to the evidence."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_agent.evidence.verifier import cited_ids, verify
from hermes_agent.model.diagnosis import EvidenceRecord
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.foreign import in_english
from hermes_agent.questions.intents import answer_text
from hermes_agent.questions.question import read_question
from tools.errors import UsageError

NOT_MEASURABLE = "not_measurable"
DROPPED = "A sentence was left out because it could not be verified."


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
        intent, written = NOT_MEASURABLE, _refused(discussion, str(error))
    if foreign:
        written = f"Understood from {foreign.language} as `{foreign.question}`; answers are in English.\n\n{written}"
    kept, notes = _verified(discussion, written)
    known = discussion.evidence
    cited = dict.fromkeys(name for name in cited_ids(kept) if name in known)
    return Reply(kept, tuple(known[name] for name in cited), intent, notes)


def _refused(discussion: Discussion, reason: str) -> str:
    """The reason in plain words, in back quotes where they could be mistaken for a measurement."""
    lead, grounds = "That cannot be measured on this run", discussion.grounds()
    plain, quoted = f"{lead}: {reason}.", f"{lead}: `{reason.replace('`', '')}`."
    return quoted if verify(plain, grounds) else plain


def _verified(discussion: Discussion, text: str) -> tuple[str, tuple[str, ...]]:
    """The text without sentences that the evidence does not bear out; templates leave none, names from a run might."""
    problems = verify(text, discussion.grounds())
    for problem in problems:
        text = text.replace(problem.sentence, "")
    return text.strip(), (DROPPED,) if problems else ()
