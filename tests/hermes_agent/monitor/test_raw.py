from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_agent.monitor.format import (
    BEGIN_AT,
    FIELDS,
    LARGEST_US,
    RECORD,
    RECORDS_AT,
    SEQUENCE,
    STATE,
    STATE_AT,
    UNKNOWN_US,
)
from hermes_agent.monitor.raw import RAW, RawStep, packed_depths, records
from hermes_agent.monitor.ring import packed_records
from tools.sources.monitor.ring import ring_rows

BEGIN = RawStep(-1, -1, 1_000_000, 500_000, 0, 70, 0, 0, 2, 5, 0, 0, 0, 0)
DTYPE = np.dtype([(name, {"Q": "<u8", "q": "<i8", "I": "<u4", "i": "<i4"}[code]) for name, code in FIELDS])


def test_a_record_is_the_difference_of_two_rows() -> None:
    depths = packed_depths(4, 0, -1)
    row = RawStep(
        0, 17, 9_000_000, 2_500_000, 8, 3_000_070, 1_000_000, 2_000_000, 3, 6, 6_000_000, 1_500_000, depths, 4
    )
    (step,) = records([BEGIN, row], 100)
    assert (step.sequence, step.step, step.end_unix_ns, step.wall_us) == (0, 17, 9_000_100, 8000)
    assert (step.data_wait_us, step.own_us, step.waiting_us) == (3000, 5000, 1000)
    assert (step.gc_us, step.gc_longest_us, step.gc_runs, step.thread_cpu_us) == (2000, 1500, 1, 2000)
    assert (step.fetches, step.samples, step.flags) == (1, 8, 4)
    assert (step.in_flight, step.result_queue, step.pinned_queue) == (4, 0, -1)
    assert step.voluntary_switches == UNKNOWN_US


def test_what_an_earlier_step_left_is_not_taken_for_this_ones() -> None:
    row = BEGIN._replace(sequence=0, clock=2_000_000, ready=900_000, depths=packed_depths(1, 1, 1))
    (step,) = records([BEGIN, row], 0)
    assert step.own_us == UNKNOWN_US
    assert (step.in_flight, step.result_queue, step.pinned_queue) == (-1, -1, -1)


def test_a_row_without_its_predecessor_tells_no_step_and_an_endless_step_is_bounded() -> None:
    assert list(records([BEGIN, BEGIN._replace(sequence=1)], 0)) == []
    (step,) = records([BEGIN, BEGIN._replace(sequence=0, clock=1 << 62)], 0)
    assert step.wall_us == LARGEST_US


@given(
    st.lists(st.lists(st.integers(0, 1 << 40), min_size=12, max_size=12), min_size=1, max_size=12),
    st.integers(2, 9),
)
def test_the_reader_of_files_and_the_monitor_take_the_same_differences(parts: list[list[int]], slots: int) -> None:
    rows = [BEGIN]
    for number, each in enumerate(parts):
        sums = [before + more for before, more in zip(rows[-1][2:10], each[:8], strict=True)]
        ready, longest = sums[0] - each[8] % 1000, each[9]
        rest = (ready, longest, each[10] % (1 << 48), each[11] % 8, 0, 0)
        rows.append(RawStep._make([number, 100 + number, *sums, *rest]))
    data = bytearray(RECORDS_AT + slots * RAW.size)
    STATE.pack_into(data, STATE_AT, len(parts), 0, 0, 55)
    RAW.pack_into(data, BEGIN_AT, *rows[0])
    for row in rows[1:]:
        RAW.pack_into(data, RECORDS_AT + row.sequence % slots * RAW.size, *row)
    kept = rows if len(parts) <= slots else rows[-slots:]
    expected = b"".join(RECORD.pack(*each) for each in records(kept, 55))
    assert ring_rows(bytes(data), DTYPE).tobytes() == expected
    assert packed_records(b"".join(RAW.pack(*row) for row in kept), 55) == expected
    assert SEQUENCE.unpack_from(data, STATE_AT)[0] == len(parts)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(BEGIN._replace(sequence=0, clock=1 << 62), id="an endless step"),
        pytest.param(BEGIN._replace(sequence=0, clock=2_000_000, cpu=0), id="the CPU clock of another thread"),
        pytest.param(BEGIN._replace(sequence=0, clock=2_000_000, samples=1 << 40), id="a count beyond its field"),
        pytest.param(BEGIN._replace(sequence=0), id="no time at all"),
        pytest.param(BEGIN._replace(sequence=1, clock=2_000_000), id="its predecessor is missing"),
    ],
)
def test_what_does_not_fit_a_record_is_packed_as_the_readers_tell_it(row: RawStep) -> None:
    rows = [BEGIN, row, row._replace(sequence=row.sequence + 1, clock=row.clock + 7_000_000, flags=2)]
    expected = [RECORD.pack(*each) for each in records(rows, 55)]
    assert packed_records(b"".join(RAW.pack(*each) for each in rows), 55) == b"".join(expected)
    assert expected


def ring_of(rows: list[RawStep], written: int) -> bytes:
    data = bytearray(RECORDS_AT + 8 * RAW.size)
    STATE.pack_into(data, STATE_AT, written, 0, 0, 0)
    RAW.pack_into(data, BEGIN_AT, *BEGIN)
    for row in rows:
        RAW.pack_into(data, RECORDS_AT + row.sequence * RAW.size, *row)
    return bytes(data)


def test_a_slot_that_is_not_counted_as_written_is_no_step() -> None:
    rows = [BEGIN._replace(sequence=number, clock=(number + 2) * 1_000_000) for number in range(3)]
    assert ring_rows(ring_of(rows, 3), DTYPE)["sequence"].tolist() == [0, 1, 2]
    assert ring_rows(ring_of(rows, 2), DTYPE)["sequence"].tolist() == [0, 1]


def test_sums_that_fall_are_of_no_step() -> None:
    rows = [BEGIN._replace(sequence=number, clock=(number + 2) * 1_000_000) for number in range(3)]
    rows[1] = rows[1]._replace(data=rows[0].data - 1)
    assert ring_rows(ring_of(rows, 3), DTYPE)["sequence"].tolist() == [0, 2]
