"""Decodes the event files of a monitor: collections, system samples, captures, and the agent's anomalies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.sources.inventory import ANOMALIES, plain_or_packed
from tools.sources.monitor.environment import Amount, Environment, Whole
from tools.sources.small_files import beginning

LARGEST_BYTES = 256 << 20
MOST_AGENTS = 4096
MOST_ENVIRONMENTS = 100  # of one start of a rank
WHOLE = ("unix_ns", "step")  # of a sample; all others may be missing
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


class Pause(msgspec.Struct, tag="gc", tag_field="event"):
    """A collection that took 1 ms or more."""

    step: Whole
    end_unix_ns: Whole
    generation: Whole
    pause_us: Whole
    collected: Whole = 0


class System(msgspec.Struct, tag="system", tag_field="event"):
    """A sample of process, machine and device; counters are the kernel's own, None where it does not tell."""

    unix_ns: Whole
    step: Whole
    resident_bytes: Amount | None = None
    threads: Amount | None = None
    process_cpu_us: Amount | None = None
    allowed_cores: Amount | None = None
    cores: Amount | None = None
    throttled_periods: Amount | None = None
    throttled_us: Amount | None = None
    load_1min: Amount | None = None
    cpu_total_ticks: Amount | None = None
    cpu_idle_ticks: Amount | None = None
    cpu_steal_ticks: Amount | None = None
    pressure_cpu_some_us: Amount | None = None
    pressure_cpu_full_us: Amount | None = None
    pressure_io_some_us: Amount | None = None
    pressure_io_full_us: Amount | None = None
    pressure_memory_some_us: Amount | None = None
    pressure_memory_full_us: Amount | None = None
    device_allocated_bytes: Amount | None = None
    device_reserved_bytes: Amount | None = None
    device_peak_bytes: Amount | None = None
    device_utilisation_pct: Amount | None = None
    minor_faults: Amount | None = None
    major_faults: Amount | None = None
    voluntary_switches: Amount | None = None
    involuntary_switches: Amount | None = None
    training_cpu_us: Amount | None = None
    training_run_delay_us: Amount | None = None
    run_delay_us: Amount | None = None
    python_threads: Amount | None = None
    python_threads_cpu_us: Amount | None = None
    children: Amount | None = None
    children_cpu_us: Amount | None = None
    children_read_bytes: Amount | None = None
    children_allowed_cores: Amount | None = None
    quota_cores: Amount | None = None
    read_bytes: Amount | None = None
    write_bytes: Amount | None = None
    read_chars: Amount | None = None
    write_chars: Amount | None = None
    read_calls: Amount | None = None
    write_calls: Amount | None = None
    net_sent_bytes: Amount | None = None
    net_received_bytes: Amount | None = None
    lo_sent_bytes: Amount | None = None
    tcp_sent_segments: Amount | None = None
    tcp_retransmitted_segments: Amount | None = None
    rdma_retransmits: Amount | None = None
    runnable: Amount | None = None
    profiler_active: Amount | None = None
    compilations: Amount | None = None
    compile_us: Amount | None = None


class Capture(msgspec.Struct, tag="capture", tag_field="event"):
    """A trace that was written."""

    request: Whole
    first_step: Whole
    last_step: Whole
    path: str
    bytes: Whole
    write_ms: Whole = 0


class Refused(msgspec.Struct, tag="capture_refused", tag_field="event"):
    """A capture that was not begun."""

    request: Whole
    step: Whole
    reason: str


class Failed(msgspec.Struct, tag="capture_failed", tag_field="event"):
    """A capture that could not be written."""

    request: Whole
    step: Whole
    reason: str


class ForeignProcess(msgspec.Struct):
    """A process that is not of the run; 100 % is one core."""

    name: str
    cpu_pct: Amount


class Anomaly(msgspec.Struct):
    """One line of ``anomalies-HOST.jsonl``."""

    rank: Whole
    unix_ns: Whole
    kind: str
    step: Whole
    usual_ms: Amount
    seen_ms: Amount
    excess_pct: Amount
    part: str = ""
    claim: str = ""
    foreign: list[ForeignProcess] = []


PAUSE_ROW = np.dtype([(name, "<i8") for name in Pause.__struct_fields__])
SAMPLE_ROW = np.dtype([(name, "<i8" if name in WHOLE else "<f8") for name in System.__struct_fields__])
Event = Pause | System | Environment | Capture | Refused | Failed


@dataclass(frozen=True)
class RankEvents:
    """What one event file tells: pauses and samples as structured arrays with the fields of the events."""

    pauses: NDArray[np.void]
    samples: NDArray[np.void]
    captures: tuple[Capture, ...]
    environments: tuple[Environment, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Anomalies:
    """The agent's anomalies."""

    table: pd.DataFrame
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Lines(Generic[T]):
    read: list[T]
    notes: tuple[str, ...]


def read_events(path: Path) -> RankEvents:
    """Decodes a rank's events; what cannot be read is left out and noted."""
    lines = _decode(path, msgspec.json.Decoder[Event](Event))
    missed = [each for each in lines.read if isinstance(each, Refused | Failed)]
    said = [f"{path}: capture {each.request} at step {each.step} was not made: {each.reason[:200]}" for each in missed]
    environments = [each for each in lines.read if isinstance(each, Environment)]
    return RankEvents(
        pauses=_rows([each for each in lines.read if isinstance(each, Pause)], PAUSE_ROW),
        samples=_rows([each for each in lines.read if isinstance(each, System)], SAMPLE_ROW),
        captures=tuple(each for each in lines.read if isinstance(each, Capture)),
        environments=tuple(environments[:MOST_ENVIRONMENTS]),
        notes=(*lines.notes, *said),
    )


def read_anomalies(records: Path) -> Anomalies:
    """Decodes the anomalies of all agents, in order of time; none when no agent ran."""
    read: list[Anomaly] = []
    notes: list[str] = []
    for path in plain_or_packed(records, ANOMALIES)[:MOST_AGENTS]:
        lines = _decode(path, msgspec.json.Decoder[Anomaly](Anomaly))
        read += lines.read
        notes += lines.notes
    table = _table(sorted(read, key=lambda each: each.unix_ns), Anomaly)
    foreign = [", ".join(f"{one.name[:40]} {one.cpu_pct:.0f} %" for one in each) for each in table["foreign"]]
    return Anomalies(table.assign(foreign=pd.Series(foreign, index=table.index, dtype="str")), tuple(notes))


def _rows(told: Sequence[msgspec.Struct], dtype: np.dtype[np.void]) -> NDArray[np.void]:
    """The events as records; what was not told is NaN."""
    return np.array([msgspec.structs.astuple(each) for each in told], dtype=dtype)


def _table(rows: Sequence[S], kind: type[S]) -> pd.DataFrame:
    return pd.DataFrame([msgspec.structs.astuple(row) for row in rows], columns=list(kind.__struct_fields__))


def _decode(path: Path, decoder: msgspec.json.Decoder[T]) -> _Lines[T]:
    try:
        if not path.resolve().is_relative_to(path.parent.resolve()):
            return _Lines([], (f"{path}: lies outside of its folder; it was left out",))
        if path.exists() and not path.is_file():  # opening a pipe would wait for ever
            return _Lines([], (f"{path}: is no file; it was left out",))
        content = beginning(path, LARGEST_BYTES)
    except OSError as error:
        return _Lines([], (f"{path}: cannot be read ({error.strerror})",))
    notes = [f"{path}: is larger than {LARGEST_BYTES} bytes; what follows was left out"] if content.more else []
    notes += [f"{path}: {content.damage}; what follows was left out"] if content.damage else []
    data = content.data
    del data[data.rfind(b"\n") + 1 :]  # a killed process may leave half a line
    try:
        return _Lines(decoder.decode_lines(data), tuple(notes))
    except UNREADABLE:
        return _one_by_one(path, decoder, data, notes)


def _one_by_one(path: Path, decoder: msgspec.json.Decoder[T], data: bytearray, notes: list[str]) -> _Lines[T]:
    read: list[T] = []
    bad = 0
    for line in filter(None, data.split(b"\n")):
        try:
            read.append(decoder.decode(line))
        except UNREADABLE:
            bad += 1
    return _Lines(read, (*notes, f"{path}: {bad} lines cannot be read and were left out"))
