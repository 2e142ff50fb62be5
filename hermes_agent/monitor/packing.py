"""Rows of a ring as packed step records: what the flushing thread does with every step, hence flat and plain."""

from __future__ import annotations

import struct

from hermes_agent.monitor.layout import RECORD, UNKNOWN_DEPTH, UNKNOWN_US
from hermes_agent.monitor.raw import DEPTH_BITS, RAW, RawStep, records

MASK = (1 << DEPTH_BITS) - 1
UNCOUNTED = (UNKNOWN_US,) * 3


def packed_records(rows: bytes, unix_at_zero_ns: int) -> bytes:
    """The records of all rows but the first, which is the one before; as ``raw.records`` tells them.

    A row whose predecessor does not come just before it is left out.
    """
    try:
        return _plain(rows, unix_at_zero_ns)
    except struct.error:  # a number does not fit its field: a sum fell, or a step took longer than an hour
        each = records(map(RawStep._make, RAW.iter_unpack(rows)), unix_at_zero_ns)
        return b"".join(RECORD.pack(*one) for one in each)


def _plain(rows: bytes, unix_at_zero_ns: int) -> bytes:
    """Without bounds: ``struct.error`` where a number is out of them, or is the mark of an unknown one."""
    pack, done = RECORD.pack, []
    unpacked = RAW.iter_unpack(rows)
    last, _, clock_0, cpu_0, _, data_0, waiting_0, gc_0, runs_0, fetches_0, *_ = next(unpacked)
    for row in unpacked:
        number, step, clock, cpu, samples, data, waiting, gc, runs, fetches, ready, longest, depths, flags, _, _ = row
        if number == last + 1:
            one = two = three = UNKNOWN_DEPTH
            if depths and fetches > fetches_0:
                one = (depths & MASK) - 1
                two = (depths >> DEPTH_BITS & MASK) - 1
                three = (depths >> 2 * DEPTH_BITS & MASK) - 1
            wall, data_us, waiting_us = (
                (clock - clock_0) // 1000 or 1,
                (data - data_0) // 1000,
                (waiting - waiting_0) // 1000,
            )
            own_us = (ready - clock_0) // 1000 if ready > clock_0 else -1
            gc_us, longest_us, cpu_us = (gc - gc_0) // 1000, longest // 1000, (cpu - cpu_0) // 1000
            more_runs, more_fetches = runs - runs_0, fetches - fetches_0
            told = (wall, data_us, own_us, waiting_us, gc_us, longest_us, more_runs, cpu_us, more_fetches, samples)
            if UNKNOWN_US in told:
                raise struct.error("a number that would read as unknown")
            own_us = UNKNOWN_US if own_us < 0 else own_us
            at = clock + unix_at_zero_ns
            times = (wall, data_us, own_us, waiting_us, gc_us, longest_us, more_runs, cpu_us)
            done.append(pack(number, step, at, *times, *UNCOUNTED, more_fetches, samples, one, two, three, flags))
        last, clock_0, cpu_0, data_0, waiting_0 = number, clock, cpu, data, waiting
        gc_0, runs_0, fetches_0 = gc, runs, fetches
    return b"".join(done)
