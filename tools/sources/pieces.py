"""A stream of bytes from which a binary format takes as many as it states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class Pieces:
    """Takes bytes from pieces of any size; holds one piece and what was asked for."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces: Iterator[bytes] = iter(pieces)
        self._held = b""
        self._at = 0

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes; fewer where the stream ends before."""
        end = self._at + count
        if end <= len(self._held):
            taken, self._at = self._held[self._at : end], end
            return taken
        found = [self._held[self._at :]]
        missing = count - len(found[0])
        self._held, self._at = b"", 0
        for piece in self._pieces:
            if len(piece) >= missing:
                self._held, self._at = piece, missing
                found.append(piece[:missing])
                break
            found.append(piece)
            missing -= len(piece)
        return b"".join(found)

    def skip(self, count: int) -> int:
        """Pass over bytes without holding them; returns how many there were."""
        left = count
        while left > 0 and (taken := len(self.take(min(left, 1 << 18)))):
            left -= taken
        return count - left
