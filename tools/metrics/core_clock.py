"""The clock of a device's cores by its profiler."""

from __future__ import annotations

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, metric, of_events, of_rank
from tools.views.device.core_clock import computing_clocks, readings
from tools.views.profile import Profile


@metric("MHz", "clock of the cores while they compute", "At which clock do the cores of a device compute?")
def core_clock_mhz(profile: Profile, rank: int) -> Measurement:
    """Mean over the time inside steps in which kernels compute; a clock holds until the next reading."""
    table = computing_clocks(profile, rank)
    whole = int(table["compute_ns"].sum())
    if not whole:
        raise UsageError(f"the trace of rank {rank} holds no clock of its device's cores, or no kernel that computes")
    value = float((table["mhz"] * table["compute_ns"]).sum()) / whole
    return of_rank(profile.rank(rank), value, lambda: table, "time of computing kernels by clock")


@metric("MHz", "highest clock of the cores that was read", "At which clock can the cores of the devices run?")
def highest_core_clock_mhz(profile: Profile) -> Measurement:
    """The largest reading of any rank, busy or not."""
    own = {view.rank.rank: each for view in profile.ranks if len((each := readings(view))[0])}
    if not own:
        raise UsageError("no trace holds a clock of its device's cores")
    rank = max(own, key=lambda each: (float(own[each][1].max()), -each))
    rows, mhz = own[rank]
    return of_events(profile.rank(rank), float(mhz.max()), rows[mhz == mhz.max()], "readings of the cores' clock")
