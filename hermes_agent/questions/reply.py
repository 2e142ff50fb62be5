"""From a question to an answer with its evidence."""

from __future__ import annotations

from dataclasses import dataclass

from hermes_agent.evidence.verifier import cited_ids
from hermes_agent.model.diagnosis import EvidenceRecord
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.foreign import in_english
from hermes_agent.questions.intents import answer_text
from hermes_agent.questions.prose import unbracketed
from hermes_agent.questions.question import read_question
from tools.errors import UsageError

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
