"""Device work of profilers whose categories are not known: recognised by the process that it is recorded under."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from tools.run.kinds import DEVICE_WORK, EventKind
from tools.sources.kineto.columns import Columns

# Names and labels of processes that stand for a device: Kineto's and Ascend's labels, XLA's "/device:GPU:0".
DEVICE_PROCESS = re.compile(r"(?:/device:)?(?:[GNXTI]PU|MTIA|HPU|Ascend Hardware|Accelerator)\b", re.IGNORECASE)
NO_DEVICE = re.compile(r"/device:CPU|overlap analysis|counter|communication\b|\bsummary", re.IGNORECASE)  # derived rows
# Lanes of a device whose events cover those of other lanes, as XLA names them.
COVERING = re.compile(r"steps|xla modules|framework|source code|tensorflow", re.IGNORECASE)
COPY = re.compile(r"memcpy|\bcopy\b|copyto|[HD]to[HD]\b|host.?to.?device|device.?to.?host", re.IGNORECASE)
FILL = re.compile(r"memset", re.IGNORECASE)
NUMBER = re.compile(r"\d+")


def take_device_work(columns: Columns, kind: NDArray[np.int8]) -> NDArray[np.int8]:
    """The kinds, with events of unknown category on a device's process as device work; notes the devices' streams.

    Only where no device work has a known category: then the unknown ones are something else.
    """
    if not len(kind) or np.isin(kind, [int(each) for each in DEVICE_WORK]).any():
        return kind
    devices = [pid for pid, said in columns.processes.items() if _is_device(said)]
    if not devices:
        return kind
    keys = list(columns.tracks)
    lane = np.array([_lane(columns, key, devices) for key in keys], dtype=np.int8)
    names = list(columns.names)
    own = np.where(_matching(names, FILL), EventKind.MEMSET, EventKind.KERNEL)
    own = np.where(_matching(names, COPY), EventKind.MEMCPY, own).astype(np.int8)
    track, unknown = columns.joined("track"), kind == EventKind.OTHER
    taken = unknown & (lane[track] == EventKind.KERNEL)
    found = np.where(taken, own[columns.joined("name")], kind)
    found[unknown & (lane[track] == EventKind.DEVICE_ANNOTATION)] = EventKind.DEVICE_ANNOTATION
    for code, key in enumerate(keys):
        if lane[code]:
            stream = NUMBER.search(columns.labels.get(key, "") or str(key[1]))
            columns.devices[code] = (devices.index(key[0]), int(stream[0][:9]) if stream else -1)
    return found.astype(np.int8)


def _is_device(said: set[str]) -> bool:
    return any(DEVICE_PROCESS.match(each) for each in said) and not any(NO_DEVICE.search(each) for each in said)


def _lane(columns: Columns, key: tuple[int | str, int | str], devices: list[int | str]) -> int:
    if key[0] not in devices:
        return 0
    covering = COVERING.match(columns.labels.get(key, ""))
    return EventKind.DEVICE_ANNOTATION if covering else EventKind.KERNEL


def _matching(names: list[str], pattern: re.Pattern[str]) -> NDArray[np.bool_]:
    return np.array([pattern.search(name) is not None for name in names], dtype=bool)
