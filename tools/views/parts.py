"""The parts of a rank's time: disjoint interval sets that together cover it.

On a rank with a device, time belongs to the first of these that holds at that moment:

1. compute: a kernel that is not communication runs;
2. exposed communication: only communication kernels (and perhaps copies) run;
3. exposed copy: only copies or memsets run;
4. data wait: the device is idle and a training thread asks its data loader for a batch;
5. idle: the device is idle although launched work is outstanding (launch latency, gaps between kernels, stream waits);
6. host: the device is idle because the host has not launched anything yet.

On a rank without a device:

1. data wait: a training thread asks its data loader for a batch;
2. compute: an operator runs on a training thread (spans that only wait for a collective do not count);
3. exposed communication: a collective is under way and no operator runs;
4. host: anything else inside the step, that is Python between the operators. Idle does not occur.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tools.intervals import EMPTY, IntervalSet, complement, covered, intersect, merge, subtract

PARTS = ("compute", "exposed_communication", "exposed_memcpy", "data_wait", "host", "idle")


@dataclass(frozen=True, eq=False)
class Activity:
    """Raw interval sets of one rank, overlapping freely. ``device_*`` are empty on a rank without a device."""

    device_compute: IntervalSet
    device_communication: IntervalSet
    device_copy: IntervalSet
    outstanding: IntervalSet  # launched, not yet started
    loader: IntervalSet
    host_compute: IntervalSet
    host_communication: IntervalSet
    has_device: bool


@dataclass(frozen=True, eq=False)
class Parts:
    """The disjoint parts, and the overlapped communication (a share of compute)."""

    compute: IntervalSet
    exposed_communication: IntervalSet
    exposed_memcpy: IntervalSet
    data_wait: IntervalSet
    host: IntervalSet
    idle: IntervalSet
    overlapped_communication: IntervalSet


def split(activity: Activity, start_ns: int, end_ns: int) -> Parts:
    """The parts of ``[start_ns, end_ns)``; their lengths add up to it exactly."""
    return _split_device(activity, start_ns, end_ns) if activity.has_device else _split_host(activity, start_ns, end_ns)


def _split_device(activity: Activity, start_ns: int, end_ns: int) -> Parts:
    window = np.array([[start_ns, end_ns]], dtype=np.int64)
    compute = intersect(activity.device_compute, window)
    communication = intersect(activity.device_communication, window)
    copies = intersect(activity.device_copy, window)
    unused = complement(merge(compute, communication, copies), start_ns, end_ns)
    data_wait = intersect(unused, activity.loader)
    rest = subtract(unused, data_wait)
    idle = intersect(rest, activity.outstanding)
    exposed_communication = subtract(communication, compute)
    exposed_memcpy = subtract(subtract(copies, compute), communication)
    host, overlapped = subtract(rest, idle), intersect(communication, compute)
    return Parts(compute, exposed_communication, exposed_memcpy, data_wait, host, idle, overlapped)


def _split_host(activity: Activity, start_ns: int, end_ns: int) -> Parts:
    window = np.array([[start_ns, end_ns]], dtype=np.int64)
    data_wait = intersect(activity.loader, window)
    compute = subtract(intersect(activity.host_compute, window), data_wait)
    communication = intersect(activity.host_communication, window)
    exposed = subtract(subtract(communication, data_wait), compute)
    host = complement(merge(data_wait, compute, exposed), start_ns, end_ns)
    return Parts(compute, exposed, EMPTY, data_wait, host, EMPTY, intersect(communication, compute))


def breakdown(parts: Parts, steps: pd.DataFrame) -> pd.DataFrame:
    """Nanoseconds of every part in every step: columns number, wall_ns, <part>_ns, overlapped_communication_ns."""
    start, end = steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()
    columns = {"number": steps["number"].to_numpy(), "wall_ns": end - start}
    for part in (*PARTS, "overlapped_communication"):
        columns[f"{part}_ns"] = covered(getattr(parts, part), start, end)
    return pd.DataFrame(columns)
