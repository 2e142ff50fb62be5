"""Device work of profilers whose categories are not known: recognised by the process that it is recorded under.

A process is a device's by its name or label, by the categories of what it holds, or because the host's calls lead to
its events. What only looks like one is not read, but named: without it nothing says what the host waits for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tools.intervals import length, union
from tools.run.kinds import DEVICE_WORK, HOST_WORK, EventKind
from tools.sources.kineto.columns import Columns, TrackKey

# Names and labels of processes that stand for a device: Kineto's and Ascend's labels, XLA's "/device:GPU:0".
DEVICE_PROCESS = re.compile(r"(?:/device:)?(?:[GNXTI]PU|MTIA|HPU|Ascend Hardware|Accelerator)\b", re.IGNORECASE)
# Words for accelerators, their units and their queues, in names and categories of processes that hold no host work.
DEVICE_WORDS = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:[GNXTIHMVDPSBRLA]PU|MLU|GCU|DCU|RDU|MUSA|MTIA|SDAA|SUPA|MACA|CUDA|HIP|ROCm|privateuse\d?"
    r"|NC|NeuronCores?|Neuron|NeuronDevice|Gaudi\d?|Ascend|Cambricon|Enflame|Tops|Iluvatar|CoreX|MetaX|Biren|Hygon"
    r"|Kunlun|Graphcore|Groq|Cerebras|Trainium\d?|Trn\d|Inferentia\d?|Inf\d|TPC|MME|AICore|AIV|AIC|accelerators?|accel"
    r"|device|kernels?|[a-z]*chips?|hardware)(?:[ _:#-]?\d+)?"
    r"|(?:compute|copy|dma|device|hardware) (?:stream|queue|engine)s?)(?![A-Za-z0-9])",
    re.IGNORECASE,
)
NO_DEVICE = re.compile(r"/device:CPU|overlap analysis|counter|communication\b|\bsummary", re.IGNORECASE)  # derived rows
HOST_WORDS = re.compile(
    r"(?<![A-Za-z0-9])(?:cpus?|host|python\d?(?:\.\d+)*|py|main(?:process)?|workers?|loaders?|dataloaders?|process"
    r"|threads?|trainers?|rank|launcher|torchrun|runtime|driver|api|launch(?:es)?|overhead|trace|spans?|annotations?"
    r"|profiler|step|io|disk|network|log)(?![A-Za-z])|\.py\b",
    re.IGNORECASE,
)
# Lanes of a device whose events cover those of other lanes, as XLA names them.
COVERING = re.compile(r"steps|xla modules|framework|source code|tensorflow", re.IGNORECASE)
COPY = re.compile(r"memcpy|\bcopy\b|copyto|[HD]to[HD]\b|host.?to.?device|device.?to.?host", re.IGNORECASE)
FILL = re.compile(r"memset", re.IGNORECASE)
NUMBER = re.compile(r"\d+")
FEWEST_EVENTS = 20  # of a process that may be a device: fewer may be anything
LEAST_SHARE = 0.05  # of the recording that they fill
MOST_NESTED = 0.1  # of the events of a lane may begin within the one before: a device works one after another


@dataclass(frozen=True)
class DeviceWork:
    """The kinds of all events, and the processes that may be devices but were not taken for one."""

    kind: NDArray[np.int8]
    unsure: tuple[str, ...] = field(default=())


def take_device_work(
    columns: Columns, kind: NDArray[np.int8], start: NDArray[np.int64], end: NDArray[np.int64]
) -> DeviceWork:
    """The kinds, with events of unknown category on a device's process as device work; notes the devices' streams.

    Only where no device work has a known category: then the unknown ones are something else.
    """
    if not len(kind) or np.isin(kind, [int(each) for each in DEVICE_WORK]).any():
        return DeviceWork(kind)
    track, unknown = columns.joined("track"), kind == EventKind.OTHER
    processes = _Processes(columns, kind, track)
    devices = [pid for pid in processes.known if processes.is_device(pid)]
    if not devices:
        unsure = [pid for pid in processes.known if processes.may_be(pid)]
        busy = [pid for pid in unsure if _works_as_one(processes.rows(pid, unknown), track, start, end)]
        return DeviceWork(kind, tuple(processes.name(pid) for pid in busy))
    keys = list(columns.tracks)
    lane = np.array([_lane(columns, key, devices) for key in keys], dtype=np.int8)
    names = list(columns.names)
    own = np.where(_matching(names, FILL), EventKind.MEMSET, EventKind.KERNEL)
    own = np.where(_matching(names, COPY), EventKind.MEMCPY, own).astype(np.int8)
    taken = unknown & (lane[track] == EventKind.KERNEL)
    found = np.where(taken, own[columns.joined("name")], kind)
    found[unknown & (lane[track] == EventKind.DEVICE_ANNOTATION)] = EventKind.DEVICE_ANNOTATION
    for code, key in enumerate(keys):
        if lane[code]:
            stream = NUMBER.search(columns.labels.get(key, "") or str(key[1]))
            columns.devices[code] = (devices.index(key[0]), int(stream[0][:9]) if stream else -1)
    return DeviceWork(found.astype(np.int8))


class _Processes:
    """What the processes of a trace are, by their names, categories and links."""

    def __init__(self, columns: Columns, kind: NDArray[np.int8], track: NDArray[np.int32]) -> None:
        self.columns, self.kind, self.track = columns, kind, track
        self.pid_of = [key[0] for key in columns.tracks]
        hosting = np.bincount(track[np.isin(kind, [int(each) for each in HOST_WORK])], minlength=len(self.pid_of))
        self.hosts = {pid for pid, count in zip(self.pid_of, hosting.tolist(), strict=True) if count}
        self.known = list(dict.fromkeys([*columns.processes, *self.pid_of]))

    def said(self, pid: int | str) -> set[str]:
        """Names and labels."""
        return self.columns.processes.get(pid, set())

    def name(self, pid: int | str) -> str:
        """The first of its names, or its number."""
        return next(iter(sorted(self.said(pid))), f"process {pid}")

    def categories(self, pid: int | str) -> set[str]:
        """Categories of its events of no known kind."""
        own = (self.columns.unknown.get(code, set()) for code, each in enumerate(self.pid_of) if each == pid)
        return set().union(*own)

    def rows(self, pid: int | str, wanted: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The wanted rows of the process."""
        own = np.array([each == pid for each in self.pid_of], dtype=bool)
        return np.flatnonzero(wanted & own[self.track]) if len(own) else np.empty(0, dtype=np.int64)

    def is_device(self, pid: int | str) -> bool:
        """Whether something shows that the process is a device."""
        said = self.said(pid)
        if any(NO_DEVICE.search(each) for each in said):
            return False
        if any(DEVICE_PROCESS.match(each) for each in said):
            return True
        categories = self.categories(pid)
        if pid in self.hosts or not categories:
            return False
        words = {*said, *categories}
        if any(HOST_WORDS.search(each) for each in said):
            words = categories  # devices' processes of Kineto have the name of the program
        words = {each for each in words if not HOST_WORDS.search(each)}
        return any(DEVICE_WORDS.search(each) for each in words) or self._launched(pid)

    def may_be(self, pid: int | str) -> bool:
        """Whether nothing says that the process is the host's, while another one is."""
        categories, said = self.categories(pid), self.said(pid)
        if pid in self.hosts or not self.hosts or not categories:
            return False
        return not any(pattern.search(each) for each in {*said, *categories} for pattern in (HOST_WORDS, NO_DEVICE))

    def _launched(self, pid: int | str) -> bool:
        """Whether the host's calls lead to its events: by the same numbers, or by arrows that end here."""
        numbers = self.columns.joined("correlation")
        own = numbers[self.rows(pid, self.kind == EventKind.OTHER)]
        calls = numbers[(self.kind == EventKind.RUNTIME) & (numbers >= 0)]
        if len(own) and 2 * int(np.isin(own, calls).sum()) >= len(own):
            return True
        arrows = self.columns.arrows
        linked = pid in arrows["f"] and pid not in arrows["s"] and bool(self.hosts & arrows["s"])
        return linked and not any(HOST_WORDS.search(each) for each in self.said(pid))


def _works_as_one(
    rows: NDArray[np.int64], track: NDArray[np.int32], start: NDArray[np.int64], end: NDArray[np.int64]
) -> bool:
    """Whether events follow one another on each lane, and fill a noticeable share of the recording."""
    if len(rows) < FEWEST_EVENTS:
        return False
    order = np.lexsort((start[rows], track[rows]))
    rows = rows[order]
    same = track[rows][1:] == track[rows][:-1]
    nested = same & (start[rows][1:] < end[rows][:-1])
    filled = length(union(start[rows], end[rows]))
    whole = int(end.max() - start.min())
    return int(nested.sum()) <= MOST_NESTED * len(rows) and filled >= LEAST_SHARE * whole


def _lane(columns: Columns, key: TrackKey, devices: list[int | str]) -> int:
    if key[0] not in devices:
        return 0
    covering = COVERING.match(columns.labels.get(key, ""))
    return EventKind.DEVICE_ANNOTATION if covering else EventKind.KERNEL


def _matching(names: list[str], pattern: re.Pattern[str]) -> NDArray[np.bool_]:
    return np.array([pattern.search(name) is not None for name in names], dtype=bool)
