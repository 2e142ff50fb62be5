"""Finds the training steps of one rank in its events."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.run.events import DEVICE_WORK, EventKind, EventTable, name_mask
from tools.run.links import launch_starts, launching_calls
from tools.run.model import Step, StepOrigin

PROFILER_STEP = re.compile(r"ProfilerStep#(\d+)\Z")
OPTIMIZER_STEP = re.compile(r"Optimizer\.step#")
NO_STEP_MARK = re.compile(
    r"enumerate\(|Optimizer\.|DistributedDataParallel\.|(?:nccl|gloo|mpi|ucc|rccl|xccl):|\["
    r"|(?:nccl|rccl|hccl|MPI_)[A-Z]\w*"  # calls of a communication library, as it marks them by itself
    r"|\#\# Call CompiledFxGraph|Torch-Compiled Region|CompiledFunction"  # compiled parts of a model
    r"|(?:aten|torch|autograd|c10d|prims?)::"  # operators, as torch.autograd.profiler.emit_nvtx() marks them
    r"|(?i:(?:.*[\W_])?(?:layers?|blocks?|micro[-_ ]?batch(?:es)?)(?:[\W_\d]|\Z))"
)
STEP_NAME = re.compile(
    r"(?i)step|iter|batch(?!_?norm)|epoch"
)  # marks of these names are steps also inside of another mark
BACKWARD = re.compile(r"(?i)backward|AccumulateGrad")
DIGITS = re.compile(r"\d+")

# A pause of the profiler between two of its marks: longer than the mark itself, or a tenth of it where step numbers
# were skipped as well. One that runs on leaves microseconds between two marks, a schedule that repeats leaves whole
# steps. Between a user's annotations the program runs on: only skipped numbers or another recording make a pause.
PAUSE_RATIO = 1.0
PAUSE_RATIO_AFTER_SKIP = 0.1

# Device work left at the last mark, as a share of it: more than this was built up over steps before, not in this one.
BACKLOG_RATIO = 0.25

# Marks that cover less than this share of the time from the first to the last are of something within a step.
LEAST_COVER = 0.05
# Of the distances between such marks so many are within this factor of the median one.
LEAST_ALIKE, ALIKE = 0.5, 2.0
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class StepList:
    """The steps of a rank and what they were found by."""

    steps: tuple[Step, ...]
    origin: StepOrigin
    marks: tuple[Step, ...] = ()  # the host's steps, where ``steps`` are the device's


@dataclass(frozen=True)
class _Marks:
    """Spans that each stand for one step, in order of time."""

    number: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    paused: NDArray[np.bool_]  # whether recording paused between each mark and the next


def find_steps(table: EventTable, restarts_ns: Sequence[int] = ()) -> StepList:
    """Steps by the profiler's own marks, else by a repeating annotation, else by optimizer calls, else one window.

    ``restarts_ns`` are the moments at which the recording began again, where the table joins several recordings.

    A step lasts until the next begins. The last one, and one before a pause of the profiler, lasts until its mark
    ends and the device has finished what was launched during it; but where the host had run ahead over several steps,
    the device's backlog belongs to none of them, and the step ends with its mark. Where the device begins the work of
    every step only after the host has left that step, marks show how fast the host runs ahead and not how long a step
    takes: a step is then the device's, from its first work to that of the next.

    Where it gets ahead only during the recording, its first steps are too short, and steps are the device's as well.

    Inferred steps (annotation, optimizer) tile the time from the begin of the first to the end of the last: a pause
    of the program between two of them belongs to a step. What lies outside is reported, see ``outside_steps``.
    Marks without any length are no steps: nothing can have happened in them.
    """
    found = _steps_by_marks(table, restarts_ns)
    lasting = tuple(step for step in found.steps if step.end_ns > step.start_ns)
    return replace(found, steps=lasting) if lasting else StepList((_window(table),), "window")


def _steps_by_marks(table: EventTable, restarts_ns: Sequence[int]) -> StepList:
    annotations = table.of_kind(EventKind.ANNOTATION)
    annotations = annotations[table.tracks["device"].to_numpy()[annotations["track"].to_numpy()] < 0]
    if (marks := _profiler_marks(annotations)) is not None:
        return _marked(marks, table, "profiler_step")
    restarts = np.array(sorted(restarts_ns), dtype=np.int64)
    optimizer = _optimizer_calls(annotations)
    if (marks := _repeating_marks(annotations, optimizer, restarts, _backward_starts(table))) is not None:
        return _marked(marks, table, "annotation")
    if steps := _optimizer_steps(optimizer, table, restarts):
        return StepList(steps, "optimizer")
    return StepList((_window(table),), "window")


@dataclass(frozen=True)
class OutsideSteps:
    """Recorded time of a rank that is in none of its steps."""

    before_ns: int
    between_ns: int
    after_ns: int
    recorded_ns: int  # of the whole recording, from its first to its last work

    @property
    def total_ns(self) -> int:
        """All of the time outside of the steps."""
        return self.before_ns + self.between_ns + self.after_ns


def outside_steps(table: EventTable, steps: Sequence[Step]) -> OutsideSteps:
    """Time of the recording before, between and after these steps."""
    window, first, last = _window(table), steps[0], steps[-1]
    before, after = max(0, first.start_ns - window.start_ns), max(0, window.end_ns - last.end_ns)
    between = last.end_ns - first.start_ns - sum(step.wall_ns for step in steps)
    return OutsideSteps(before, between, after, max(window.end_ns, last.end_ns) - min(window.start_ns, first.start_ns))


def _profiler_marks(annotations: pd.DataFrame) -> _Marks | None:
    found = annotations[name_mask(annotations["name"], PROFILER_STEP.match)]
    if found.empty:
        return None
    lengths = (found["end_ns"] - found["start_ns"]).groupby(found["track"]).agg(["count", "sum"])
    thread = lengths.sort_values(["count", "sum"], ascending=False, kind="stable").index[0]
    marks = _marks(found[found["track"] == thread])
    hole, length = marks.start_ns[1:] - marks.end_ns[:-1], (marks.end_ns - marks.start_ns)[:-1]
    return replace(marks, paused=marks.paused | (hole > PAUSE_RATIO * length))


def _backward_starts(table: EventTable) -> NDArray[np.int64]:
    """When operators and kernels of a backward pass begin, in order of time."""
    frame = table.frame
    found = name_mask(frame["name"], BACKWARD.search) & (frame["kind"].to_numpy() != EventKind.PYTHON)
    return np.asarray(frame["start_ns"].to_numpy()[found], dtype=np.int64)


def _repeating_marks(
    annotations: pd.DataFrame, optimizer: pd.DataFrame, restarts: NDArray[np.int64], backward: NDArray[np.int64]
) -> _Marks | None:
    """The annotation that comes back on one thread without overlapping itself and covers the most time.

    One that comes twice or more for each optimizer call marks a layer or a micro-batch, and so does one that lies
    inside of another mark where nothing shows that it trains. Where the optimizer is called outside of the marks, the
    last step lasts until the call that follows its mark.
    """
    rows = annotations[~name_mask(annotations["name"], NO_STEP_MARK.match)]
    families = np.array([DIGITS.sub("#", name) for name in rows["name"].cat.categories], dtype=object)
    best: pd.DataFrame | None = None
    best_ns = 0
    grouped = rows.groupby([families[rows["name"].cat.codes.to_numpy()], rows["track"].to_numpy()], sort=True)
    for _, group in grouped:
        start, end = group["start_ns"].to_numpy(), group["end_ns"].to_numpy()
        apart = len(group) > 1 and bool((start[1:] >= end[:-1]).all())
        parts_of_steps = len(optimizer) > 1 and len(group) >= 2 * len(optimizer)
        covered_ns = int((end - start).sum())
        covers = apart and covered_ns >= LEAST_COVER * int(end[-1] - start[0])
        candidate = covers and not parts_of_steps and covered_ns > best_ns and _alike(group)
        if candidate and not _of_one_step(group, annotations, backward):
            best, best_ns = group, covered_ns
    if best is None:
        return None
    marks = _marks(best)
    restarted = np.searchsorted(restarts, marks.start_ns[1:], side="right") > np.searchsorted(
        restarts, marks.start_ns[:-1], side="right"
    )
    end = marks.end_ns.copy()
    within = (optimizer["start_ns"].to_numpy() >= marks.start_ns[-1]) & (optimizer["start_ns"].to_numpy() < end[-1])
    behind = optimizer["end_ns"].to_numpy()[optimizer["start_ns"].to_numpy() >= end[-1]]
    if len(behind) and not within.any():
        end[-1] = behind.min()
    return replace(marks, end_ns=end, paused=marks.paused | restarted)


def _alike(group: pd.DataFrame) -> bool:
    """Whether marks without a step's name come at usual distances: trials of a benchmark are of any length."""
    if STEP_NAME.search(str(group["name"].iloc[0])):
        return True
    start, end = group["start_ns"].to_numpy(), group["end_ns"].to_numpy()
    apart = np.append(np.diff(start), end[-1] - start[-1])
    usual = float(np.median(apart))
    return bool(((apart >= usual / ALIKE) & (apart <= usual * ALIKE)).mean() >= LEAST_ALIKE)


def _of_one_step(group: pd.DataFrame, annotations: pd.DataFrame, backward: NDArray[np.int64]) -> bool:
    """Whether marks without a step's name lie in one other mark of their thread, and hold no backward pass."""
    if STEP_NAME.search(str(group["name"].iloc[0])):
        return False
    start, end = group["start_ns"].to_numpy(), group["end_ns"].to_numpy()
    others = annotations[annotations["track"].to_numpy() == group["track"].iloc[0]]
    around = (others["start_ns"].to_numpy() <= start[0]) & (others["end_ns"].to_numpy() >= end[-1])
    at = np.searchsorted(start, backward, side="right") - 1
    return bool(around.any() and not ((at >= 0) & (backward < end[np.maximum(at, 0)])).any())


def _marks(rows: pd.DataFrame) -> _Marks:
    """Marks in order of time, numbered by the one number in each name; one that begins in the one before is dropped."""
    start, end = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    free = np.append(True, start[1:] >= np.maximum.accumulate(end)[:-1])
    found = [DIGITS.findall(name) for name in rows["name"].astype("str")]
    named = all(len(each) == 1 and len(each[0]) < 10 for each in found)
    number = np.array([int(each[0]) for each in found] if named else range(len(rows)), dtype=np.int64)[free]
    if (np.diff(number) <= 0).any():
        same = bool((number == number[0]).all())  # it is a part of the name
        number = (0 if same else number[0]) + np.arange(len(number))
    start, end = start[free], end[free]
    skipped, hole = np.diff(number) > 1, start[1:] - end[:-1]
    return _Marks(number, start, end, skipped & (hole > PAUSE_RATIO_AFTER_SKIP * (end - start)[:-1]))


def _marked(marks: _Marks, table: EventTable, origin: StepOrigin) -> StepList:
    begun, finished = _device_work(marks, table)
    ahead = _ended(marks)
    in_turn = len(begun) > 1 and bool((np.diff(begun) > 0).all() and (begun < finished).all())
    if in_turn and (bool((begun >= ahead).all()) or _gains(marks, begun, ahead)):
        ends = np.append(begun[1:], finished[-1])
        columns = zip(marks.number.tolist(), begun.tolist(), ends.tolist(), strict=True)
        own = zip(marks.number.tolist(), marks.start_ns.tolist(), ahead.tolist(), strict=True)
        return StepList(tuple(Step(*step) for step in columns), origin, tuple(Step(*step) for step in own))
    return StepList(_steps(marks, finished), origin)


def _gains(marks: _Marks, begun: NDArray[np.int64], ahead: NDArray[np.int64]) -> bool:
    """Whether the host gets so far ahead of the device during the recording that its own steps are too short.

    It begins within a part of a step and ends nearly a whole step ahead, so that marks are the shorter the earlier.
    """
    lag = begun - marks.start_ns
    device_ns = float(np.median(np.diff(begun)))
    own = ahead - marks.start_ns
    return bool(
        (lag > 0).all()  # something was launched in each
        and lag[0] < BACKLOG_RATIO * device_ns
        and lag[-1] > (1.0 - BACKLOG_RATIO) * device_ns
        and own[0] < (1.0 - BACKLOG_RATIO) * device_ns
        and not marks.paused.any()
    )


def _ended(marks: _Marks) -> NDArray[np.int64]:
    """Where the host's steps end: at the next mark, the last one with its own."""
    return np.append(marks.start_ns[1:], marks.end_ns[-1])


def _steps(marks: _Marks, finished: NDArray[np.int64]) -> tuple[Step, ...]:
    length = marks.end_ns - marks.start_ns
    if len(length) > 1:
        follows = np.append(False, ~marks.paused)
        usual = float(np.median(np.diff(marks.start_ns)))  # marks may cover the beginning of each step only
        whole = length >= (1.0 - BACKLOG_RATIO) * usual
        longer = whole | (finished - marks.start_ns > (1.0 + BACKLOG_RATIO) * usual)
        backlog = follows & longer & (finished - marks.end_ns > BACKLOG_RATIO * length)
        finished = np.where(backlog, marks.end_ns, finished)
        after = np.where(marks.paused, np.minimum(finished[:-1], marks.start_ns[1:]), marks.start_ns[1:])
        finished = np.append(after, finished[-1])
    columns = zip(marks.number.tolist(), marks.start_ns.tolist(), finished.tolist(), strict=True)
    return tuple(Step(number, start, stop) for number, start, stop in columns)


def _device_work(marks: _Marks, table: EventTable) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each mark, when the device began what host calls during it launched (its start where nothing did),
    and when the mark had ended and the device had done that work."""
    frame = table.frame
    kind = frame["kind"].to_numpy()
    device = np.flatnonzero(np.isin(kind, [int(k) for k in DEVICE_WORK]))
    end_ns, launched = frame["end_ns"].to_numpy()[device], launch_starts(table, device)
    mark = np.searchsorted(marks.start_ns, launched, side="right") - 1
    inside = (mark >= 0) & (launched < marks.end_ns[np.maximum(mark, 0)])
    finish = marks.end_ns.copy()
    np.maximum.at(finish, mark[inside], end_ns[inside])
    begin = np.full(len(finish), NEVER)
    called = inside & (launching_calls(table, device) >= 0)  # what was launched before the recording is of no mark
    np.minimum.at(begin, mark[called], frame["start_ns"].to_numpy()[device][called])
    return np.where(begin == NEVER, marks.start_ns, begin), finish


def _optimizer_calls(annotations: pd.DataFrame) -> pd.DataFrame:
    """Calls of the optimizer in order of time; with several optimizers, of the one that ends last."""
    found = annotations[name_mask(annotations["name"], OPTIMIZER_STEP.match)]
    if found.empty:
        return found
    last = found["name"].iloc[int(found["end_ns"].to_numpy().argmax())]
    calls: pd.DataFrame = found[found["name"] == last]
    return calls


def _optimizer_steps(calls: pd.DataFrame, table: EventTable, restarts: NDArray[np.int64]) -> tuple[Step, ...]:
    """From the end of one optimizer call to the end of the next; the first of a recording from where that begins."""
    if calls.empty:
        return ()
    ends = np.unique(calls["end_ns"].to_numpy())
    starts = np.insert(ends[:-1], 0, min(_window(table).start_ns, int(ends[0])))
    recording = np.searchsorted(restarts, ends, side="right")
    again = np.append(False, np.diff(recording) > 0)
    starts[again] = restarts[recording[again] - 1]
    found = [Step(i, int(s), int(e)) for i, (s, e) in enumerate(zip(starts, ends, strict=True)) if e > s]
    if len(found) > 1:
        cut = bool((calls["start_ns"] == calls["end_ns"]).iloc[-1])  # the recording ended in the call
        found[-1] = replace(found[-1], end_ns=_device_end(found, table, cut))
    return tuple(found)


def _device_end(steps: Sequence[Step], table: EventTable, cut: bool) -> int:
    """When the device has done what the last of these steps launched, where that takes it no longer than usual; with
    all that is recorded behind it where the call that ends the step is ``cut``."""
    last, usual = steps[-1], float(np.median([step.wall_ns for step in steps]))
    device = np.flatnonzero(np.isin(table.frame["kind"].to_numpy(), [int(k) for k in DEVICE_WORK]))
    launched, ends = launch_starts(table, device), table.frame["end_ns"].to_numpy()[device]
    own = ends[(launched >= last.start_ns) & ((launched < last.end_ns) | cut)]
    finished = max(last.end_ns, int(own.max(initial=last.end_ns)))
    return finished if finished - last.start_ns <= (1.0 + BACKLOG_RATIO) * usual else last.end_ns


def _window(table: EventTable) -> Step:
    frame = table.frame
    work = frame[~frame["kind"].isin([int(EventKind.OTHER), int(EventKind.INSTANT)])]
    work = frame if work.empty else work
    return Step(0, int(work["start_ns"].min()), int(work["end_ns"].max()))
