"""The settings that a rank ran under, as the monitor told them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec

MOST_NAMED = 256
LONGEST_TEXT = 200
LARGEST = (1 << 62) - 1  # two of them can be subtracted in a column
Whole = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
Amount = Annotated[float, msgspec.Meta(ge=-1e30, le=1e30)]  # any that can be told, and no sum of them is infinite


class Interface(msgspec.Struct):
    """A network interface."""

    mtu: Count
    speed_mbit: Count | None = None


class Environment(msgspec.Struct, tag="environment", tag_field="event"):
    """One event; what the process did not know is None or missing."""

    unix_ns: Whole
    python: str = ""
    torch: str | None = None
    variables: dict[str, str] = {}
    threads: dict[str, Count] = {}
    flags: dict[str, bool | str] = {}
    gc_thresholds: list[Count] = []
    gc_enabled: bool | None = None
    gc_tracked_objects: Count | None = None
    allowed_cores: list[Count] = []
    cores: Count | None = None
    quota_cores: Amount | None = None
    interfaces: dict[str, Interface] = {}


@dataclass(frozen=True)
class RankEnvironment:
    """What one start of one rank told at ``unix_ns``: at its start, at its end, and when torch's switches changed.

    ``threads`` torch_intra and torch_inter; ``flags`` anomaly_mode, distributed_debug (OFF, INFO, DETAIL),
    deterministic, default_dtype, float32_matmul_precision, mkldnn, cudnn_benchmark, accelerator (the one in use so
    far, none, unknown), each left out where torch was not loaded or did not tell; ``interfaces`` name to speed (None:
    not told) and MTU.
    """

    rank: int
    attempt: int
    unix_ns: int
    python: str
    torch: str | None
    variables: Mapping[str, str]
    threads: Mapping[str, int]
    flags: Mapping[str, bool | str]
    gc_thresholds: tuple[int, ...]
    gc_enabled: bool | None
    gc_tracked_objects: int | None
    allowed_cores: tuple[int, ...]
    cores: int | None
    quota_cores: float | None
    interfaces: Mapping[str, Interface]


def environment_of(rank: int, attempt: int, told: Environment) -> RankEnvironment:
    """The event as a record; texts are cut and freed of what cannot be shown."""
    return RankEnvironment(
        rank=rank,
        attempt=attempt,
        unix_ns=told.unix_ns,
        python=_shown(told.python),
        torch=None if told.torch is None else _shown(told.torch),
        variables={_shown(name): _shown(value) for name, value in list(told.variables.items())[:MOST_NAMED]},
        threads={_shown(name): count for name, count in list(told.threads.items())[:MOST_NAMED]},
        flags={_shown(name): _flag(value) for name, value in list(told.flags.items())[:MOST_NAMED]},
        gc_thresholds=tuple(told.gc_thresholds[:3]),
        gc_enabled=told.gc_enabled,
        gc_tracked_objects=told.gc_tracked_objects,
        allowed_cores=tuple(told.allowed_cores[: 1 << 13]),
        cores=told.cores,
        quota_cores=told.quota_cores,
        interfaces={_shown(name): each for name, each in list(told.interfaces.items())[:MOST_NAMED]},
    )


def last_environment(told: Sequence[RankEnvironment], rank: int) -> RankEnvironment | None:
    """What the rank's last start told last, None where it told nothing."""
    own = [each for each in told if each.rank == rank]
    return max(own, key=lambda each: (each.attempt, each.unix_ns), default=None)


def flag_values(told: Sequence[RankEnvironment], rank: int, flag: str) -> tuple[bool | str, ...]:
    """Every value that a switch was seen with in the rank's last start: a script may set it for a while only."""
    last = last_environment(told, rank)
    if last is None:
        return ()
    same = [each for each in told if (each.rank, each.attempt) == (last.rank, last.attempt) and flag in each.flags]
    return tuple(dict.fromkeys(each.flags[flag] for each in same))


def _flag(value: bool | str) -> bool | str:
    return _shown(value) if isinstance(value, str) else value


def _shown(text: str) -> str:
    return "".join(each for each in text[:LONGEST_TEXT] if each.isprintable())
