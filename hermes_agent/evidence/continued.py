"""A ledger that goes on where a stored diagnosis ended, so that later figures get later ids."""

from __future__ import annotations

from collections.abc import Sequence

from hermes_agent.evidence.ledger import Ledger
from hermes_agent.report.diagnosis import EvidenceRecord
from hermes_agent.report.records import evidence_record
from tools.findings import Fact


class ContinuedLedger(Ledger):
    """Knows the figures of a diagnosis by their measurement; a new one is numbered after the last of them."""

    def __init__(self, known: Sequence[EvidenceRecord]) -> None:
        super().__init__()
        self._known = {_key(record): record.id for record in known}
        self._last = max((int(record.id[1:]) for record in known), default=0)
        self._added: dict[object, EvidenceRecord] = {}

    def cite(self, fact: Fact) -> str:
        """The id the measurement has in the diagnosis or got since; a new one when it has none."""
        if fact.key in self._known:
            return self._known[fact.key]
        if fact.key not in self._added:
            self._added[fact.key] = evidence_record(f"E{self._last + len(self._added) + 1}", fact)
        return self._added[fact.key].id

    def added(self) -> tuple[EvidenceRecord, ...]:
        """What was cited beyond the diagnosis, in order."""
        return tuple(self._added.values())


def _key(record: EvidenceRecord) -> object:
    return record.run, record.metric, tuple(sorted(record.arguments.items()))
