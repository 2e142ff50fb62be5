"""The files of the monitor, defined once: places and names, the step record, and the ring that holds the last ones.

Ring and step file begin with a preamble (magic, length) and a description as JSON; numbers are little-endian. A ring
then holds the request block (by the node agent), the answer block, the state and the begin of the first step (by the
rank), and raw rows, number n in slot ``n % (capacity + 1)``; a step file the records one after the other.

A raw row holds clocks and running sums at the end of a step: the training thread only stores whole numbers, since
between two steps the caches are cold; ``packed_records`` takes the differences later. Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

SHARED_MEMORY = Path("/dev/shm")
RECORDS = "monitor"  # the folder of the flushed records, inside the run folder
CAPTURES = "capture-"
STEPS = ".steps"
EVENTS = ".events.jsonl"
RING = ".ring"
ANOMALIES = "anomalies-"

RING_MAGIC = b"HDXRING3"
STEPS_MAGIC = b"HDXSTEP1"
SCHEMA = "hermes-dx/monitor/1"

PREAMBLE = struct.Struct("<8sI")
HEADER_BYTES = 8192
REQUEST_AT = 8192
ANSWER_AT = 8448
STATE_AT = 8704
BEGIN_AT = 8960
RECORDS_AT = 12288

UNKNOWN_US = 0xFFFFFFFF
LARGEST_US = 0xFFFFFFFE
UNKNOWN_DEPTH = -1

CAPTURED = 1  # the profiler ran in the step
CAPTURE_ENDED = 2  # a profiler was stopped before the step, or its trace written during it
FIRST = 4  # warm-up is likely in it


class StepRecord(NamedTuple):
    """One step of one rank, from one ``step()`` to the next; times in whole microseconds.

    ``data_wait_us`` is spent in a loader's ``next``, ``waiting_us`` in declared waiting. ``own_us`` is all but the time
    between a last gradient and the optimizer's step after it, in which ranks wait for each other and exchange
    gradients, of each optimizer (a GAN has two); where none of torch stepped after the last gradient it ends with that.
    CPU time is the training thread's; switches and faults are ``UNKNOWN_US``, samples have them. Queue depths are those
    at the last fetch, ``UNKNOWN_DEPTH`` where there is no queue.
    """

    sequence: int
    step: int
    end_unix_ns: int
    wall_us: int
    data_wait_us: int
    own_us: int
    waiting_us: int
    gc_us: int
    gc_longest_us: int
    gc_runs: int
    thread_cpu_us: int
    voluntary_switches: int
    involuntary_switches: int
    major_faults: int
    fetches: int
    samples: int
    in_flight: int
    result_queue: int
    pinned_queue: int
    flags: int


FIELDS: tuple[tuple[str, str], ...] = tuple(zip(StepRecord._fields, "QqqIIIIIIIIIIIIIiiiI", strict=True))
RECORD = struct.Struct("<" + "".join(code for _, code in FIELDS))
SEQUENCE = struct.Struct("<Q")
STATE = struct.Struct("<QqQq")  # records written, heartbeat (unix ns), 1: closed in order, unix ns at clock 0
BEAT = struct.Struct("<qQq")  # the state without the number of records
REQUEST = struct.Struct("<QIqI")  # id, steps, first step (-1: the next), checksum of the three
ANSWER = struct.Struct("<QIq96s")  # id of the request, an ``Answer``, step, reason


class RawStep(NamedTuple):
    """One slot of a ring; times in ns, sums since the start of the monitor, ``gc_longest`` of this step only.

    ``ready`` is the clock at the last gradient, ``updating`` at the begin of the optimizer's last step, ``exchanged``
    the sum of the times from a last gradient to the optimizer's step after it; ``depths`` the queue depths plus one at
    the last fetch, 0 unknown.
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
    updating: int = 0
    exchanged: int = 0


WORDS = len(RawStep._fields)
RAW = struct.Struct(f"<{WORDS}q")
WORD_BYTES = RAW.size // WORDS
RECORDS_WORD = RECORDS_AT // WORD_BYTES
REQUEST_WORD = REQUEST_AT // WORD_BYTES
WRITTEN_WORD = STATE_AT // WORD_BYTES
DEPTH_BITS = 16
DEPTH_MASK = (1 << DEPTH_BITS) - 1
LARGEST_WORD = (1 << 63) - 1

UNCOUNTED = (UNKNOWN_US,) * 3
_MAY_BE_UNKNOWN = ("own_us", "voluntary_switches", "involuntary_switches", "major_faults")
_OF_CODE = {"Q": (0, LARGEST_WORD), "q": (-LARGEST_WORD, LARGEST_WORD), "I": (0, LARGEST_US), "i": (-1, DEPTH_MASK)}
BOUNDS = tuple((0, UNKNOWN_US) if name in _MAY_BE_UNKNOWN else _OF_CODE[code] for name, code in FIELDS)

# Places in the running sums that the hooks of one process share.
DATA, WAITING, GC, GC_RUNS, FETCHES, READY, UPDATING, EXCHANGED, GC_LONGEST, DEPTHS, FLAGS = range(TOTALS := 11)


class Answer:
    """A rank's answers to a capture request."""

    NONE = 0
    ACCEPTED = 1
    RUNNING = 2
    WRITTEN = 3
    REFUSED = 4
    FAILED = 5


@dataclass(frozen=True)
class Workload:
    """Samples and FLOPs of a step, as the script says; None where it does not."""

    batch_size: int | None = None  # samples (or tokens) per step and rank
    flops_per_step: float | None = None  # per rank
    peak_flops_per_s: float | None = None  # of the rank's device, for the model FLOPs utilisation


@dataclass(frozen=True)
class Description:
    """The head of a ring and of a step file."""

    rank: int
    world_size: int | None
    local_rank: int | None
    host: str
    pid: int
    start_unix_ns: int
    capacity: int
    workload: Workload

    @property
    def stem(self) -> str:
        """The beginning of the names of this rank's files, another one for each start of the script."""
        return f"rank{self.rank:05d}-{self.start_unix_ns // 1_000_000}-{self.pid}"

    def pack(self, magic: bytes) -> bytes:
        """Preamble and JSON; raises ValueError when it is too long for a ring."""
        text = json.dumps({"schema": SCHEMA, **asdict(self), "fields": FIELDS}).encode()
        if PREAMBLE.size + len(text) > HEADER_BYTES:
            raise ValueError(f"the description of rank {self.rank} takes {len(text)} bytes, more than a ring holds")
        return PREAMBLE.pack(magic, len(text)) + text


def packed_depths(*depths: int) -> int:
    """Three queue depths, -1 for unknown, in one number."""
    first, second, third = (min(max(each + 1, 0), DEPTH_MASK) for each in depths)
    return first | second << DEPTH_BITS | third << 2 * DEPTH_BITS


def packed_records(rows: bytes, unix_at_zero_ns: int) -> bytes:
    """Return the packed records of raw rows, the first being the one before; numbers are bounded to their fields."""
    pack, done = RECORD.pack, []
    unpacked = RAW.iter_unpack(rows)
    last, _, clock_0, cpu_0, _, data_0, waiting_0, gc_0, runs_0, fetches_0, *_, exchanged_0 = next(unpacked)
    for row in unpacked:
        (
            number,
            step,
            clock,
            cpu,
            samples,
            data,
            waiting,
            gc,
            runs,
            fetches,
            ready,
            longest,
            depths,
            flags,
            updating,
            exchanged,
        ) = row
        if number == last + 1:
            one = two = three = UNKNOWN_DEPTH
            if depths and fetches > fetches_0:
                one = (depths & DEPTH_MASK) - 1
                two = (depths >> DEPTH_BITS & DEPTH_MASK) - 1
                three = (depths >> 2 * DEPTH_BITS & DEPTH_MASK) - 1
            wall_us, data_us = (clock - clock_0) // 1000 or 1, (data - data_0) // 1000
            waiting_us = (waiting - waiting_0) // 1000
            own_us = UNKNOWN_US
            if ready > clock_0:
                end = clock if updating > ready else ready
                own_us = min((end - clock_0 - exchanged + exchanged_0) // 1000, LARGEST_US)
            gc_us, longest_us, cpu_us = (gc - gc_0) // 1000, longest // 1000, (cpu - cpu_0) // 1000
            more_runs, more_fetches = runs - runs_0, fetches - fetches_0
            times = (wall_us, data_us, own_us, waiting_us, gc_us, longest_us, more_runs, cpu_us)
            last_fields = (more_fetches, samples, one, two, three, flags)
            record = (number, step, clock + unix_at_zero_ns, *times, *UNCOUNTED, *last_fields)
            try:
                done.append(pack(*record))
            except struct.error:  # a sum fell, or a step took longer than an hour
                done.append(
                    pack(*(min(max(each, low), high) for each, (low, high) in zip(record, BOUNDS, strict=True)))
                )
        last, clock_0, cpu_0, data_0, waiting_0 = number, clock, cpu, data, waiting
        gc_0, runs_0, fetches_0, exchanged_0 = gc, runs, fetches, exchanged
    return b"".join(done)


def step_records(packed: bytes) -> Iterator[StepRecord]:
    """The records that were packed."""
    return map(StepRecord._make, RECORD.iter_unpack(packed))


def records_folder(run_folder: Path) -> Path:
    """The folder of the flushed records."""
    return run_folder / RECORDS


def anomalies_file(run_folder: Path, host: str) -> Path:
    """The anomalies that the agent of that machine noticed."""
    return records_folder(run_folder) / f"{ANOMALIES}{file_name_of(host)}.jsonl"


def file_name_of(host: str) -> str:
    """The machine's name as a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9.-]", "_", host)[:100]


def ring_folders(run_folder: Path, user: int | None = None) -> tuple[Path, Path]:
    """Where rings of that run and user (this process's) may be on this machine, the best place first."""
    digest = hashlib.sha256(os.fsencode(run_folder.resolve())).hexdigest()[:16]
    owner = os.getuid() if user is None else user
    return SHARED_MEMORY / f"hermes-dx-{owner}" / digest, records_folder(run_folder)


def capture_folder(run_folder: Path, request: int) -> Path:
    """The folder of the traces of one capture request."""
    return run_folder / f"{CAPTURES}{request:04d}"
