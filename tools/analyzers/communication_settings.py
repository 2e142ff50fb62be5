"""Recorded settings that make NCCL take a slower way than the machines have."""

from __future__ import annotations

from collections.abc import Mapping

from tools.analyzers.environment import settings
from tools.findings import Sentence
from tools.profilers.profile import Profile

BETWEEN: Mapping[str, tuple[str, ...]] = {"NCCL_IB_DISABLE": ("1",), "NCCL_NET": ("socket", "Socket", "SOCKET")}
INSIDE: Mapping[str, tuple[str, ...]] = {"NCCL_P2P_DISABLE": ("1",), "NCCL_SHM_DISABLE": ("1",)}
TOLD = "The run was started with {n0} set so that the library does not take the fastest way between the ranks."
IF_ANY = "The run was started with {n0} set, which keeps the library from InfiniBand, if there is any."


def slow_way(profile: Profile, inside: bool) -> str:
    """Name of a variable that closes the fast way, inside a machine or between machines; "" where none is recorded."""
    if not profile.run.has_device:
        return ""
    closing = {**BETWEEN, **INSIDE} if inside else BETWEEN
    told = settings(profile).values()
    return next((name for name, values in closing.items() if any(own.get(name) in values for own in told)), "")


def faster_way(profile: Profile, variable: str) -> bool:
    """Whether the way that the variable closes is there: between machines the counters of an adapter must show it."""
    records = profile.host_records
    if variable not in BETWEEN or records is None:
        return variable in INSIDE
    return any(records.level(rank, "rdma_retransmits") is not None for rank in records.ranks)


def told_way(profile: Profile, variable: str) -> tuple[Sentence, ...]:
    """The sentence that names the variable, if there is one."""
    text = TOLD if faster_way(profile, variable) else IF_ANY
    return (Sentence(text, (), (variable,)),) if variable else ()
