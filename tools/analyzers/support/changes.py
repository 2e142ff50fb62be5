"""The change that makes chosen events shorter, and the ranks that a group of kernels or operators concerns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tools.analyzers.support.answers import cannot_answer
from tools.analyzers.support.figures import measure_all, measure_ranks
from tools.findings import Check, Fact, Finding
from tools.intervals import IntervalSet, intersect, length, union
from tools.metrics.computation import host_group
from tools.views.communication.collectives import collectives
from tools.views.device.kernels import device_of, kernel_table, spec_for
from tools.views.device.roofline import group_rows
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.whatif.change import Change, Scale
from tools.whatif.threads import main_track


def shortened(
    view: RankProfile, rows: NDArray[np.int64], left: float, cautious: float | None = None
) -> tuple[Scale, ...]:
    """These events of a rank keep ``left`` of their time, cautiously ``cautious`` (half of the gain by default)."""
    kept = 0.5 * (1.0 + left) if cautious is None else cautious
    by_track = ((int(track), rows[view.track[rows] == track]) for track in np.unique(view.track[rows]))
    return tuple(
        Scale(view.rank.rank, track, union(view.start[mine], view.end[mine]), left, kept) for track, mine in by_track
    )


def host_shortened(view: RankProfile, left: float, between: float) -> tuple[Scale, ...]:
    """The computing operators of a rank keep ``left`` of their time, the host program between them ``between``."""
    operators = shortened(view, view.outermost(view.in_steps(view.host_compute_rows)), left)
    return (*operators, Scale(view.rank.rank, main_track(view), view.parts.host, between, 0.5 * (1.0 + between)))


def shortened_on(
    profile: Profile,
    ranks: Iterable[int],
    rows: Callable[[RankProfile], NDArray[np.int64]],
    left: float,
    cautious: float | None = None,
) -> Change:
    """The same of chosen events of several ranks."""
    views = (profile.rank(rank) for rank in ranks)
    return tuple(scale for view in views for scale in shortened(view, rows(view), left, cautious))


def scaled(
    profile: Profile,
    kind: str | None,
    factor: float,
    least_bytes: int = 0,
    longest_us: float = float("inf"),
    group: str | None = None,
) -> Change:
    """The chosen collectives take ``factor`` times as long on every rank."""
    table = collectives(profile)
    chosen = table["bytes"] >= least_bytes if least_bytes else table["step"] >= 0
    chosen &= (table["end_ns"] - table["start_ns"]) / 1e3 <= longest_us
    if kind is not None:
        chosen &= table["kind"] == kind
    if group is not None:
        chosen &= table["group"] == group
    table = table[chosen]
    rows = table["row"].to_numpy()
    ranks = [view.rank.rank for view in profile.ranks]
    return shortened_on(profile, ranks, lambda view: rows[(table["rank"] == view.rank.rank).to_numpy()], factor)


def hidden(view: RankProfile, rows: NDArray[np.int64], moments: IntervalSet, hidden_ms: float) -> Change:
    """Of these collectives ``hidden_ms`` per step no longer show within the moments in which they now do."""
    shown = intersect(moments, union(view.start[rows], view.end[rows]))
    shown_ms = length(shown) / 1e6 / max(len(view.rank.steps), 1)
    if shown_ms <= 0.0 or hidden_ms <= 0.0:
        return ()
    left = 1.0 - min(hidden_ms / shown_ms, 1.0)
    scales = (replace(each, intervals=intersect(moments, each.intervals)) for each in shortened(view, rows, left))
    return tuple(scale for scale in scales if length(scale.intervals))


@dataclass(frozen=True)
class Concerned:
    """Ranks on which a group takes a noticeable share of the step, the most affected one and its share."""

    ranks: tuple[int, ...]
    worst: int
    share: Fact
    amounts: tuple[Fact, ...]  # time and number of the group's kernels or operators per step on that rank


def device_ranks(profile: Profile) -> tuple[int, ...]:
    """Ranks that ran kernels inside their steps."""
    return tuple(
        rank.rank.rank for rank in profile.ranks if rank.rank.has_device and len(kernel_table(profile, rank.rank.rank))
    )


def concerned(profile: Profile, group: str, host: bool = False) -> Concerned | None:
    """Where the group takes at least the share of the step that a finding has to have; None when nowhere."""
    limit = profile.thresholds["computation_finding_pct"]
    above = {rank: fact for rank, fact in _shares(profile, group, host).items() if fact.value >= limit}
    if not above:
        return None
    worst, kind = max(above, key=lambda rank: above[rank].value), "host_group" if host else "kernel_group"
    amounts = measure_all(profile, f"{kind}_ms", f"{kind}_count", group=group, rank=worst)
    return Concerned(tuple(above), worst, above[worst], amounts)


def worst_share(profile: Profile, group: str, host: bool = False) -> Fact:
    """The group's share of the step on the rank where it is largest."""
    return max(_shares(profile, group, host).values(), key=lambda fact: fact.value)


def _shares(profile: Profile, group: str, host: bool) -> dict[int, Fact]:
    if host:
        return measure_ranks(profile, profile.run.rank_numbers, "host_group_pct", group=group)
    return measure_ranks(profile, device_ranks(profile), "kernel_group_pct", group=group)


def concerning(
    profile: Profile,
    where: Concerned,
    group: str,
    finding: Finding,
    left: float,
    cautious: float | None = None,
    host: bool = False,
) -> Finding:
    """The finding with its ranks, and the change in which the group keeps ``left`` of its time."""
    rows = host_group if host else group_rows
    change = shortened_on(profile, where.ranks, lambda view: rows(profile, view.rank.rank, group), left, cautious)
    return replace(finding, ranks=where.ranks, change=change)


def unknown_device(profile: Profile) -> Check | None:
    """The outcome when the device table lacks the device of some rank; None when it knows all."""
    for rank in device_ranks(profile):
        if spec_for(profile.rank(rank)) is None:
            device = device_of(profile.rank(rank))
            known = "" if device is None else device.name
            named = repr("".join(character for character in known if character.isprintable())[:60])
            name = named if known else "(not named in the trace)"
            return cannot_answer(
                f"the peak rates of the device {name} of rank {rank} are not known",
                "a device that the table tools/knowledge/devices.yaml lists, or an entry for this one",
            )
    return None


def longest_name(profile: Profile, rank: int, group: str) -> str:
    """Recorded name of the kernel that takes most of the group's time on the rank; untrusted text."""
    table = kernel_table(profile, rank)
    table = table[table["row"].isin(group_rows(profile, rank, group))]
    totals = table.groupby("name")["duration_ns"].sum()
    code = int(totals.index.to_numpy()[int(totals.to_numpy().argmax())])
    return str(profile.rank(rank).events.frame["name"].cat.categories[code])
