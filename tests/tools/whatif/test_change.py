"""Changes that a replay cannot tell apart have one fingerprint, all others different ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tools.intervals import distinct
from tools.whatif.change import Change, Omit, Scale, Unblock, fingerprint


def scale(factor: float = 0.5, track: int = 1, rank: int = 0, end: int = 20) -> Scale:
    return Scale(rank, track, np.array([[10, end], [30, 40]], dtype=np.int64), factor, 0.75)


def test_equal_changes_of_different_objects_have_one_fingerprint() -> None:
    assert fingerprint((scale(), scale(track=2))) == fingerprint((scale(), scale(track=2)))
    gone = scale(factor=0.0)
    assert fingerprint((gone,)) == fingerprint((gone.hopeful(),))
    assert fingerprint((scale(),)) == fingerprint((replace(scale(), cautious_factor=0.9),))


def test_whatever_a_replay_sees_changes_the_fingerprint() -> None:
    rows = np.array([3, 5], dtype=np.int64)
    changes: list[Change] = [
        (),
        (scale(),),
        (scale(factor=0.6),),
        (scale(track=2),),
        (scale(rank=1),),
        (scale(end=21),),
        (scale(), scale()),
        (Unblock(0, rows),),
        (Omit(0, rows),),
        (Omit(0, rows[:1]),),
        (Omit(1, rows),),
    ]

    assert len({fingerprint(change) for change in changes}) == len(changes)


@given(st.lists(st.integers(-5, 5)))
def test_distinct_moments_are_ascending_and_without_repetition(moments: list[int]) -> None:
    assert distinct(np.array(moments, dtype=np.int64)).tolist() == sorted(set(moments))
