"""The ledger: every fact that reaches a reader gets one id, and sentences with facts become text with citations."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hermes_agent.evidence.citations import written
from hermes_agent.evidence.journal import Journal
from hermes_agent.evidence.printable import printable
from hermes_agent.evidence.session_ids import GivenIds
from hermes_agent.model.diagnosis import EvidenceRecord, SourceSelector
from tools.findings import Fact, Sentence
from tools.quotes import NAME_LIMIT as NAME_LIMIT
from tools.quotes import quoted as quoted

ONE = re.compile(r"(?<![\d.,])(1 \[E\d+\]) (collective|step|stage|call|group|kernel|rank)s\b")  # counts of one


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
    """Continues the numbers of a diagnosis, its journal and its session; what was measured before keeps its id."""

    def __init__(
        self, known: Sequence[EvidenceRecord], journal: Journal | None = None, given: GivenIds | None = None
    ) -> None:
        super().__init__()
        given = given or GivenIds()
        self._journal = journal or Journal(None)
        self._known = {_key(record): record.id for record in known}
        self._earlier = {(_key(record), record.value): record.id for record in given.of(EvidenceRecord)}
        self._last = max([given.last.get("E", 0), *(int(record.id[1:]) for record in known)])

    def cite(self, fact: Fact) -> str:
        """The id the measurement has in the diagnosis or got since; a new one when it has none."""
        if fact.key not in self._known:
            record = self._journal.add_evidence(
                lambda other: _key(other) == fact.key and other.value == fact.value,
                lambda identifier: evidence_record(self._earlier.get((fact.key, fact.value), identifier), fact),
                self._last,
            )
            self._known[fact.key] = record.id
        return self._known[fact.key]

    def added(self) -> tuple[EvidenceRecord, ...]:
        """The figures cited beyond the diagnosis, in this call and in earlier ones, in order."""
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


def render(sentence: Sentence, ledger: Ledger) -> str:
    """The sentence with every fact written out and cited."""
    places: dict[str, str] = {}
    for index, fact in enumerate(sentence.facts):
        places[str(index)] = f"{written(fact.value, fact.unit)} [{ledger.cite(fact)}]"
    for index, name in enumerate(sentence.names):
        places[f"n{index}"] = quoted(name)
    text = ONE.sub(r"\1 \2", _Places().vformat(sentence.template, (), places))
    return text[:1].upper() + text[1:]


def render_all(sentences: Iterable[Sentence], ledger: Ledger) -> list[str]:
    """Several sentences, in order."""
    return [render(sentence, ledger) for sentence in sentences]


class _Places(string.Formatter):
    """Looks every field up by its text; positions are names here."""

    def get_value(self, key: int | str, args: object, kwargs: object) -> str:
        assert isinstance(kwargs, dict)
        return str(kwargs[str(key)])
