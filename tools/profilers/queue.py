"""The launch queue: how much launched work waits for the device, and for how long."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tools.profilers.profile import Profile


def launch_queue(profile: Profile, rank: int) -> pd.DataFrame:
    """One row per launched device operation inside the steps, in the order of the calls.

    Columns: launch_row, device_row, host_track, track, call_start_ns, call_end_ns, start_ns, duration_ns,
    queued (operations called before and not yet started when this call ends, itself left out), delay_ns (from the
    call's end to the start of the work, 0 when it starts earlier), interval_ns (since the previous launch of the same
    thread; -1 for the first).

    HTA counts the same length per stream from the call's start, so that a kernel that starts before its call has
    returned can give a negative length there; here it counts as started.
    """
    return profile.memo(f"queue:{rank}", lambda: _launch_queue(profile, rank))


def _launch_queue(profile: Profile, rank: int) -> pd.DataFrame:
    view = profile.rank(rank)
    links = view.launches.sort_values(["call_start_ns", "start_ns"], kind="stable", ignore_index=True)
    called, started = np.sort(links["call_end_ns"].to_numpy()), np.sort(links["start_ns"].to_numpy())
    ends = links["call_end_ns"].to_numpy()
    waiting = np.searchsorted(called, ends, side="left") - np.searchsorted(started, ends, side="right")
    interval = links.groupby("host_track")["call_start_ns"].diff().fillna(-1).astype("int64")
    table = links[["launch_row", "device_row", "host_track", "track", "call_start_ns", "call_end_ns", "start_ns"]]
    table = table.assign(
        duration_ns=links["end_ns"] - links["start_ns"],
        queued=np.maximum(waiting, 0),
        delay_ns=np.maximum(links["start_ns"].to_numpy() - ends, 0),
        interval_ns=interval,
    )
    return table[view.step_of(table["launch_row"].to_numpy()) >= 0]
