from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_agent.monitor.format import (
    BEGIN_AT,
    LARGEST_US,
    RAW,
    RECORD,
    RECORDS_AT,
    SEQUENCE,
    STATE,
    STATE_AT,
    UNKNOWN_US,
    RawStep,
    StepRecord,
    packed_depths,
    packed_records,
    step_records,
)
from tools.sources.monitor.steps import ring_records

BEGIN = RawStep(-1, -1, 1_000_000, 500_000, 0, 70, 0, 0, 2, 5, 0, 0, 0, 0)


def records(rows: Sequence[RawStep], unix_at_zero_ns: int) -> list[StepRecord]:
    """The step of each row whose predecessor comes just before it, one number after the other."""

    def bounded(number: int) -> int:
        return min(max(number, 0), LARGEST_US)

    found = []
    for before, now in pairwise(rows):
        if now.sequence != before.sequence + 1:
            continue
        depths = now.depths if now.fetches > before.fetches else 0
        end = now.clock if now.updating > now.ready else now.ready
        own = (end - before.clock - now.exchanged + before.exchanged) // 1000
        own_us = bounded(own) if now.ready > before.clock else UNKNOWN_US
        found.append(
            StepRecord(
                sequence=now.sequence,
                step=now.step,
                end_unix_ns=now.clock + unix_at_zero_ns,
                wall_us=max(bounded((now.clock - before.clock) // 1000), 1),
                data_wait_us=bounded((now.data - before.data) // 1000),
                own_us=own_us,
                waiting_us=bounded((now.waiting - before.waiting) // 1000),
                gc_us=bounded((now.gc - before.gc) // 1000),
                gc_longest_us=bounded(now.gc_longest // 1000),
                gc_runs=bounded(now.gc_runs - before.gc_runs),
                thread_cpu_us=bounded((now.cpu - before.cpu) // 1000),
                voluntary_switches=UNKNOWN_US,
                involuntary_switches=UNKNOWN_US,
                major_faults=UNKNOWN_US,
                fetches=bounded(now.fetches - before.fetches),
                samples=bounded(now.samples),
                in_flight=(depths & 0xFFFF) - 1,
                result_queue=(depths >> 16 & 0xFFFF) - 1,
                pinned_queue=(depths >> 32 & 0xFFFF) - 1,
                flags=now.flags,
            )
        )
    return found


def decoded(rows: Sequence[RawStep], unix_at_zero_ns: int) -> list[StepRecord]:
    return list(step_records(packed_records(b"".join(RAW.pack(*row) for row in rows), unix_at_zero_ns)))


def test_a_record_is_the_difference_of_two_rows() -> None:
    depths = packed_depths(4, 0, -1)
    row = RawStep(
        0, 17, 9_000_000, 2_500_000, 8, 3_000_070, 1_000_000, 2_000_000, 3, 6, 6_000_000, 1_500_000, depths, 4
    )
    (step,) = decoded([BEGIN, row], 100)
    assert (step.sequence, step.step, step.end_unix_ns, step.wall_us) == (0, 17, 9_000_100, 8000)
    assert (step.data_wait_us, step.own_us, step.waiting_us) == (3000, 5000, 1000)
    assert (step.gc_us, step.gc_longest_us, step.gc_runs, step.thread_cpu_us) == (2000, 1500, 1, 2000)
    assert (step.fetches, step.samples, step.flags) == (1, 8, 4)
    assert (step.in_flight, step.result_queue, step.pinned_queue) == (4, 0, -1)
    assert step.voluntary_switches == UNKNOWN_US


def test_what_an_earlier_step_left_is_not_taken_for_this_ones() -> None:
    row = BEGIN._replace(sequence=0, clock=2_000_000, ready=900_000, depths=packed_depths(1, 1, 1))
    (step,) = decoded([BEGIN, row], 0)
    assert step.own_us == UNKNOWN_US
    assert (step.in_flight, step.result_queue, step.pinned_queue) == (-1, -1, -1)


def test_what_lies_between_the_last_gradient_and_the_optimizers_step_is_not_the_ranks_own() -> None:
    begin = BEGIN._replace(clock=1_000_000)
    row = begin._replace(sequence=0, clock=9_000_000, ready=3_000_000, updating=7_500_000, exchanged=4_500_000)
    (step,) = decoded([begin, row], 0)
    assert (step.wall_us, step.own_us) == (8000, 2000 + 1500)
    before = row._replace(updating=2_000_000, exchanged=0)  # than the backward pass, which a closure makes
    (earlier,) = decoded([begin, before], 0)
    assert earlier.own_us == 2000


def test_every_exchange_of_a_step_with_two_optimizers_is_left_out_of_the_own_time() -> None:
    begin = BEGIN._replace(clock=1_000_000, exchanged=700_000)
    row = begin._replace(sequence=0, clock=9_000_000, ready=7_000_000, updating=8_000_000, exchanged=3_700_000)
    (step,) = decoded([begin, row], 0)
    assert step.own_us == 8000 - 3000


def test_a_row_without_its_predecessor_tells_no_step_and_an_endless_step_is_bounded() -> None:
    assert list(decoded([BEGIN, BEGIN._replace(sequence=1)], 0)) == []
    (step,) = decoded([BEGIN, BEGIN._replace(sequence=0, clock=1 << 62)], 0)
    assert step.wall_us == LARGEST_US


@given(
    st.lists(st.lists(st.integers(0, 1 << 40), min_size=13, max_size=13), min_size=1, max_size=12),
    st.integers(2, 9),
)
def test_the_reader_of_files_and_the_monitor_take_the_same_differences(parts: list[list[int]], slots: int) -> None:
    rows = [BEGIN]
    for number, each in enumerate(parts):
        sums = [before + more for before, more in zip(rows[-1][2:10], each[:8], strict=True)]
        ready, longest = sums[0] - each[8] % 1000, each[9]
        exchanged = rows[-1].exchanged + each[12] % 5000
        rest = (ready, longest, each[10] % (1 << 48), each[11] % 8, sums[0] - each[12] % 1000, exchanged)
        rows.append(RawStep._make([number, 100 + number, *sums, *rest]))
    data = bytearray(RECORDS_AT + slots * RAW.size)
    STATE.pack_into(data, STATE_AT, len(parts), 0, 0, 55)
    RAW.pack_into(data, BEGIN_AT, *rows[0])
    for row in rows[1:]:
        RAW.pack_into(data, RECORDS_AT + row.sequence % slots * RAW.size, *row)
    kept = rows if len(parts) <= slots else rows[-slots:]
    expected = b"".join(RECORD.pack(*each) for each in records(kept, 55))
    assert ring_records(bytes(data)).tobytes() == expected
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
    assert ring_records(ring_of(rows, 3))["sequence"].tolist() == [0, 1, 2]
    assert ring_records(ring_of(rows, 2))["sequence"].tolist() == [0, 1]


def test_sums_that_fall_are_of_no_step() -> None:
    rows = [BEGIN._replace(sequence=number, clock=(number + 2) * 1_000_000) for number in range(3)]
    rows[1] = rows[1]._replace(data=rows[0].data - 1)
    assert ring_records(ring_of(rows, 3))["sequence"].tolist() == [0, 2]
