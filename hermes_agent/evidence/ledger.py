"""The ledger: every fact that reaches a reader gets one id, and the same measurement always the same id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hermes_agent.evidence.journal import Journal
from hermes_agent.evidence.printable import printable
from hermes_agent.model.diagnosis import EvidenceRecord, SourceSelector
from tools.findings import Fact


@dataclass(frozen=True)
class Entry:
    """One fact in the ledger."""

    id: str
    fact: Fact


class Ledger:
    """Facts by id, in the order in which they were first cited."""

    def __init__(self) -> None:
        self._entries: dict[object, Entry] = {}

    def cite(self, fact: Fact) -> str:
        """The id of this fact; a new one when it was not cited before."""
        return self._entries.setdefault(fact.key, Entry(f"E{len(self._entries) + 1}", fact)).id

    def entries(self) -> tuple[Entry, ...]:
        """All entries in order."""
        return tuple(self._entries.values())


class ContinuedLedger(Ledger):
    """Knows the figures of a diagnosis by their measurement; a new one is numbered after the last of them.

    With a journal the numbers go on where earlier calls ended, and what they measured keeps its id.
    """

    def __init__(self, known: Sequence[EvidenceRecord], journal: Journal | None = None) -> None:
        super().__init__()
        self._journal = journal or Journal(None)
        self._known = {_key(record): record.id for record in known}
        self._last = max((int(record.id[1:]) for record in known), default=0)

    def cite(self, fact: Fact) -> str:
        """The id the measurement has in the diagnosis or got since; a new one when it has none."""
        if fact.key not in self._known:
            record = self._journal.add_evidence(
                lambda other: _key(other) == fact.key and other.value == fact.value,
                lambda identifier: evidence_record(identifier, fact),
                self._last,
            )
            self._known[fact.key] = record.id
        return self._known[fact.key]

    def added(self) -> tuple[EvidenceRecord, ...]:
        """What was cited beyond the diagnosis, in this call and in earlier ones, in order."""
        return self._journal.evidence()


def _key(record: EvidenceRecord) -> object:
    return record.run, record.metric, tuple(sorted(record.arguments.items()))


def evidence_record(identifier: str, fact: Fact) -> EvidenceRecord:
    """One figure, and the call that gives it again."""
    return EvidenceRecord(
        id=identifier,
        metric=fact.metric,
        arguments=dict(fact.arguments),
        value=fact.value,
        unit=fact.unit,
        ranks=list(fact.ranks),
        steps=list(fact.steps),
        window_ns=fact.window_ns,
        source=SourceSelector(path=printable(fact.path), selector=printable(fact.selector)),
        run=fact.run,
    )
