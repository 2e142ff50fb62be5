"""Finds the training steps of one rank in its events."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.events import DEVICE_WORK, EventKind, EventTable, name_mask
from tools.run.links import launch_starts
from tools.run.model import Step, StepOrigin

PROFILER_STEP = re.compile(r"ProfilerStep#(\d+)\Z")
OPTIMIZER_STEP = re.compile(r"Optimizer\.step#")
NO_STEP_MARK = re.compile(r"enumerate\(|Optimizer\.|DistributedDataParallel\.|(?:nccl|gloo|mpi|ucc|rccl|xccl):|\[")
DIGITS = re.compile(r"\d+")

# A pause between two marks: longer than the mark itself, or a tenth of it where step numbers were skipped as well.
# A profiler that runs on leaves microseconds between two marks, a schedule that repeats leaves whole steps.
PAUSE_RATIO = 1.0
PAUSE_RATIO_AFTER_SKIP = 0.1

# Device work left at the last mark, as a share of it: more than this was built up over steps before, not in this one.
BACKLOG_RATIO = 0.25


@dataclass(frozen=True)
class StepList:
    """The steps of a rank and what they were found by."""

    steps: tuple[Step, ...]
    origin: StepOrigin


@dataclass(frozen=True)
class _Marks:
    """Spans that each stand for one step, in order of time."""

    number: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]


def find_steps(table: EventTable) -> StepList:
    """Steps by the profiler's own marks, else by a repeating annotation, else by optimizer calls, else one window.

    A step lasts until the next begins. The last one, and one before a pause of the profiler, lasts until its mark
    ends and the device has finished what was launched during it; but where the host had run ahead over several steps,
    the device's backlog belongs to none of them, and the step ends with its mark.
    """
    annotations = table.of_kind(EventKind.ANNOTATION)
    annotations = annotations[table.tracks["device"].to_numpy()[annotations["track"].to_numpy()] < 0]
    profiler = _profiler_marks(annotations)
    if profiler is not None:
        return StepList(_steps(profiler, table), "profiler_step")
    repeating = _repeating_marks(annotations)
    if repeating is not None:
        return StepList(_steps(repeating, table), "annotation")
    by_optimizer = _optimizer_steps(annotations, table)
    if by_optimizer:
        return StepList(by_optimizer, "optimizer")
    return StepList(_window(table), "window")


def _matching(annotations: pd.DataFrame, pattern: re.Pattern[str]) -> pd.DataFrame:
    wanted = np.array([pattern.match(name) is not None for name in annotations["name"].cat.categories], dtype=bool)
    return annotations[name_mask(annotations["name"], wanted)]


def _profiler_marks(annotations: pd.DataFrame) -> _Marks | None:
    found = _matching(annotations, PROFILER_STEP)
    if found.empty:
        return None
    lengths = (found["end_ns"] - found["start_ns"]).groupby(found["track"]).agg(["count", "sum"])
    thread = lengths.sort_values(["count", "sum"], ascending=False, kind="stable").index[0]
    return _marks(found[found["track"] == thread])


def _repeating_marks(annotations: pd.DataFrame) -> _Marks | None:
    """The annotation that comes back on one thread without overlapping itself and covers the most time."""
    names = annotations["name"].cat.categories
    families = pd.Index([DIGITS.sub("#", name) for name in names], dtype="str")
    usable = np.array([NO_STEP_MARK.match(name) is None for name in names], dtype=bool)
    rows = annotations[name_mask(annotations["name"], usable)]
    if rows.empty:
        return None
    family = families.to_numpy()[rows["name"].cat.codes.to_numpy()]
    best: pd.DataFrame | None = None
    best_ns = 0
    for _, group in rows.groupby([family, rows["track"].to_numpy()], sort=True):
        start, end = group["start_ns"].to_numpy(), group["end_ns"].to_numpy()
        apart = len(group) > 1 and bool((start[1:] >= end[:-1]).all())
        if apart and int((end - start).sum()) > best_ns:
            best, best_ns = group, int((end - start).sum())
    return None if best is None else _marks(best)


def _marks(rows: pd.DataFrame) -> _Marks:
    """Marks in order of time; a mark that begins inside the one before is dropped."""
    start, end = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    free = np.append(True, start[1:] >= np.maximum.accumulate(end)[:-1]) if len(start) else np.empty(0, dtype=bool)
    number = _numbers(rows["name"].astype("str").tolist())[free]
    if (np.diff(number) <= 0).any():
        number = number[0] + np.arange(len(number))
    return _Marks(number, start[free], end[free])


def _numbers(names: list[str]) -> NDArray[np.int64]:
    """The one number that each name holds, else the position."""
    found = [DIGITS.findall(name) for name in names]
    if all(len(each) == 1 and len(each[0]) < 10 for each in found):
        return np.array([int(each[0]) for each in found], dtype=np.int64)
    return np.arange(len(names), dtype=np.int64)


def _steps(marks: _Marks, table: EventTable) -> tuple[Step, ...]:
    finished = _device_finish(marks, table)
    length = marks.end_ns - marks.start_ns
    if len(length) > 1:
        hole = marks.start_ns[1:] - marks.end_ns[:-1]
        skipped = np.diff(marks.number) > 1
        paused = (hole > PAUSE_RATIO * length[:-1]) | (skipped & (hole > PAUSE_RATIO_AFTER_SKIP * length[:-1]))
        follows = np.append(False, ~paused)
        backlog = follows & (finished - marks.end_ns > BACKLOG_RATIO * length)
        finished = np.where(backlog, marks.end_ns, finished)
        after = np.where(paused, np.minimum(finished[:-1], marks.start_ns[1:]), marks.start_ns[1:])
        finished = np.append(after, finished[-1])
    columns = zip(marks.number.tolist(), marks.start_ns.tolist(), finished.tolist(), strict=True)
    return tuple(Step(number, start, stop) for number, start, stop in columns)


def _device_finish(marks: _Marks, table: EventTable) -> NDArray[np.int64]:
    """For each mark, when it had ended and the device had done what host calls during the mark launched."""
    frame = table.frame
    kind = frame["kind"].to_numpy()
    device = np.flatnonzero(np.isin(kind, [int(k) for k in DEVICE_WORK]))
    end_ns, launched = frame["end_ns"].to_numpy()[device], launch_starts(table, device)
    mark = np.searchsorted(marks.start_ns, launched, side="right") - 1
    inside = (mark >= 0) & (launched < marks.end_ns[np.maximum(mark, 0)])
    finish = marks.end_ns.copy()
    np.maximum.at(finish, mark[inside], end_ns[inside])
    return finish


def _optimizer_steps(annotations: pd.DataFrame, table: EventTable) -> tuple[Step, ...]:
    """From the end of one optimizer call to the end of the next; with several optimizers, of the one that ends last."""
    found = _matching(annotations, OPTIMIZER_STEP)
    if found.empty:
        return ()
    last = found["name"].cat.codes.to_numpy()[int(found["end_ns"].to_numpy().argmax())]
    ends = np.unique(found["end_ns"].to_numpy()[found["name"].cat.codes.to_numpy() == last])
    begin = _window(table)[0].start_ns
    starts = np.insert(ends[:-1], 0, min(begin, int(ends[0])))
    return tuple(Step(i, int(s), int(e)) for i, (s, e) in enumerate(zip(starts, ends, strict=True)) if e > s)


def _window(table: EventTable) -> tuple[Step, ...]:
    frame = table.frame
    work = frame[~frame["kind"].isin([int(EventKind.OTHER), int(EventKind.INSTANT)])]
    work = frame if work.empty else work
    return (Step(0, int(work["start_ns"].min()), int(work["end_ns"].max())),)
