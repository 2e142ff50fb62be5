"""What a rank writes when a step has ended: clocks and running sums as they are. Others take the differences.

Between two steps the caches are cold, and every call and object costs more than it looks: the training thread stores
whole numbers one by one, without packing, converting or subtracting anything.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

from hermes_agent.monitor.format import LARGEST_US, RECORDS_AT, REQUEST_AT, STATE_AT, UNKNOWN_US, StepRecord

RAW = struct.Struct("<16q")
WORDS = 16
WORD_BYTES = 8
RECORDS_WORD = RECORDS_AT // WORD_BYTES
REQUEST_WORD = REQUEST_AT // WORD_BYTES
WRITTEN_WORD = STATE_AT // WORD_BYTES
DEPTH_BITS = 16

# Places in the running sums that the watches of one process share.
DATA, WAITING, GC, GC_RUNS, FETCHES, READY, GC_LONGEST, DEPTHS, FLAGS = range(9)


def new_totals() -> list[int]:
    """The running sums of one process, all 0."""
    return [0] * 9


class RawStep(NamedTuple):
    """One slot of a ring; times in ns, sums since the start of the monitor.

    ``ready`` is the clock at the last gradient, ``depths`` what the last fetch found, both of this step or an earlier
    one; ``gc_longest`` is of this step only. ``depths`` holds the three queue depths, each one more than it is and 0
    where it is unknown.
    """

    sequence: int
    step: int
    clock: int
    cpu: int
    samples: int
    data: int
    waiting: int
    gc: int
    gc_runs: int
    fetches: int
    ready: int
    gc_longest: int
    depths: int
    flags: int
    spare: int = 0
    also_spare: int = 0


def packed_depths(*depths: int) -> int:
    """Three queue depths, -1 for unknown, in one number."""
    first, second, third = (min(max(each + 1, 0), (1 << DEPTH_BITS) - 1) for each in depths)
    return first | second << DEPTH_BITS | third << 2 * DEPTH_BITS


def records(rows: Iterable[RawStep], unix_at_zero_ns: int) -> Iterator[StepRecord]:
    """The step of each row whose predecessor comes just before it."""
    for before, now in pairwise(rows):
        if now.sequence == before.sequence + 1:
            yield _record(before, now, unix_at_zero_ns)


def _record(before: RawStep, now: RawStep, unix_at_zero_ns: int) -> StepRecord:
    mask = (1 << DEPTH_BITS) - 1
    depths = now.depths if now.fetches > before.fetches else 0
    own_us = _us(now.ready - before.clock) if now.ready > before.clock else UNKNOWN_US
    return StepRecord(
        now.sequence,
        now.step,
        now.clock + unix_at_zero_ns,
        max(_us(now.clock - before.clock), 1),
        _us(now.data - before.data),
        own_us,
        _us(now.waiting - before.waiting),
        _us(now.gc - before.gc),
        _us(now.gc_longest),
        _count(now.gc_runs - before.gc_runs),
        _us(now.cpu - before.cpu),
        UNKNOWN_US,
        UNKNOWN_US,
        UNKNOWN_US,
        _count(now.fetches - before.fetches),
        _count(now.samples),
        (depths & mask) - 1,
        (depths >> DEPTH_BITS & mask) - 1,
        (depths >> 2 * DEPTH_BITS & mask) - 1,
        _count(now.flags),
    )


def _us(span_ns: int) -> int:
    return min(max(span_ns // 1000, 0), LARGEST_US)


def _count(number: int) -> int:
    return min(max(number, 0), LARGEST_US)
