from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from hermes_agent.monitor.format import (
    HEADER_BYTES,
    RAW,
    RECORD,
    RECORDS_AT,
    REQUEST_AT,
    RING_MAGIC,
    SEQUENCE,
    WRITTEN_WORD,
    Description,
    RawStep,
    StepRecord,
    Workload,
)
from hermes_agent.monitor.ring import CaptureRequest, RingWriter
from hermes_agent.watch.ring_reader import RingError, RingReader

CAPACITY = 8


def description(path: Path, rank: int = 3) -> Description:
    return Description(rank, 4, None, "host", 1, 10, CAPACITY, Workload())


@pytest.fixture
def ring(tmp_path: Path) -> RingWriter:
    path = tmp_path / "rank00003.ring"
    writer = RingWriter(path, description(path))
    writer.begin(RawStep(-1, -1, 9_500_000, *[0] * 11))
    return writer


def write(ring: RingWriter, count: int) -> None:
    for _ in range(count):
        number = ring.written
        row = RawStep(number, 100 + number, 10_000_000 + 1_000_000 * number, *[0] * 11)
        RAW.pack_into(ring.map, RECORDS_AT + number % ring.slots * RAW.size, *row)
        ring.view[WRITTEN_WORD] = number + 1


def test_a_reader_gets_each_record_once_and_in_order(ring: RingWriter) -> None:
    reader = RingReader(ring.path)
    write(ring, 3)
    assert [row.step for row in reader.new()] == [100, 101, 102]
    write(ring, 2)
    assert [row.step for row in reader.new()] == [103, 104]
    assert list(reader.new()) == []


def test_after_a_wrap_the_last_records_are_there_but_the_one_that_may_be_overwritten_next(ring: RingWriter) -> None:
    reader = RingReader(ring.path)
    write(ring, 3 * CAPACITY + 2)
    newest = 100 + 3 * CAPACITY + 1
    assert [row.step for row in reader.new()] == list(range(newest - CAPACITY + 2, newest + 1))
    assert reader.state()[0] == 3 * CAPACITY + 2


@pytest.mark.parametrize("written", [0, 1, CAPACITY - 1, CAPACITY, CAPACITY + 1, 2 * CAPACITY, 2 * CAPACITY + 5])
def test_the_writer_hands_out_what_is_still_in_the_ring_and_says_where_it_begins(
    ring: RingWriter, written: int
) -> None:
    write(ring, written)
    following, packed = ring.since(0)
    rows = [StepRecord(*each) for each in RECORD.iter_unpack(packed)]
    assert following == written
    assert [row.sequence for row in rows] == list(range(max(0, written - CAPACITY), written))
    assert [row.wall_us for row in rows] == [1000 if row.sequence else 500 for row in rows]


def test_a_record_that_does_not_fit_its_slot_is_left_out(ring: RingWriter) -> None:
    reader = RingReader(ring.path)
    write(ring, 3)
    SEQUENCE.pack_into(ring.map, RECORDS_AT + RAW.size, 77)
    assert [row.step for row in reader.new()] == [100]  # nor can the one after it be reported


def test_a_request_reaches_the_rank_and_its_answer_the_agent(ring: RingWriter) -> None:
    reader = RingReader(ring.path)
    assert ring.requested() == 0
    reader.ask(CaptureRequest(5, 3, 210))
    assert ring.requested() == 5
    assert ring.request() == CaptureRequest(5, 3, 210)
    ring.answer(5, 4, 209, "no")
    assert reader.answer() == (5, 4, 209, "no")


def test_a_request_that_is_being_written_is_not_taken(ring: RingWriter) -> None:
    RingReader(ring.path).ask(CaptureRequest(5, 3, 210))
    ring.map[REQUEST_AT + 8] ^= 1
    assert ring.requested() == 5
    assert ring.request() is None
    assert zlib.crc32(ring.map[REQUEST_AT : REQUEST_AT + 20]) != 0


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda data: b"", id="empty"),
        pytest.param(lambda data: b"no ring" + data[7:], id="another kind of file"),
        pytest.param(lambda data: data[:8] + b"\xff\xff\xff\xff" + data[12:], id="an endless description"),
        pytest.param(lambda data: data[:12] + b"{" * 50 + data[62:], id="a broken description"),
        pytest.param(lambda data: data.replace(b'"capacity": 8', b'"capacity": 9'), id="more records than there are"),
        pytest.param(lambda data: data.replace(b'"capacity": 8', b'"capacity":-8'), id="a negative capacity"),
        pytest.param(lambda data: data.replace(b"monitor/1", b"monitor/9"), id="another schema"),
        pytest.param(lambda data: data[:9000], id="cut off"),
    ],
)
def test_a_damaged_ring_is_refused(ring: RingWriter, damage: object) -> None:
    assert callable(damage)
    ring.path.write_bytes(damage(ring.path.read_bytes()))
    with pytest.raises(RingError, match="rank00003"):
        RingReader(ring.path)


def test_an_existing_file_is_never_taken_over(ring: RingWriter) -> None:
    with pytest.raises(FileExistsError):
        RingWriter(ring.path, description(ring.path))


def test_a_description_longer_than_the_head_of_a_ring_is_refused(tmp_path: Path) -> None:
    about = Description(0, None, None, "x" * HEADER_BYTES, 1, 10, CAPACITY, Workload())
    with pytest.raises(ValueError, match="rank 0"):
        about.pack(RING_MAGIC)
