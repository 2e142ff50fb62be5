"""The ledger: every fact that reaches a reader gets one id, and the same measurement always the same id."""

from __future__ import annotations

from dataclasses import dataclass

from tools.findings import Fact


@dataclass(frozen=True)
class Entry:
    """One fact in the ledger."""

    id: str
    fact: Fact


class Ledger:
    """Facts by id, in the order in which they were first cited."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._ids: dict[object, str] = {}

    def cite(self, fact: Fact) -> str:
        """The id of this fact; a new one when it was not cited before."""
        if fact.key not in self._ids:
            identifier = f"E{len(self._entries) + 1}"
            self._ids[fact.key] = identifier
            self._entries[identifier] = Entry(identifier, fact)
        return self._ids[fact.key]

    def entry(self, identifier: str) -> Entry | None:
        """The entry of that id, if there is one."""
        return self._entries.get(identifier)

    def entries(self) -> tuple[Entry, ...]:
        """All entries in order."""
        return tuple(self._entries.values())
