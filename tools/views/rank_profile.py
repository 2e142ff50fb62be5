"""The fine view of one rank, computed once and shared by all analyzers."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.intervals import EMPTY, IntervalSet, covered, merge, subtract, union
from tools.knowledge.name_patterns import matching
from tools.run.events import EventKind
from tools.run.links import depths, launches, launching_operators
from tools.run.model import Rank, step_frame
from tools.run.steps import OutsideSteps, outside_steps
from tools.views.parts import Activity, Parts, breakdown, split


class RankProfile:
    """Masks, links and interval sets of one rank; everything is lazy and cached. Times in ns."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.events = rank.events
        self.start = rank.events.frame["start_ns"].to_numpy()
        self.end = rank.events.frame["end_ns"].to_numpy()
        self.kind = rank.events.frame["kind"].to_numpy()
        self.track = rank.events.frame["track"].to_numpy()
        self.codes = rank.events.frame["name"].cat.codes.to_numpy()  # of each event's name among the ``categories``
        self.categories = rank.events.frame["name"].cat.categories
        self._masks: dict[str, NDArray[np.bool_]] = {}

    def named(self, pattern: str) -> NDArray[np.bool_]:
        """For each event, whether its name matches a pattern of ``tools.knowledge.name_patterns``."""
        if pattern not in self._masks:
            self._masks[pattern] = matching(self.events.frame["name"], pattern)
        return self._masks[pattern]

    def names(self, rows: NDArray[np.int64]) -> list[str]:
        """Recorded names of the rows; untrusted text."""
        return [str(name) for name in self.events.frame["name"].iloc[rows]]

    def distinct_names(self, rows: NDArray[np.int64]) -> list[str]:
        """The different names among the rows; untrusted text."""
        return [str(name) for name in self.categories[np.unique(self.codes[rows])]]

    def code(self, name: str) -> int:
        """The code of a recorded name; -2, which no event has, where it is not recorded."""
        place = int(self.categories.get_indexer(pd.Index([name]))[0])
        return place if place >= 0 else -2

    @cached_property
    def steps(self) -> pd.DataFrame:
        """Columns number, start_ns, end_ns."""
        return step_frame(self.rank.steps)

    @cached_property
    def host_steps(self) -> pd.DataFrame:
        """The same of the host: earlier than ``steps`` where it runs whole steps ahead of the device."""
        return step_frame(self.rank.marks or self.rank.steps)

    @cached_property
    def kernels(self) -> NDArray[np.int64]:
        """Rows of all device kernels."""
        return np.flatnonzero(self.kind == EventKind.KERNEL)

    @cached_property
    def communication_kernels(self) -> NDArray[np.int64]:
        """Rows of device kernels that communicate."""
        return self.kernels[self.named("communication_kernel")[self.kernels]]

    @cached_property
    def compute_kernels(self) -> NDArray[np.int64]:
        """Rows of device kernels that do not communicate."""
        return self.kernels[~self.named("communication_kernel")[self.kernels]]

    @cached_property
    def copies(self) -> NDArray[np.int64]:
        """Rows of memory copies and memsets on the device."""
        return np.flatnonzero((self.kind == EventKind.MEMCPY) | (self.kind == EventKind.MEMSET))

    @cached_property
    def launches(self) -> pd.DataFrame:
        """Launching call and device work, see ``tools.run.links.launches``."""
        return launches(self.events)

    @cached_property
    def launching_operators(self) -> NDArray[np.int64]:
        """For each row of ``launches`` the innermost operator around the call, else -1."""
        return launching_operators(self.events, self.launches)

    @cached_property
    def backlog_ns(self) -> int:
        """Time from the first step's start for which the device still worked on earlier launches."""
        begin_ns = int(self.host_steps["start_ns"].iloc[0])
        own = self.launches[self.launches["call_start_ns"] >= begin_ns]
        if own.empty:
            return 0
        first_ns = int(own["start_ns"].min())
        device = np.concatenate((self.kernels, self.copies))
        earlier = device[self.start[device] < first_ns]
        return max(0, min(int(self.end[earlier].max(initial=0)), first_ns) - begin_ns)

    @cached_property
    def outside_steps(self) -> OutsideSteps | None:
        """Recorded time in none of the steps where these are inferred; None where they are marked or not known."""
        inferred = self.rank.step_origin in ("annotation", "optimizer") and len(self.rank.steps) > 0
        return outside_steps(self.events, self.rank.steps) if inferred else None

    @cached_property
    def training_tracks(self) -> NDArray[np.int64]:
        """Host threads that carry steps, launch work, or (without a device) run operators; not pinning threads."""
        host = self.events.tracks["device"].to_numpy() < 0
        marks = self.named("profiler_step") | self.named("optimizer")
        marked = self.track[marks & host[self.track]]
        driving = self.launches["host_track"].to_numpy()
        if not self.rank.has_device:
            driving = self.track[(self.kind == EventKind.OPERATOR) & host[self.track]]
        chosen = np.union1d(marked, np.setdiff1d(driving, self.track[self.named("pin_memory")]))
        return chosen.astype(np.int64) if len(chosen) else np.flatnonzero(host)

    @cached_property
    def on_training_thread(self) -> NDArray[np.bool_]:
        """For each event, whether it lies on a training thread."""
        return np.isin(self.track, self.training_tracks)

    @cached_property
    def loader_rows(self) -> NDArray[np.int64]:
        """Rows of the outermost spans in which a training thread asks a data loader for a batch."""
        rows = np.flatnonzero(self.named("loader_span") & self.on_training_thread & (self.end > self.start))
        reach = np.maximum.accumulate(self.end[rows]) if len(rows) else rows
        outermost = np.ones(len(rows), dtype=bool)
        outermost[1:] = self.end[rows[1:]] > reach[:-1]
        return rows[outermost]

    @cached_property
    def activity(self) -> Activity:
        """Raw interval sets, see ``tools.views.parts``."""
        links, on_host = self.launches, not self.rank.has_device
        return Activity(
            device_compute=self.covered(self.compute_kernels),
            device_communication=self.covered(self.communication_kernels),
            device_copy=self.covered(self.copies),
            outstanding=union(links["call_end_ns"].to_numpy(), links["start_ns"].to_numpy()),
            loader=self.covered(self.loader_rows),
            host_compute=self._host_computing() if on_host else EMPTY,
            host_communication=self.covered(self.host_collective_rows) if on_host else EMPTY,
            has_device=self.rank.has_device,
        )

    @cached_property
    def host_collective_rows(self) -> NDArray[np.int64]:
        """Rows of host spans that stand for a collective under way (gloo, MPI), on any thread."""
        return np.flatnonzero(self.named("communication_span") & (self.end > self.start))

    @cached_property
    def host_compute_rows(self) -> NDArray[np.int64]:
        """Rows of operators on training threads that compute (not those that stand for communication)."""
        operators = (self.kind == EventKind.OPERATOR) & self.on_training_thread
        return np.flatnonzero(operators & ~self.named("communication_operator") & ~self.named("communication_span"))

    @cached_property
    def parts(self) -> Parts:
        """The disjoint parts of the time from the first step's start to the last step's end."""
        start_ns, end_ns = self.rank.window()
        return split(self.activity, start_ns, end_ns)

    @cached_property
    def breakdown(self) -> pd.DataFrame:
        """One row per step, see ``tools.views.parts.breakdown``."""
        return breakdown(self.parts, self.steps)

    def in_steps(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows that start inside one of the rank's steps."""
        return rows[self.step_of(rows) >= 0]

    def places(self, details: pd.DataFrame, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each row (-1 for none) its place in a side table of the events, -1 where it has none."""
        place = np.full(len(self.kind) + 1, -1, dtype=np.int64)
        place[details["row"].to_numpy()] = np.arange(len(details))
        return place[rows]

    def step_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """For each row the number of the step in which it starts, -1 outside of all; host events by ``host_steps``."""
        if not self.rank.marks:
            return _step_of(self.steps, self.start[rows])
        on_device = self.events.tracks["device"].to_numpy()[self.track[rows]] >= 0
        return np.where(on_device, *(_step_of(steps, self.start[rows]) for steps in (self.steps, self.host_steps)))

    def _host_computing(self) -> IntervalSet:
        """Time in computing operators; what only encloses others (autograd's nodes) may be waiting for a collective."""
        rows = self.host_compute_rows
        encloses = self.named("enclosing_operator")[rows]
        waiting = self.covered(self.host_collective_rows)
        return merge(self.covered(rows[~encloses]), subtract(self.covered(rows[encloses]), waiting))

    def outermost(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of the rows that lie in no other of them, per thread; ascending."""
        by_track = [rows[self.track[rows] == track] for track in np.unique(self.track[rows])]
        tops = [mine[depths(self.start[mine], self.end[mine]) == 0] for mine in by_track]
        return np.sort(np.concatenate(tops)).astype(np.int64) if tops else rows

    def covered(self, rows: NDArray[np.int64]) -> IntervalSet:
        """The moments in which at least one event of these rows is open."""
        return union(self.start[rows], self.end[rows])

    def per_step_ns(self, moments: IntervalSet) -> NDArray[np.int64]:
        """Nanoseconds of the interval set in each step."""
        return covered(moments, self.steps["start_ns"].to_numpy(), self.steps["end_ns"].to_numpy())

    def host_per_step_ms(self, moments: IntervalSet) -> NDArray[np.float64]:
        """Milliseconds of the interval set in each step of the host."""
        steps = self.host_steps
        return covered(moments, steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()) / 1e6

    def per_step_ms(self, moments: IntervalSet) -> NDArray[np.float64]:
        """Milliseconds of the interval set in each step."""
        return self.per_step_ns(moments) / 1e6

    @cached_property
    def wall_ms(self) -> NDArray[np.float64]:
        """Duration of each step in ms."""
        return (self.steps["end_ns"] - self.steps["start_ns"]).to_numpy() / 1e6


def _step_of(steps: pd.DataFrame, moments: NDArray[np.int64]) -> NDArray[np.int64]:
    starts, ends = steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()
    place = np.maximum(np.searchsorted(starts, moments, side="right") - 1, 0)
    inside = (moments >= starts[0]) & (moments < ends[place]) if len(starts) else np.zeros(len(moments), dtype=bool)
    return np.where(inside, steps["number"].to_numpy()[place], -1) if len(starts) else np.full(len(moments), -1)
