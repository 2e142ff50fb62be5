"""What the agent could not use of a run folder: each sentence once, and no more than a reader can take in."""

from __future__ import annotations

MOST = 50


class LeftOut:
    """Sentences on what was left out; ``take`` returns those that are new."""

    def __init__(self) -> None:
        self._said: set[str] = set()
        self._new: list[str] = []

    def add(self, sentence: str) -> None:
        """Note a sentence, unless it was noted before."""
        if sentence in self._said or len(self._said) > MOST:
            return
        self._said.add(sentence)
        self._new.append(sentence if len(self._said) <= MOST else "more was left out than is listed here")

    def take(self) -> list[str]:
        """Return what was noted since the last call."""
        new, self._new = self._new, []
        return new
