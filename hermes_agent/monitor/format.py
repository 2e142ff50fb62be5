"""The binary form of a step record, of the ring that holds the last ones and of the file that keeps all.

Both begin with a preamble (magic, length of the description) and the description as JSON: a reader needs nothing but
the file. All numbers are little-endian. In a ring the preamble is followed, at fixed offsets, by the request block
(written by the node agent), the answer block, the state and the begin of the first step (written by the rank) and the
raw records (``hermes_agent.monitor.raw``), number n in slot ``n % (capacity + 1)``; in a step file by the records one
after the other.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

RING_MAGIC = b"HDXRING2"
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

FIELDS: tuple[tuple[str, str], ...] = (
    ("sequence", "Q"),
    ("step", "q"),
    ("end_unix_ns", "q"),
    ("wall_us", "I"),
    ("data_wait_us", "I"),
    ("own_us", "I"),
    ("waiting_us", "I"),
    ("gc_us", "I"),
    ("gc_longest_us", "I"),
    ("gc_runs", "I"),
    ("thread_cpu_us", "I"),
    ("voluntary_switches", "I"),
    ("involuntary_switches", "I"),
    ("major_faults", "I"),
    ("fetches", "I"),
    ("samples", "I"),
    ("in_flight", "i"),
    ("result_queue", "i"),
    ("pinned_queue", "i"),
    ("flags", "I"),
)
RECORD = struct.Struct("<" + "".join(code for _, code in FIELDS))
SEQUENCE = struct.Struct("<Q")
STATE = struct.Struct("<QqQq")  # records written, heartbeat (unix ns), 1: closed in order, unix ns at clock 0
BEAT = struct.Struct("<qQq")  # the state without the number of records
REQUEST = struct.Struct("<QIqI")  # id, steps, first step (-1: the next), checksum of the three
ANSWER = struct.Struct("<QIq96s")  # id of the request, an ``Answer``, step, reason


class StepRecord(NamedTuple):
    """One step of one rank; times in whole microseconds.

    ``wall_us`` is from one ``step()`` to the next, ``data_wait_us`` the part of it in a loader's ``next``, ``own_us``
    from the step's begin until the last gradient was ready (``UNKNOWN_US`` when no model is watched), ``waiting_us``
    what the script declared as waiting. CPU time is the training thread's in that span. Switches and faults are no
    longer counted per step, which took longer than all else, and are ``UNKNOWN_US``; samples of the process have them.
    Queue depths are as the training thread found them at its last fetch, ``UNKNOWN_DEPTH`` where there is no queue.
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


class Answer:
    """What a rank says to a capture request."""

    NONE = 0
    ACCEPTED = 1
    RUNNING = 2
    WRITTEN = 3
    REFUSED = 4
    FAILED = 5
