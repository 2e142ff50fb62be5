"""The diagnosis and discussion that a remote model may know: everything but a team's own cases."""

from __future__ import annotations

from case_library.retrieval.query import CaseHit, CaseQuery, Recall
from hermes_agent.config.settings import Settings
from hermes_agent.evidence.citations import cited_ids
from hermes_agent.evidence.index import EvidenceIndex, evidence_index
from hermes_agent.model.diagnosis import CaseRecord, Diagnosis
from hermes_agent.questions.discussion import Discussion


def sendable(diagnosis: Diagnosis, settings: Settings) -> Diagnosis:
    """The diagnosis as the configured model may read it."""
    return diagnosis if settings.sends_private_cases else without_private_cases(diagnosis)


def sendable_discussion(discussion: Discussion, settings: Settings) -> Discussion:
    """The discussion as the configured model may read it and search in it."""
    return discussion if settings.sends_private_cases else PublicDiscussion(discussion)


def without_private_cases(diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis without private cases, the references to them and the sentences that cite them."""
    dropped = {record.id for record in diagnosis.cases if record.private}
    if not dropped:
        return diagnosis
    return diagnosis.model_copy(
        update={
            "cases": [record for record in diagnosis.cases if not record.private],
            "advice": [
                item.model_copy(update={"cases": [name for name in item.cases if name not in dropped]})
                for item in diagnosis.advice
            ],
            "answer": [line for line in diagnosis.answer if not dropped.intersection(cited_ids(line))],
        }
    )


class PublicDiscussion(Discussion):
    """A discussion without private cases; what it measures and recalls keeps its id in the whole discussion."""

    def __init__(self, whole: Discussion) -> None:
        super().__init__(without_private_cases(whole.diagnosis), whole.material)
        self.ledger, self.results = whole.ledger, whole.results
        self._whole = whole

    def recall(self, query: CaseQuery, limit: int = 3) -> Recall:
        """Similar public cases."""
        index = self.material.cases()
        return index.search(query, limit, without=index.private_ids)

    def case(self, hit: CaseHit) -> CaseRecord:
        """The record of a recalled public case, numbered with the private ones."""
        return self._whole.case(hit)

    @property
    def cases(self) -> tuple[CaseRecord, ...]:
        """All recalled public cases, old and new."""
        return tuple(record for record in self._whole.cases if not record.private)

    def index(self) -> EvidenceIndex:
        """The ids that an answer may cite, none of a private case."""
        return evidence_index(self.diagnosis, self.ledger.added(), self.cases)
