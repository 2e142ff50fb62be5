"""The query and the answer of recall."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CaseQuery:
    """A slow-down to find the like of: free text, the signature of findings, or both.

    ``causes``, ``mechanisms`` and ``families`` are taxonomy ids; ``signals`` are short phrases.
    ``framework`` and ``hardware`` only order cases that match otherwise.
    """

    text: str = ""
    causes: tuple[str, ...] = ()
    mechanisms: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    signals: tuple[str, ...] = ()
    framework: str = ""
    hardware: str = ""

    @property
    def words(self) -> str:
        """The text and the signals, one per line."""
        return "\n".join(part for part in (self.text, *self.signals) if part.strip())

    @property
    def has_signature(self) -> bool:
        """Return whether a cause, mechanism or family is named."""
        return bool(self.causes or self.mechanisms or self.families)


@dataclass(frozen=True)
class CaseHit:
    """A similar case; ``similarity`` runs from 0 to 1 and ``why`` says in words what made it similar.

    ``shared_signals`` are the case's own signals that the query speaks of. ``private`` marks a team's own case, which
    lies in ``file``.
    """

    id: str
    title: str
    url: str
    cause: str
    family: str
    similarity: float
    shared_signals: tuple[str, ...]
    why: str
    private: bool = False
    conflicts: tuple[str, ...] = ()
    file: str = ""


@dataclass(frozen=True)
class Recall:
    """Similar cases, best first; or none, and ``abstained`` says in one sentence why."""

    hits: tuple[CaseHit, ...]
    abstained: str = ""
