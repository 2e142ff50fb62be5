"""Transfer times of collectives without the wait for stragglers, and the cost of exposed exchanges.

Where several ranks' traces share a collective its transfer time is the shortest duration. From one rank's trace alone
waiting cannot be taken out; ``prompt`` then marks the collectives that began right behind another one on the same
stream, where the ranks had just left the previous collective together and so had little to wait for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.intervals import IntervalSet, intersect, length, subtract, union
from tools.views.communication.arrivals import arrivals, waits
from tools.views.communication.collectives import bus_factor, collectives
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile

LARGE_BYTES = 1 << 20  # from here on the link and not the start of the collective should set the duration
SMALL_BYTES = 64 << 10  # 52 us at 10 Gb/s; starting a collective between hosts takes longer
PROMPT_NS = 50_000  # gap behind the previous collective up to which one counts as begun at once
PROMPT_REPEATS = 2  # of one size; a single one may have waited
PROMPT_ERROR = 0.1  # of the time: NCCL's own times of one size on a quiet link differ by less
SEVERAL = 2  # fewer ranks do not meet
SATURATED = 0.9  # a message reaches its link's bandwidth when the fixed part is a tenth of its time


@dataclass(frozen=True)
class Fit:
    """Duration of one kind of collective as fixed part and part by size: t = fixed_ns + ns_per_byte * bytes."""

    kind: str
    group: str
    per_step: float  # how many of them a step has
    bytes_per_step: float
    fixed_ns: float
    ns_per_byte: float
    error: float  # median relative distance of the points from the line
    sizes: int

    @property
    def saturating_bytes(self) -> float:
        """Size from which on the transfer and not the fixed part fills nine tenths of the time."""
        fixed_ns = self.fixed_ns * SATURATED / (1.0 - SATURATED)
        return fixed_ns / self.ns_per_byte if self.ns_per_byte > 0 else float("inf")

    @property
    def needed_per_step(self) -> float:
        """Number of messages of the saturating size that would carry a step's bytes, at least one."""
        if self.saturating_bytes <= 0:
            return self.per_step  # no fixed part: nothing would be saved by larger messages
        return min(max(1.0, math.ceil(self.bytes_per_step / self.saturating_bytes)), self.per_step)

    @property
    def mergeable_ns(self) -> float:
        """Time per step that the fixed parts of the messages beyond these take."""
        return (self.per_step - self.needed_per_step) * self.fixed_ns

    @property
    def fixed_share(self) -> float:
        """Share of the time per step that goes into fixed parts."""
        fixed = self.per_step * self.fixed_ns
        return fixed / max(fixed + self.bytes_per_step * self.ns_per_byte, 1.0)


@memoized
def transfers(profile: Profile) -> pd.DataFrame:
    """One row per collective of known size inside steps.

    Columns: kind, group, group_size, bytes, step, transfer_ns, ranks (traces that share it), complete (they are all
    that take part, so that the time holds no waiting), prompt, bus_bytes_per_s.
    """
    shared = arrivals(profile)
    if len(shared):
        table = shared.rename(columns={"shortest_ns": "transfer_ns"}).assign(prompt=False)
    else:
        table = collectives(profile)
        previous_end = _previous_end(profile, table)
        prompt = (table["start_ns"] - previous_end <= PROMPT_NS) & (previous_end >= 0)
        table = table.assign(transfer_ns=table["end_ns"] - table["start_ns"], ranks=1, prompt=prompt)
    table = table[(table["bytes"] > 0) & (table["step"] >= 0) & (table["kind"] != "send_recv")]
    columns = ["kind", "group", "group_size", "bytes", "step", "transfer_ns", "ranks", "prompt"]
    table = table[columns].reset_index(drop=True)
    taking_part = table["group_size"].where(table["group_size"] > 0, profile.run.layout.world_size or SEVERAL)
    table = table.assign(complete=table["ranks"] >= taking_part.clip(lower=SEVERAL))
    kinds = pd.MultiIndex.from_frame(table[["kind", "group_size"]])
    factor = kinds.map({(kind, size): bus_factor(str(kind), int(size)) for kind, size in kinds.unique()})
    bus_bytes = table["bytes"] * factor.to_numpy(dtype=np.float64)
    return table.assign(bus_bytes_per_s=bus_bytes / table["transfer_ns"].clip(lower=1) * 1e9)


def large_transfers(profile: Profile, kind: str | None = None) -> pd.DataFrame:
    """Large rows of ``transfers``: complete ones, else those of several traces, else prompt ones."""
    table = transfers(profile)
    large = table[(table["bytes"] >= LARGE_BYTES) & (table["bus_bytes_per_s"] > 0)]
    large = large if kind is None else large[large["kind"] == kind]
    if large["complete"].any():
        return large[large["complete"]]
    waitless = large[(large["ranks"] > 1) | large["prompt"]]
    return waitless if len(waitless) else large


def small_messages(profile: Profile) -> pd.DataFrame:
    """The rows of ``transfers`` whose bytes any link carries in less time than it takes to start a collective."""
    table = transfers(profile)
    return table[table["bytes"] <= SMALL_BYTES]


def small_start_ns(profile: Profile) -> float:
    """Cost of starting one small message: the lower quartile of their times, as most also wait for a thread."""
    table = small_messages(profile)
    return float(table["transfer_ns"].quantile(0.25)) if len(table) else 0.0


@memoized
def fits(profile: Profile) -> tuple[Fit, ...]:
    """A line through duration over size for every kind and group with several sizes, most time first."""
    table = transfers(profile)
    steps = len(profile.step_ms)
    results = [
        _fit(str(kind), str(group), rows, steps)
        for (kind, group), rows in table.groupby(["kind", "group"], sort=True)
        if rows["bytes"].max() >= 2 * rows["bytes"].min()
    ]
    return tuple(sorted(results, key=lambda fit: -fit.fixed_ns * fit.per_step))


def prompt_fit(profile: Profile, kind: str) -> Fit | None:
    """The line through the prompt transfers of one kind where ranks are missing; None where it does not describe them.

    Each size needs PROMPT_REPEATS of them, and at most PROMPT_ERROR between line and times: a wait for an untraced rank
    that is left in them differs from one to the next.
    """
    table = transfers(profile)
    own = table[(table["kind"] == kind) & table["prompt"]]
    own = own[own.groupby(["group", "bytes"])["bytes"].transform("size") >= PROMPT_REPEATS]
    lines = [
        _fit(kind, str(group), rows, len(profile.step_ms))
        for group, rows in own.groupby("group", sort=True)
        if rows["bytes"].max() >= 2 * rows["bytes"].min()
    ]
    good = [line for line in lines if line.error <= PROMPT_ERROR and line.ns_per_byte > 0]
    return max(good, key=lambda line: line.bytes_per_step, default=None)


def _previous_end(profile: Profile, table: pd.DataFrame) -> NDArray[np.int64]:
    """End of the collective before, on the same rank and track; -1 for the first."""
    tracks = [profile.rank(int(str(rank))).track[own["row"]] for rank, own in table.groupby("rank", sort=False)]
    track = np.concatenate(tracks) if tracks else np.empty(0)  # the table is in order of ranks
    return table["end_ns"].groupby([table["rank"].to_numpy(), track]).shift(1, fill_value=-1).to_numpy(dtype=np.int64)


def _fit(kind: str, group: str, rows: pd.DataFrame, steps: int) -> Fit:
    """Weighted least squares through the median duration of every size; relative distances count alike."""
    points = rows.groupby("bytes")["transfer_ns"].agg(["median", "size"])
    size = points.index.to_numpy(dtype=np.float64)
    time = np.maximum(points["median"].to_numpy(dtype=np.float64), 1.0)
    weight = np.sqrt(points["size"].to_numpy(dtype=np.float64)) / time
    design = np.column_stack((np.ones_like(size), size)) * weight[:, None]
    fixed, slope = np.linalg.lstsq(design, time * weight, rcond=None)[0]
    if slope <= 0:
        fixed, slope = float(np.average(time, weights=weight)), 0.0
    elif fixed < 0:
        fixed, slope = 0.0, float(np.average(time / size, weights=weight))
    predicted = fixed + slope * rows["bytes"].to_numpy()
    actual = np.maximum(rows["transfer_ns"].to_numpy(), 1)
    return Fit(
        kind=kind,
        group=group,
        per_step=len(rows) / steps,
        bytes_per_step=float(rows["bytes"].sum()) / steps,
        fixed_ns=float(fixed),
        ns_per_byte=float(slope),
        error=float(np.median(np.abs(predicted - actual) / actual)),
        sizes=len(points),
    )


# No order of the same work hides them, unlike gradients, which nobody needs before the update: what overlaps
# them has to come from another part of the batch (pipelined experts, or shards of the micro-batch).


NEEDED_AT_ONCE = ("all_to_all",)
SHARDS = (2, 3, 4)  # more make operators small: with eight GPT3-13B was slower than without (Hermes, USENIX ATC'25)


def exchange_rows(profile: Profile) -> pd.DataFrame:
    """The rows of ``collectives`` in steps whose result is needed at once."""
    table = collectives(profile)
    return table[(table["step"] >= 0) & table["kind"].isin(NEEDED_AT_ONCE)]


def _under_way(table: pd.DataFrame, rank: RankProfile) -> IntervalSet:
    """The moments in which one of the table's collectives runs on the rank."""
    mine = table[table["rank"] == rank.rank.rank]
    return union(mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy())


def moving(profile: Profile, rank: RankProfile) -> IntervalSet:
    """Exposed communication of the rank without its waiting for stragglers."""
    table = waits(profile)
    mine = table[table["rank"] == rank.rank.rank]
    start = mine["start_ns"].to_numpy()
    return subtract(rank.parts.exposed_communication, union(start, start + mine["wait_ns"].to_numpy()))


def exposed_exchange_ns(profile: Profile, rank: RankProfile) -> float:
    """Exposed transfer of the exchanges, mean per step of the rank."""
    under_way = _under_way(exchange_rows(profile), rank)
    return float(np.mean(rank.per_step_ns(intersect(moving(profile, rank), under_way))))


def pipelined_ns(profile: Profile, exposed_ns: float) -> float:
    """Part of these exchanges that shards hide per step: all but the first shard's, less starting them that often."""
    count = len(exchange_rows(profile)) / max(len(profile.breakdown), 1)
    start_ns = max(
        (fit.fixed_ns for fit in fits(profile) if fit.kind in NEEDED_AT_ONCE), default=small_start_ns(profile)
    )
    return max(0.0, *(exposed_ns * (1.0 - 1.0 / shards) - (shards - 1) * count * start_ns for shards in SHARDS))


# Between two of them the thread that computes gives up its core to the library's threads and gets it back late, so the
# cost is what the ranks did meanwhile and not how long one collective takes.


@dataclass(frozen=True)
class MessageCost:
    """Per step of one rank: time with such a collective under way, exposed and overlapped with compute."""

    rank: int
    exposed_ms: float
    overlapped_ms: float


def mergeable_messages(profile: Profile) -> pd.DataFrame:
    """The rows of ``collectives`` in steps that are small and that a larger one could carry as well."""
    table = collectives(profile)
    small = (table["bytes"] > 0) & (table["bytes"] <= SMALL_BYTES) & (table["step"] >= 0)
    return table[small & ~table["kind"].isin((*NEEDED_AT_ONCE, "send_recv"))]


@memoized
def message_cost(profile: Profile) -> MessageCost:
    """The cost on the rank that has least exposed: unlike the others it waits for none that has more to compute."""
    table = mergeable_messages(profile)
    costs = []
    for rank in profile.ranks:
        under_way, steps = _under_way(table, rank), max(len(rank.rank.steps), 1)
        parts = (rank.parts.exposed_communication, rank.parts.overlapped_communication)
        exposed, overlapped = (length(intersect(under_way, part)) / 1e6 / steps for part in parts)
        costs.append(MessageCost(rank.rank.rank, exposed, overlapped))
    return min(costs, key=lambda each: (each.exposed_ms, each.rank))
