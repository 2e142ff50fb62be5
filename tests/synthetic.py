"""Runs made up event by event, for tests with known answers. Times are given in microseconds from the run's origin.

    rank = RankBuilder()
    with_mm = rank.operator("aten::mm", 10, 20, dims=[[64, 64], [64, 64]], types=["float", "float"])
    rank.kernel("sgemm", start_us=40, duration_us=100, call_us=12)
    rank.step(0, 0, 200)
    profile = profile_of(rank)

Every adding method returns a handle; ``rank.rows()`` maps handles to row ids of the built table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.knowledge.thresholds import Thresholds
from tools.run.events import DETAIL_COLUMNS, FRAME_COLUMNS, TRACK_COLUMNS, Details, EventKind, EventTable
from tools.run.model import Device, Layout, Rank, Run, Step
from tools.views.profile import Profile

NS_PER_US = 1000
V100 = Device(0, "Tesla V100-SXM2-32GB", 34_000_000_000, "7.0", 80)
H100 = Device(0, "NVIDIA H100 80GB HBM3", 85_000_000_000, "9.0", 132)
A100 = Device(0, "NVIDIA A100-SXM4-80GB", 85_000_000_000, "8.0", 108)


def to_ns(us: float) -> int:
    """Microseconds as whole nanoseconds."""
    return round(us * NS_PER_US)


class RankBuilder:
    """Collects events of one rank; track ``main`` is its training thread, ``stream`` its default device stream."""

    def __init__(self, rank: int = 0, device: Device | None = V100, **metadata: str) -> None:
        self.number = rank
        self.device = device
        self.metadata = metadata
        self._events: list[tuple[int, int, int, str, int, int, int]] = []
        self._details: dict[str, list[dict[str, Any]]] = {name: [] for name in DETAIL_COLUMNS}
        self._tracks: list[dict[str, Any]] = []
        self._steps: list[Step] = []
        self._correlation = 0
        self.main = self.host_thread("main")
        self.stream = -1 if device is None else self.device_stream(7)

    def host_thread(self, label: str = "") -> int:
        """A further host thread; gives its track."""
        tid = str(100 + len(self._tracks))
        return self._track(pid="100", tid=tid, device=-1, stream=-1, label=label or f"thread {tid}")

    def device_stream(self, stream: int, device: int = 0) -> int:
        """A further stream of a device; gives its track."""
        return self._track(pid=str(device), tid=str(stream), device=device, stream=stream, label=f"stream {stream}")

    def event(
        self,
        kind: EventKind,
        name: str,
        start_us: float,
        duration_us: float,
        track: int | None = None,
        correlation: int = -1,
        external: int = -1,
    ) -> int:
        """Any event; on the training thread unless a track is given."""
        start = to_ns(start_us)
        place = self.main if track is None else track
        end = start + to_ns(duration_us)
        self._events.append((start, end, int(kind), name, place, correlation, external))
        return len(self._events) - 1

    def operator(
        self,
        name: str,
        start_us: float,
        duration_us: float,
        track: int | None = None,
        dims: Sequence[Any] | None = None,
        types: Sequence[str] | None = None,
        sequence: int = -1,
        forward_thread: int = -1,
        stack: str = "",
    ) -> int:
        """An operator on a host thread, with shapes when given."""
        handle = self.event(EventKind.OPERATOR, name, start_us, duration_us, track)
        if dims is not None or types is not None or sequence >= 0 or stack:
            self.detail(
                "operators",
                handle,
                dims=json.dumps(list(dims or [])),
                types=json.dumps(list(types or [])),
                sequence=sequence,
                forward_thread=forward_thread,
                stack=stack,
            )
        return handle

    def annotation(self, name: str, start_us: float, duration_us: float, track: int | None = None) -> int:
        """A span that a framework or user marked on a host thread."""
        return self.event(EventKind.ANNOTATION, name, start_us, duration_us, track)

    def runtime(self, name: str, start_us: float, duration_us: float, correlation: int = -1) -> int:
        """A runtime call on the training thread."""
        return self.event(EventKind.RUNTIME, name, start_us, duration_us, correlation=correlation)

    def kernel(
        self,
        name: str,
        start_us: float,
        duration_us: float,
        call_us: float | None = None,
        call_duration_us: float = 2.0,
        stream: int | None = None,
        blocks: int = -1,
        threads: int = -1,
        host_track: int | None = None,
    ) -> int:
        """A kernel; with ``call_us`` also the call that launched it, joined by a fresh correlation id."""
        correlation = self._launch("cudaLaunchKernel", call_us, call_duration_us, host_track)
        place = self.stream if stream is None else stream
        handle = self.event(EventKind.KERNEL, name, start_us, duration_us, place, correlation)
        if blocks >= 0:
            self.detail("kernels", handle, blocks=blocks, threads=threads)
        return handle

    def copy(
        self,
        name: str,
        start_us: float,
        duration_us: float,
        call_us: float | None = None,
        call_duration_us: float = 2.0,
        bytes_: int = -1,
        stream: int | None = None,
        call_name: str = "cudaMemcpyAsync",
        host_track: int | None = None,
    ) -> int:
        """A memory copy on the device; with ``call_us`` also the call that started it."""
        correlation = self._launch(call_name, call_us, call_duration_us, host_track)
        place = self.stream if stream is None else stream
        handle = self.event(EventKind.MEMCPY, name, start_us, duration_us, place, correlation)
        self.detail("copies", handle, bytes=bytes_)
        return handle

    def detail(self, table: str, handle: int, **columns: Any) -> None:  # noqa: ANN401 (a row of any side table)
        """A row of a side table of ``Details`` for that event; what is not given is absent."""
        self._details[table].append({"row": handle, **columns})

    def step(self, number: int, start_us: float, end_us: float, marked: bool = True) -> None:
        """A training step, by default with its ProfilerStep span on the training thread."""
        self._steps.append(Step(number, to_ns(start_us), to_ns(end_us)))
        if marked:
            self.annotation(f"ProfilerStep#{number}", start_us, end_us - start_us)

    def rows(self) -> NDArray[np.int64]:
        """Row id in the built table of every handle."""
        order = self._order()
        result = np.empty(len(order), dtype=np.int64)
        result[order] = np.arange(len(order))
        return result

    def build(self) -> Rank:
        """The rank, its events sorted as a reader sorts them."""
        order = self._order()
        columns = zip(*(self._events[place] for place in order), strict=True) if self._events else [()] * 7
        events = {
            name: pd.Series(column, dtype=FRAME_COLUMNS[name])
            for name, column in zip(FRAME_COLUMNS, columns, strict=True)
        }
        return Rank(
            rank=self.number,
            rank_origin="recorded",
            events=EventTable(
                frame=pd.DataFrame(events),
                tracks=pd.DataFrame(self._tracks, columns=list(TRACK_COLUMNS)).astype(TRACK_COLUMNS),
                details=self._side_tables(),
            ),
            steps=tuple(sorted(self._steps, key=lambda step: step.start_ns)),
            step_origin="profiler_step",
            devices=() if self.device is None else (self.device,),
            metadata=dict(self.metadata),
        )

    def _track(self, **columns: str | int) -> int:
        self._tracks.append(columns)
        return len(self._tracks) - 1

    def _launch(self, name: str, call_us: float | None, duration_us: float, track: int | None) -> int:
        if call_us is None:
            return -1
        self._correlation += 1
        self.event(EventKind.RUNTIME, name, call_us, duration_us, track, correlation=self._correlation)
        return self._correlation

    def _order(self) -> NDArray[np.int64]:
        start = np.array([event[0] for event in self._events], dtype=np.int64)
        end = np.array([event[1] for event in self._events], dtype=np.int64)
        return np.lexsort((-end, start))

    def _side_tables(self) -> Details:
        rows = self.rows()
        return Details(
            **{
                name: _side_table(details, DETAIL_COLUMNS[name], rows) if details else _no_rows(name).copy()
                for name, details in self._details.items()
            }
        )


@cache
def _no_rows(name: str) -> pd.DataFrame:
    return _side_table([], DETAIL_COLUMNS[name], np.empty(0, dtype=np.int64))


def _side_table(details: list[dict[str, Any]], columns: Mapping[str, str], rows: NDArray[np.int64]) -> pd.DataFrame:
    table = pd.DataFrame(details, columns=list(columns))
    for column in columns:
        if column in ("row", "forward_row", "backward_row"):
            table[column] = rows[table[column].astype("int64")]
        elif columns[column] == "category":
            table[column] = table[column].astype(object).fillna("")
        elif columns[column].startswith("int"):
            table[column] = pd.to_numeric(table[column]).fillna(-1)
    return table.astype(dict(columns)).sort_values(next(iter(columns)), ignore_index=True)


def run_of(*builders: RankBuilder, layout: Layout | None = None) -> Run:
    """The run of these ranks."""
    ranks = tuple(builder.build() for builder in builders)
    return Run(ranks=ranks, sources=(), layout=layout or Layout(world_size=len(ranks)), origin_unix_ns=None)


def profile_of(*builders: RankBuilder, layout: Layout | None = None, **thresholds: float) -> Profile:
    """The profile of these ranks; keyword arguments override thresholds."""
    return Profile(run_of(*builders, layout=layout), Thresholds(thresholds))
