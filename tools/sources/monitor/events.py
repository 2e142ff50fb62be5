"""Decode the event files of a monitor: collections, system samples, captures, settings, and the agent's anomalies."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.recorded.records import SAMPLE_FIELDS, Amount, RankEnvironment, Whole
from tools.sources.decompress import beginning, decode_lines
from tools.sources.plain_files import lies_within

LARGEST_BYTES = 256 << 20
MOST_ENVIRONMENTS = 100  # of one start of a rank
NAMED = ("variables", "threads", "flags", "interfaces")
MOST_NAMED = 256
MOST_CORES = 1 << 13
LONGEST_TEXT = 200
T = TypeVar("T")


class Pause(msgspec.Struct, tag="gc", tag_field="event"):
    """A collection that took 1 ms or more."""

    step: Whole
    end_unix_ns: Whole
    generation: Whole
    pause_us: Whole
    collected: Whole = 0


class _Sample(msgspec.Struct, tag="system", tag_field="event"):
    unix_ns: Whole
    step: Whole


System = msgspec.defstruct(
    "System",
    [(name, Amount | None, None) for name in SAMPLE_FIELDS],
    bases=(_Sample,),
    tag="system",
    tag_field="event",
    module=__name__,
)


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


class Failed(Refused, tag="capture_failed", tag_field="event"):
    """A capture that could not be written."""


class ForeignProcess(msgspec.Struct):
    """A process that is not of the run; 100 % is one core."""

    name: str
    cpu_pct: Amount


class Anomaly(msgspec.Struct):
    """One line of an agent's anomalies."""

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
SAMPLE_ROW = np.dtype([("unix_ns", "<i8"), ("step", "<i8"), *((name, "<f8") for name in SAMPLE_FIELDS)])
_EVENTS = msgspec.json.Decoder(Pause | System | RankEnvironment | Capture | Refused | Failed)
_ANOMALIES = msgspec.json.Decoder(Anomaly)


@dataclass(frozen=True)
class RankEvents:
    """One event file: pauses and samples as structured arrays with the fields of the events."""

    pauses: NDArray[np.void]
    samples: NDArray[np.void]
    captures: tuple[Capture, ...]
    environments: tuple[RankEnvironment, ...]
    notes: tuple[str, ...]


def read_events(path: Path) -> RankEvents:
    """Decode a rank's events; what cannot be read is left out and noted."""
    read, notes = _decode(path, _EVENTS)
    for one in read:
        if isinstance(one, Refused):
            notes.append(f"{path}: capture {one.request} at step {one.step} was not made: {one.reason[:200]}")
    environments = [each for each in read if isinstance(each, RankEnvironment)]
    pauses, samples = ([each for each in read if isinstance(each, kind)] for kind in (Pause, _Sample))
    return RankEvents(
        pauses=np.array([msgspec.structs.astuple(each) for each in pauses], dtype=PAUSE_ROW),
        samples=np.array([msgspec.structs.astuple(each) for each in samples], dtype=SAMPLE_ROW),
        captures=tuple(each for each in read if isinstance(each, Capture)),
        environments=tuple(map(_shown, environments[:MOST_ENVIRONMENTS])),
        notes=tuple(notes),
    )


def read_anomalies(files: Sequence[Path]) -> tuple[pd.DataFrame, list[str]]:
    """The anomalies of all agents in order of time, and notes."""
    read: list[Anomaly] = []
    notes: list[str] = []
    for path in files:
        lines, more = _decode(path, _ANOMALIES)
        read += lines
        notes += more
    rows = [msgspec.structs.astuple(each) for each in sorted(read, key=lambda each: each.unix_ns)]
    table = pd.DataFrame(rows, columns=list(Anomaly.__struct_fields__))
    foreign = [", ".join(f"{one.name[:40]} {one.cpu_pct:.0f} %" for one in each) for each in table["foreign"]]
    return table.assign(foreign=pd.Series(foreign, index=table.index, dtype="str")), notes


def _shown(environment: RankEnvironment) -> RankEnvironment:
    """The settings with texts that are cut and freed of what cannot be shown."""
    named = {name: list(getattr(environment, name).items())[:MOST_NAMED] for name in NAMED}
    return msgspec.structs.replace(
        environment,
        python=_text(environment.python),
        torch=_text(environment.torch),
        gc_thresholds=environment.gc_thresholds[:3],
        allowed_cores=environment.allowed_cores[:MOST_CORES],
        **{name: {_text(key): _text(value) for key, value in items} for name, items in named.items()},
    )


def _text(value: T) -> T | str:
    return "".join(each for each in value[:LONGEST_TEXT] if each.isprintable()) if isinstance(value, str) else value


def _decode(path: Path, decoder: msgspec.json.Decoder[T]) -> tuple[list[T], list[str]]:
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a pipe would wait for ever
            return [], [f"{path}: is no file; it was left out"]
        if not lies_within(path, path.parent):
            return [], [f"{path}: lies outside of its folder; it was left out"]
        content = beginning(path, LARGEST_BYTES)
    except OSError as error:
        return [], [f"{path}: cannot be read ({error.strerror})"]
    notes = [f"{path}: is larger than {LARGEST_BYTES} bytes; what follows was left out"] if content.more else []
    notes += [f"{path}: {content.damage}; what follows was left out"] if content.damage else []
    data = content.data
    del data[data.rfind(b"\n") + 1 :]  # a killed process may leave half a line
    lines, bad = decode_lines(decoder, data)
    notes += [f"{path}: {bad} lines cannot be read and were left out"] if bad else []
    return lines, notes
