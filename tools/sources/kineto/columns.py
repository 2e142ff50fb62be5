"""From the words of a trace to kinds of events: every name the versions of Kineto have used for a category."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tools.run.kinds import CORE_CLOCK, DEVICE_WORK, EventKind
from tools.sources.kineto.begin_end import END, Edges
from tools.sources.kineto.decode import AnyEvent, Args, Decoded
from tools.sources.kineto.details import Codes, DetailParts, integers
from tools.sources.kineto.event_numbers import Runs, runs_of
from tools.sources.kineto.times import Times

# A range of CUPTI's profiler: kernels are run again for each counter and share its time, so it is the time of none.
COUNTER_RANGE = "cuda_profiler_range"

KIND_OF_CATEGORY: dict[str, EventKind] = {
    **dict.fromkeys(("cpu_op", "Operator"), EventKind.OPERATOR),
    "user_annotation": EventKind.ANNOTATION,
    **dict.fromkeys(
        (
            *("cuda_runtime", "cuda_driver", "hip_runtime", "xpu_runtime", "xpu_driver", "mtia_runtime"),
            *("privateuse1_runtime", "privateuse1_driver", "Runtime"),
        ),
        EventKind.RUNTIME,
    ),
    **dict.fromkeys(("python_function", "Python"), EventKind.PYTHON),
    **dict.fromkeys(("kernel", "Kernel", "mtia_ccp_events"), EventKind.KERNEL),
    **dict.fromkeys(("gpu_memcpy", "Memcpy"), EventKind.MEMCPY),
    **dict.fromkeys(("gpu_memset", "Memset"), EventKind.MEMSET),
    "cuda_sync": EventKind.SYNC,
    "gpu_user_annotation": EventKind.DEVICE_ANNOTATION,
    COUNTER_RANGE: EventKind.DEVICE_ANNOTATION,
    "cpu_instant_event": EventKind.INSTANT,
}

ON_DEVICE = (*DEVICE_WORK, EventKind.SYNC, EventKind.DEVICE_ANNOTATION)

FORWARD_BACKWARD = ("fwdbwd", "forward_backward")

MEMORY_INSTANT = "[memory]"
BROKEN = "that are no JSON"  # and not provably single: something else was written into the file, or text is lost

# Operators that are really marks set around other work: the first Kineto versions filed step marks, loader spans and
# optimizer calls under "Operator".
ANNOTATION_NAME = re.compile(
    r"ProfilerStep#|enumerate\(|Optimizer\.|(?:nccl|gloo|mpi|ucc|rccl|hccl|xccl):"
    r"|DistributedDataParallel\.forward|\#\# "
)


# Categories of accelerators that have none of their own in Kineto, after those of its other devices.
OF_DEVICE = re.compile(
    r"(?!(?:cpu|host|os|linux|jit|system)_)[a-z][a-z0-9]{1,15}_"
    r"(?:(?P<runtime>runtime|driver)|(?P<kernel>kernels?)|(?P<memcpy>memcpy)|(?P<memset>memset)|(?P<mark>user_annotation))"
)
KIND_OF_PART = {
    "runtime": EventKind.RUNTIME,
    "kernel": EventKind.KERNEL,
    "memcpy": EventKind.MEMCPY,
    "memset": EventKind.MEMSET,
    "mark": EventKind.DEVICE_ANNOTATION,
}
MOST_CATEGORIES = 1 << 12  # that are kept


class CategoryCodes(dict[str, int]):
    """The code of a kind for a category; plain ints make arrays fast."""

    def __missing__(self, category: str) -> int:
        found = OF_DEVICE.fullmatch(category)
        code = int(KIND_OF_PART[found.lastgroup]) if found and found.lastgroup else 0
        if len(self) < MOST_CATEGORIES:
            self[category] = code
        return code


CODE_OF_CATEGORY = CategoryCodes({category: int(kind) for category, kind in KIND_OF_CATEGORY.items()})
_ON_DEVICE = np.array([kind in ON_DEVICE for kind in EventKind])

NO_ARGS = Args()
NO_CONNECTION = 2**32 - 1
INSTANT_PHASES = ("i", "I", "R")
BEGIN_END = ("B", "E")
HIGHEST_MHZ = 100_000  # a clock beyond it is a damaged number
MOST_LABELS = 8  # of one process, and categories of one lane

TrackKey = tuple[int | str, int | str]


Parts = dict[str, list[NDArray[Any]]]  # each column as a list of arrays, in the order the slices were added
ROW_DTYPES: dict[str, type[np.generic]] = {
    **dict.fromkeys(("start_ns", "end_ns", "correlation", "external"), np.int64),
    **dict.fromkeys(("name", "track"), np.int32),
    "kind": np.int8,
}
FLOW_COLUMNS = ("starting", "identity", "time_ns", "track")  # arrows from forward to backward operators


@dataclass
class Columns:
    """The columns of many slices."""

    rows_of: Parts = field(default_factory=lambda: {name: [] for name in ROW_DTYPES})
    flows: Parts = field(default_factory=lambda: {name: [] for name in FLOW_COLUMNS})
    names: Codes[str] = field(default_factory=Codes)
    tracks: Codes[TrackKey] = field(default_factory=Codes)
    devices: dict[int, tuple[int, int]] = field(default_factory=dict)  # track -> device, stream
    labels: dict[TrackKey, str] = field(default_factory=dict)
    processes: dict[int | str, set[str]] = field(default_factory=dict)  # names and labels, by pid
    edges: Edges = field(default_factory=Edges)  # begins and ends that are events of their own
    flow_ids: Codes[int | str] = field(default_factory=Codes)
    details: DetailParts = field(default_factory=DetailParts)
    excluded: Counter[str] = field(default_factory=Counter)
    unknown: dict[int, set[str]] = field(default_factory=dict)  # track -> categories of its events of no known kind
    arrows: dict[str, set[int | str]] = field(
        default_factory=lambda: {"s": set(), "f": set()}
    )  # processes at their ends
    numbered: list[Runs] = field(default_factory=list)  # the numbers that the profiler gave its events, by slice
    rows: int = 0
    spans: int = 0  # rows with a duration
    seen: int = 0  # all trace events, arrows and labels included
    counter_ranges: int = 0

    def joined(self, name: str) -> NDArray[Any]:
        """One column of the rows."""
        parts = self.rows_of[name]
        return np.concatenate(parts) if parts else np.empty(0, dtype=ROW_DTYPES[name])

    def add(self, decoded: Decoded) -> None:
        """Append the events of one slice."""
        events: Sequence[AnyEvent] = decoded.events
        rows = self.rows
        self.seen += len(events) + decoded.unreadable + decoded.broken
        self.excluded["not readable"] += decoded.unreadable
        self.excluded[BROKEN] += decoded.broken
        phases = [event.ph for event in events]
        lasting = np.array([phase == "X" for phase in phases], dtype=bool)
        spans = [event for event in events if event.ph == "X"]
        code = CODE_OF_CATEGORY
        kinds = [code[event.cat] for event in spans]
        if EventKind.DEVICE_ANNOTATION in kinds:
            self.counter_ranges += sum(event.cat == COUNTER_RANGE for event in spans)
        self._add_rows(spans, np.array(kinds, dtype=np.int8), decoded.times.taken(lasting))
        self.spans += self.rows - rows
        at: list[int] = np.flatnonzero(~lasting).tolist()
        instants = [place for place in at if phases[place] in INSTANT_PHASES]
        kind = np.full(len(instants), EventKind.INSTANT, dtype=np.int8)
        self._add_rows([events[place] for place in instants], kind, _those(decoded, instants))
        clocks = [place for place in at if phases[place] == "C" and events[place].name == CORE_CLOCK]
        self._add_clocks([events[place] for place in clocks], _those(decoded, clocks))
        edges = [place for place in at if phases[place] in BEGIN_END]
        self._add_edges([events[place] for place in edges], _those(decoded, edges))
        arrows = [place for place in at if events[place].cat in FORWARD_BACKWARD]
        self._add_flows([events[place] for place in arrows], _those(decoded, arrows))
        for event in (events[place] for place in at):
            args = event.args or NO_ARGS
            if event.ph == "M":
                self._add_label(event, args)
            elif event.ph in self.arrows and event.cat not in FORWARD_BACKWARD:
                self.arrows[event.ph].add(event.pid)
        known = len(instants) + len(clocks) + len(edges) + sum(phases[place] in "sftM" for place in at)
        self.excluded["of a phase that is not read"] += len(at) - known

    def _add_clocks(self, events: list[AnyEvent], times: Times) -> None:
        """Instants that hold a clock in their name."""
        for event in events:
            event.name = clock_name((event.args or NO_ARGS).mhz)
        self._add_rows(events, np.full(len(events), EventKind.INSTANT, dtype=np.int8), times)

    def _add_label(self, event: AnyEvent, args: Args) -> None:
        if event.name == "thread_name" and isinstance(args.label, str):
            self.labels[event.pid, event.tid] = args.label.strip()
        said = args.labels if event.name == "process_labels" else args.label if event.name == "process_name" else ""
        if isinstance(said, str) and said.strip():
            known = self.processes.setdefault(event.pid, set())
            if len(known) < MOST_LABELS:
                known.add(said.strip())

    def _add_edges(self, events: list[AnyEvent], times: Times) -> None:
        """Rows for begins, which get their length when all events are there, and what pairs them with their ends."""
        usable = times.usable
        self.excluded["without a usable time"] += int(len(events) - usable.sum())
        events = [event for event, good in zip(events, usable.tolist(), strict=True) if good]
        if not events:
            return
        times = times.taken(usable)
        begins = np.array([event.ph == "B" for event in events], dtype=bool)
        rows = np.full(len(events), END, dtype=np.int64)
        rows[begins] = self.rows + np.arange(int(begins.sum()))
        opening = [event for event in events if event.ph == "B"]
        kinds = np.array([CODE_OF_CATEGORY[event.cat] for event in opening], dtype=np.int8)
        self._add_rows(opening, kinds, times.taken(begins))
        self.spans += len(opening)
        tracks = [self.tracks[event.pid, event.tid] for event in events]
        self.edges.add(rows.tolist(), times.start_ns.tolist(), tracks, [event.name for event in events])

    def _add_rows(self, events: list[AnyEvent], kind: NDArray[np.int8], times: Times) -> None:
        usable = times.usable
        if not usable.all():
            self.excluded["without a usable time"] += int(len(events) - usable.sum())
            events = [event for event, good in zip(events, usable.tolist(), strict=True) if good]
            times, kind = times.taken(usable), kind[usable]
        if not events:
            return
        args = [event.args or NO_ARGS for event in events]
        names, tracks = self.names, self.tracks
        track = np.array([tracks[event.pid, event.tid] for event in events], dtype=np.int32)
        name = np.array([names[event.name] for event in events], dtype=np.int32)
        correlation = integers([item.correlation for item in args])
        if not (correlation >= 0).any():  # Ascend writes connections instead
            correlation = connections(args)
        start = times.start_ns
        added = {"start_ns": start, "end_ns": start + times.length_ns, "kind": kind, "name": name, "track": track}
        added |= {"correlation": correlation, "external": _external(args, correlation)}
        for column, values in added.items():
            self.rows_of[column].append(values)
        self._note_devices(kind, track, args)
        for row in np.flatnonzero(kind == EventKind.OTHER).tolist():
            said = self.unknown.setdefault(int(track[row]), set())
            if len(said) < MOST_LABELS:
                said.add(events[row].cat)
        memory = names.get(MEMORY_INSTANT, -1)
        self.details.add(self.rows, kind, name == memory, args)
        self.numbered.append(runs_of(integers([item.number for item in args])))
        self.rows += len(events)

    def _note_devices(self, kind: NDArray[np.int8], track: NDArray[np.int32], args: list[Args]) -> None:
        on_device = np.flatnonzero(_ON_DEVICE[kind])
        unique, first = np.unique(track[on_device], return_index=True)
        for code, row in zip(unique.tolist(), on_device[first].tolist(), strict=True):
            if code not in self.devices or self.devices[code][0] < 0:
                device, stream = integers([args[row].device]), integers([args[row].stream])
                self.devices[code] = (int(device[0]), int(stream[0]))

    def _add_flows(self, events: list[AnyEvent], times: Times) -> None:
        ids, tracks = self.flow_ids, self.tracks
        columns = {
            "time_ns": times.start_ns,
            "starting": np.array([event.ph == "s" for event in events], dtype=bool),
            "identity": np.array([ids[event.id] for event in events], dtype=np.int64),
            "track": np.array([tracks[event.pid, event.tid] for event in events], dtype=np.int32),
        }
        for name, values in columns.items():
            self.flows[name].append(values[times.usable])


def clock_name(mhz: object) -> str:
    """The name of an instant at which the cores' clock was read; without a number where that is none."""
    sound = isinstance(mhz, int | float) and 0 < mhz < HIGHEST_MHZ
    return f"{CORE_CLOCK} {mhz:g} MHz" if sound else CORE_CLOCK


def connections(args: list[Args]) -> NDArray[np.int64]:
    """The ids that join calls with device work on Ascend, -1 where an event has none."""
    found = integers([item.connection for item in args])
    return np.where((found >= 0) & (found != NO_CONNECTION), found, -1)


def _those(decoded: Decoded, at: list[int]) -> Times:
    return decoded.times.taken(np.array(at, dtype=np.int64))


def _external(args: list[Args], correlation: NDArray[np.int64]) -> NDArray[np.int64]:
    """The operator's id; device work without an operator repeats its correlation id there, which joins nothing."""
    external = integers([item.external for item in args])
    if not (external >= 0).all():
        external = np.where(external >= 0, external, integers([item.external_old for item in args]))
    return np.where(external == correlation, -1, external)
