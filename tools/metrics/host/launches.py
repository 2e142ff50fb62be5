"""The launch queue: how much launched work waits for the device, and for how long."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, metric, of_events, of_rank
from tools.run.events import EventKind
from tools.views.host.blocking import blocking_calls, kernel_launches
from tools.views.profile import Profile, memoized


@memoized
def launch_queue(profile: Profile, rank: int) -> pd.DataFrame:
    """One row per launched device operation inside the steps, in the order of the calls.

    Columns: launch_row, device_row, host_track, track, call_start_ns, call_end_ns, start_ns, duration_ns,
    queued (operations called before and not yet started when this call ends, itself left out), delay_ns (from the
    call's end to the start of the work, 0 when it starts earlier), interval_ns (since the previous launch of the same
    thread; -1 for the first).

    HTA counts per stream from the call's start, so that a kernel that starts before its call has returned can give a
    negative length there.
    """
    view = profile.rank(rank)
    links = view.launches.sort_values(["call_start_ns", "start_ns"], kind="stable", ignore_index=True)
    ends, starts = links["call_end_ns"].to_numpy(), links["start_ns"].to_numpy()
    waiting = np.searchsorted(np.sort(ends), ends) - np.searchsorted(np.sort(starts), ends, side="right")
    table = links.drop(columns="end_ns").assign(
        duration_ns=links["end_ns"] - starts,
        queued=np.maximum(waiting, 0),
        delay_ns=np.maximum(starts - ends, 0),
        interval_ns=links.groupby("host_track")["call_start_ns"].diff().fillna(-1).astype("int64"),
    )
    return table[view.step_of(table["launch_row"].to_numpy()) >= 0]


@metric("launches", "device launches per step", "How many operations does a step launch on the device?")
def launches_per_step(profile: Profile, rank: int) -> Measurement:
    """Kernels, copies and memsets launched per step."""
    view, table = profile.rank(rank), _queue(profile, rank)
    return of_rank(view, len(table) / len(view.steps), lambda: table, "device work with a recorded launch")


@metric("us", "median kernel duration", "How long does a typical kernel run?")
def launched_kernel_us(profile: Profile, rank: int) -> Measurement:
    """Median duration of the kernels launched in the steps."""
    view, table = profile.rank(rank), _queue(profile, rank)
    kernels = table[view.kind[table["device_row"].to_numpy()] == EventKind.KERNEL]
    if kernels.empty:
        raise UsageError(f"no launch inside the steps of rank {rank} is joined with a kernel")
    return of_rank(view, kernels["duration_ns"].median() / 1e3, lambda: kernels, "kernels with a recorded launch")


@metric("us", "median time between launches", "How often does the host launch?")
def launch_interval_us(profile: Profile, rank: int) -> Measurement:
    """Median time from one launch to the next of the same host thread."""
    table = _queue(profile, rank)
    later = table[table["interval_ns"] >= 0]
    if later.empty:
        raise UsageError(f"no thread of rank {rank} makes two launches inside the steps")
    return of_rank(profile.rank(rank), later["interval_ns"].median() / 1e3, lambda: later, "start to start of launches")


@metric("launches", "median launch-queue depth", "How far ahead of the device is the host?")
def launch_queue_length(profile: Profile, rank: int) -> Measurement:
    """Median number of earlier launches that still wait for the device when a launch returns."""
    table = _queue(profile, rank)
    return of_rank(profile.rank(rank), table["queued"].median(), lambda: table, "called and not yet started")


@metric("%", "share of launches into an empty queue", "How many launches find an empty launch queue?")
def empty_queue_pct(profile: Profile, rank: int) -> Measurement:
    """Share of launches that find nothing waiting for the device."""
    table = _queue(profile, rank)
    empty = table[table["queued"] == 0]
    return of_rank(profile.rank(rank), 100.0 * len(empty) / len(table), lambda: empty, "launches with nothing queued")


@metric("us", "median launch delay", "How long does launched work wait?")
def launch_delay_us(profile: Profile, rank: int, stream: int | None = None) -> Measurement:
    """Median time from a launch's return to the start of its work, on one stream or on all."""
    view, table = profile.rank(rank), _queue(profile, rank)
    if stream is not None:
        table = table[view.events.tracks["stream"].to_numpy()[table["track"].to_numpy()] == stream]
        if table.empty:
            raise UsageError(f"rank {rank} launched nothing on stream {stream}")
    return of_rank(view, table["delay_ns"].median() / 1e3, lambda: table, "launch returns to work starts")


@metric("%", "share of launches that block until their kernel ends", "How many launches wait for their kernel?")
def launch_blocking_pct(profile: Profile, rank: int) -> Measurement:
    """Share of kernel launches that wait for their kernel."""
    calls = kernel_launches(profile, rank)
    value = 100.0 * len(calls.blocked) / max(len(calls.rows), 1)
    return of_events(profile.rank(rank), value, calls.blocked, "launch ends with its kernel")


@metric("calls", "blocking synchronization calls per step", "How often does the host wait for the device?")
def blocking_calls_per_step(profile: Profile, rank: int) -> Measurement:
    """Synchronizing calls and blocking reads from the device per step, on the training threads."""
    return _of_blocking(profile, rank, len(blocking_calls(profile, rank)), "synchronising calls")


@metric("ms", "host wait per step in synchronization calls", "How long does the host wait for the device?")
def blocking_wait_ms(profile: Profile, rank: int) -> Measurement:
    """Time per step in which the host waits in such calls while the device works."""
    waited_ms = blocking_calls(profile, rank)["waited_ns"].sum() / 1e6
    return _of_blocking(profile, rank, waited_ms, "device busy during synchronising calls")


def _of_blocking(profile: Profile, rank: int, total: float, selector: str) -> Measurement:
    view, table = profile.rank(rank), blocking_calls(profile, rank)
    named = table.assign(name=np.array(view.names(table["row"].to_numpy()), dtype=object))
    return of_rank(view, total / len(view.steps), lambda: named, selector)


def _queue(profile: Profile, rank: int) -> pd.DataFrame:
    table = launch_queue(profile, rank)
    if table.empty:
        raise UsageError(f"no launch of rank {rank} is joined to work on the device")
    return table
