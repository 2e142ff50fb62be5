"""Recorded settings that make NCCL take a slower way than the machines have."""

from __future__ import annotations

from collections.abc import Mapping

from tools.analyzers.environment import settings
from tools.findings import Sentence
from tools.profilers.profile import Profile

BETWEEN: Mapping[str, tuple[str, ...]] = {"NCCL_IB_DISABLE": ("1",), "NCCL_NET": ("socket", "Socket", "SOCKET")}
INSIDE: Mapping[str, tuple[str, ...]] = {"NCCL_P2P_DISABLE": ("1",), "NCCL_SHM_DISABLE": ("1",)}
TOLD = "The run was started with {n0} set so that the library does not take the fastest way between the ranks."


def slow_way(profile: Profile, inside: bool) -> str:
    """Name of a variable that closes the fast way, inside a machine or between machines; "" where none is recorded."""
    if not profile.run.has_device:
        return ""
    closing = {**BETWEEN, **INSIDE} if inside else BETWEEN
    told = settings(profile).values()
    return next((name for name, values in closing.items() if any(own.get(name) in values for own in told)), "")


def told_way(variable: str) -> tuple[Sentence, ...]:
    """The sentence that names the variable, if there is one."""
    return (Sentence(TOLD, (), (variable,)),) if variable else ()
