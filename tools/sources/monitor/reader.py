"""The monitor's tables, each built once over all ranks from the records of every start of a rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hermes_agent.monitor.format import CAPTURE_ENDED, CAPTURED, EVENTS, FIRST, RECORDS, STEPS, UNKNOWN_US
from tools.errors import InputError
from tools.run.recorded.records import MonitoredRank, MonitorRecords
from tools.sources.decompress import PACKED, plain_or_packed, unpacked_name
from tools.sources.monitor.events import Capture, RankEvents, read_anomalies, read_events
from tools.sources.monitor.source import ANOMALY_FILES, STEP_FILES
from tools.sources.monitor.steps import NOT_ALWAYS, Head, RankSteps, StepFileError, read_steps

MOST_FILES = 65_536
MOST_AGENTS = 4096
DURATIONS = ("wall", "data_wait", "own", "waiting", "gc", "gc_longest", "thread_cpu")
QUEUES = ("in_flight", "result_queue", "pinned_queue")
COUNTS = ("gc_runs", "fetches", "samples", *QUEUES)
Columns = dict[str, object]


@dataclass(frozen=True)
class _Start:
    """One start of a rank, with its number among those of its rank."""

    attempt: int
    steps: RankSteps
    events: RankEvents

    @property
    def rank(self) -> int:
        return self.steps.head.rank


def read_monitor(folder: Path) -> MonitorRecords:
    """The monitor's records below ``folder`` (the run folder); raises InputError when there are none."""
    records = folder / RECORDS
    try:
        files = plain_or_packed(records, STEP_FILES)
        anomalies, anomaly_notes = read_anomalies(plain_or_packed(records, ANOMALY_FILES)[:MOST_AGENTS])
    except OSError as error:
        raise InputError(f"{records}: cannot be listed ({error.strerror}); check its permissions") from error
    if not files:
        raise InputError(f"{folder}: holds no monitor records; they are written to {RECORDS}/rank*{STEPS} there")
    notes = [f"{records} holds more than {MOST_FILES} step files; the others were left out"] * (len(files) > MOST_FILES)
    found: list[RankSteps] = []
    for file in files[:MOST_FILES]:
        try:
            found.append(read_steps(file))
        except StepFileError as error:
            notes.append(str(error))
    if not found:
        raise InputError(f"{folder}: its monitor records cannot be read: {notes[0]}")
    starts = _starts(found)
    notes += [note for each in starts for note in each.steps.notes]
    notes += [note for each in starts for note in each.events.notes]
    alike = [list(each) for _, each in groupby(starts, key=lambda one: one.steps.rows.dtype)]
    return MonitorRecords(
        steps=pd.concat([pd.DataFrame(_step_columns(group)) for group in alike], ignore_index=True),
        gc=_event_table(starts, lambda read: read.pauses, "pause"),
        system=_event_table(starts, lambda read: read.samples),
        captures=_capture_table(starts),
        anomalies=anomalies,
        ranks=tuple(map(_monitored, starts)),
        notes=(*notes, *anomaly_notes),
        environments=tuple(
            msgspec.structs.replace(environment, rank=each.rank, attempt=each.attempt)
            for each in starts
            for environment in each.events.environments
        ),
    )


def _starts(found: Sequence[RankSteps]) -> list[_Start]:
    """Each start with its events, the starts of a rank in order of time."""
    starts: list[_Start] = []
    for each in sorted(found, key=lambda one: (one.head.rank, one.head.start_unix_ns)):
        again = bool(starts) and starts[-1].rank == each.head.rank
        starts.append(_Start(starts[-1].attempt + 1 if again else 0, each, read_events(_events_file(each.path))))
    return starts


def _events_file(steps: Path) -> Path:
    """The events next to a step file; it need not be there."""
    plain = steps.with_name(unpacked_name(steps)).with_suffix(EVENTS)
    packed = plain.with_name(f"{plain.name}{PACKED}")
    return packed if packed.is_file() and not plain.is_file() else plain


def _monitored(start: _Start) -> MonitoredRank:
    head = start.steps.head
    return MonitoredRank(
        rank=head.rank,
        attempt=start.attempt,
        host=head.host[:256],
        world_size=head.world_size,
        steps=len(start.steps.rows),
        lost_steps=start.steps.lost,
        ended_in_order=start.steps.ended_in_order,
        peak_flops_per_s=head.workload.peak_flops_per_s,
        flops_per_step=head.workload.flops_per_step,
        local_rank=head.local_rank,
    )


def _owners(starts: Sequence[_Start], counts: Sequence[int]) -> dict[str, NDArray[np.int64]]:
    """Rank and attempt of every row."""
    return {name: np.repeat([getattr(each, name) for each in starts], counts) for name in ("rank", "attempt")}


def _event_table(
    starts: Sequence[_Start], rows_of: Callable[[RankEvents], NDArray[np.void]], in_ms: str = ""
) -> pd.DataFrame:
    """The rows of all starts; microseconds of the field named ``in_ms`` as milliseconds."""
    parts = [rows_of(each.events) for each in starts]
    rows = np.concatenate(parts)
    columns = {name: rows[name] for name in rows.dtype.names or () if name != f"{in_ms}_us"}
    spans = {f"{in_ms}_ms": rows[f"{in_ms}_us"].astype(np.float64) / 1e3} if in_ms else {}
    return pd.DataFrame({**columns, **spans, **_owners(starts, list(map(len, parts)))})


def _capture_table(starts: Sequence[_Start]) -> pd.DataFrame:
    rows = [msgspec.structs.astuple(capture) for each in starts for capture in each.events.captures]
    kinds = {name: "str" if name == "path" else "int64" for name in Capture.__struct_fields__}
    table = pd.DataFrame(rows, columns=list(kinds)).astype(kinds)
    return table.assign(**_owners(starts, [len(each.events.captures) for each in starts]))


def _step_columns(starts: Sequence[_Start]) -> Columns:
    counts = [len(each.steps.rows) for each in starts]
    rows = np.concatenate([each.steps.rows for each in starts])
    nothing = np.full(len(rows), UNKNOWN_US)
    return {
        **_owners(starts, counts),
        **{name: rows[name] for name in ("step", "end_unix_ns")},
        **{f"{name}_ms": _known(rows[f"{name}_us"]) / 1e3 for name in DURATIONS},
        **{name: rows[name] for name in COUNTS},
        **{name: _known(rows[name] if name in (rows.dtype.names or ()) else nothing) for name in NOT_ALWAYS},
        **{name: np.where(rows[name] < 0, np.nan, rows[name]) for name in QUEUES},
        "captured": (rows["flags"] & (CAPTURED | CAPTURE_ENDED)) > 0,
        "written": (rows["flags"] & CAPTURE_ENDED) > 0,
        "first": (rows["flags"] & FIRST) > 0,
        **_speed(rows, [each.steps.head for each in starts], counts),
    }


def _known(values: NDArray[np.uint32]) -> NDArray[np.float64]:
    return np.where(values == UNKNOWN_US, np.nan, values)


def _speed(rows: NDArray[np.void], heads: Sequence[Head], counts: Sequence[int]) -> Columns:
    """Samples per second and MFU, with what a start said of all its steps; NaN where it said nothing or 0."""
    seconds = np.where(rows["wall_us"] > 0, rows["wall_us"] / 1e6, np.nan)
    batch, done, peak = (
        np.repeat(np.array([getattr(head.workload, name) or np.nan for head in heads], dtype=np.float64), counts)
        for name in ("batch_size", "flops_per_step", "peak_flops_per_s")
    )
    samples = np.where(rows["samples"] > 0, rows["samples"], batch)
    return {"samples_per_s": samples / seconds, "mfu": done / seconds / peak}
