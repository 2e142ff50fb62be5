"""What a what-if changes in a recorded run, as data that the replay applies."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tools.intervals import IntervalSet

HOPED = 1.5  # an estimated factor may be better than estimated; time that goes entirely (factor 0) cannot


@dataclass(frozen=True, eq=False)
class Scale:
    """Time inside ``intervals`` on one track takes ``factor`` times as long, ``cautious_factor`` cautiously.

    Where the factor is ``asked`` for and no estimate, there is no hope that it is better.
    """

    rank: int
    track: int
    intervals: IntervalSet
    factor: float = 0.0
    cautious_factor: float = 0.5
    asked: bool = False

    def cautious(self) -> Scale:
        """The same change, achieving no more than its cautious view."""
        return replace(self, factor=self.cautious_factor)

    def hopeful(self) -> Scale:
        """The same change, taking away half as much again, but never more than there is."""
        if self.asked or self.factor >= 1.0:
            return self
        return replace(self, factor=max(0.0, 1.0 - HOPED * (1.0 - self.factor)))


@dataclass(frozen=True, eq=False)
class Unblock:
    """The host no longer waits in these calls or in calls inside these spans; ``cautious_share`` of them may still."""

    rank: int
    rows: NDArray[np.int64]
    cautious_share: float = 0.5

    def cautious(self) -> Unblock:
        """The same change for all but ``cautious_share`` of the rows."""
        return replace(self, rows=_part(self.rows, 1.0 - self.cautious_share))

    def hopeful(self) -> Unblock:
        """The same change: no more than all of the rows can be freed."""
        return self


@dataclass(frozen=True, eq=False)
class Omit:
    """These collectives of one rank no longer take place: no transfer, and no waiting for the other ranks in them."""

    rank: int
    rows: NDArray[np.int64]
    cautious_share: float = 0.5  # of them may have to stay

    def cautious(self) -> Omit:
        """The same change for all but ``cautious_share`` of the rows."""
        return replace(self, rows=_part(self.rows, 1.0 - self.cautious_share))

    def hopeful(self) -> Omit:
        """The same change: no more than all of the rows can go."""
        return self


def _part(rows: NDArray[np.int64], share: float) -> NDArray[np.int64]:
    """That share of the rows, evenly spread."""
    freed = np.diff(np.floor(np.arange(len(rows) + 1) * share)) > 0
    return np.asarray(np.sort(rows)[freed])


Change: TypeAlias = tuple[Scale | Unblock | Omit, ...]


def fingerprint(change: Change) -> str:
    """Equal for changes that a replay cannot tell apart, whichever objects they are made of."""
    digest = hashlib.blake2b(digest_size=16)
    for part in change:
        where = (part.track, part.factor) if isinstance(part, Scale) else ()
        applied = part.intervals if isinstance(part, Scale) else part.rows
        digest.update(repr((type(part).__name__, part.rank, where, applied.dtype.str, applied.shape)).encode())
        digest.update(applied.tobytes())
    return digest.hexdigest()
