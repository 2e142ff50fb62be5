"""Do the collectives go over the kernel's sockets, so that its counters and interfaces speak of them?"""

from __future__ import annotations

from tools.analyzers.recorded import measured
from tools.profilers.host_records import HostRecords
from tools.profilers.profile import Profile
from tools.sources.monitor_environment import RankEnvironment

SOCKET_SHARE = 0.5  # of what the collectives have to send must be counted on interfaces, if sockets carry it


def carried_by_sockets(profile: Profile, records: HostRecords, rank: int) -> bool:
    """Whether the collectives go over the kernel's sockets, as far as variables and counted bytes tell.

    NCCL and HCCL prefer InfiniBand, shared memory and links between devices; without a sign they are held to do so.
    """
    if (profile.run.layout.world_size or len(profile.run.ranks) + 1) < 2:
        return False
    told = records.environment(rank)
    if told is not None and _sockets_forced(told):
        return True
    own = measured(profile, "collective_wire_bytes")
    rates = [records.per_second(rank, name) for name in ("net_sent_bytes", "lo_sent_bytes")]
    if own is None or all(rate is None for rate in rates):
        return not profile.accelerated
    return sum(rate or 0.0 for rate in rates) >= SOCKET_SHARE * own.value / (records.series.mean_ms / 1e3)


def _sockets_forced(told: RankEnvironment) -> bool:
    return told.variables.get("NCCL_IB_DISABLE") == "1" or told.variables.get("NCCL_NET", "").lower() == "socket"
