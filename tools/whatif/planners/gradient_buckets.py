"""Gradients to reduce together: the buckets with the earliest end of the last transfer.

The models are dPRO's tensor fusion and Hermes' adaptive gradient fusion: a bucket is a run of consecutive gradients,
starts when its last gradient is ready and the bucket before it is through, and takes ``alpha + beta * bytes``.

Where transfers and the backward pass share processor cores or memory bandwidth, each ms of an active transfer delays
the gradients that are not ready yet: ``compute_slowdown_during_transfer``, in ``slowed_buckets``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from tools.whatif.planners.record import FASTEST_BYTES_PER_MS, MOST_MS, Bytes, Given, Milliseconds, Plan, Planned
from tools.whatif.planners.slowed_buckets import Cost, best_cut, delayed_ms, least_ms
from tools.whatif.timeline import Bar

Buckets: TypeAlias = list[list[int]]

MIB = 1 << 20
DDP_FIRST_BUCKET_BYTES = MIB  # torch.distributed._DEFAULT_FIRST_BUCKET_BYTES
DDP_BUCKET_MB = 25.0  # default of DistributedDataParallel(bucket_cap_mb=...)
MOST_GRADIENTS = 20_000  # the search looks at every pair: 2e8 at most, about a second
CAPS_PER_OCTAVE = 4  # sizes of bucket_cap_mb that are tried between 2**n and 2**(n+1) MiB
NOTICEABLE = 0.01  # of the step; steps of two starts of one setting differ by more, so it is worth no smaller buckets
MOST_SLOWDOWN = 100.0  # a slip above: the backward pass would hardly go on during a transfer
ROUNDING = 1e-12  # relative; sums of the same times in another order differ by less


class Gradient(Given):
    """One gradient: when the backward pass has it, from the start of the step, and its size."""

    ready_ms: Milliseconds
    bytes: Bytes


class Link(Given):
    """Time of one all-reduce: ``alpha_ms + beta_ms_per_byte * bytes``."""

    alpha_ms: Milliseconds
    beta_ms_per_byte: Annotated[float, Field(ge=0, le=MOST_MS, description="0 or at least 1e-12, that is 1 PB/s")]

    @model_validator(mode="after")
    def _possible(self) -> Link:
        if 0 < self.beta_ms_per_byte < 1 / FASTEST_BYTES_PER_MS:
            raise ValueError(
                f"beta_ms_per_byte: {self.beta_ms_per_byte:g} is a link of {1 / self.beta_ms_per_byte:.3g} bytes per "
                f"ms, more than {FASTEST_BYTES_PER_MS:g}; check the unit"
            )
        return self


class Input(Given):
    """Gradients in order of readiness without transfers, the link, and the present buckets (else one per gradient)."""

    gradients: Annotated[list[Gradient], Field(min_length=1, max_length=MOST_GRADIENTS)]
    link: Link
    current: list[list[int]] | None = None
    update_ms: Milliseconds = 0.0
    compute_slowdown_during_transfer: Annotated[
        float,
        Field(ge=1, le=MOST_SLOWDOWN, description="time of a part of the backward pass next to a transfer / alone"),
    ] = 1.0

    @model_validator(mode="after")
    def _in_order(self) -> Input:
        for place, (first, second) in enumerate(zip(self.gradients, self.gradients[1:], strict=False), start=1):
            if second.ready_ms < first.ready_ms:
                raise ValueError(
                    f"gradients[{place}] is ready at {second.ready_ms:g} ms, before the one in front of it "
                    f"({first.ready_ms:g} ms); list them in order of readiness"
                )
        if self.current is not None:
            _check_partition(self.current, len(self.gradients))
        return self


class Ddp(Plan):
    """The best setting of DistributedDataParallel, which fills a bucket until its size reaches the cap.

    ``bucket_cap_mb`` is the largest within 1 % of the fastest, and None where the default, whose first bucket is
    smaller than the others, is within 1 % of it.
    """

    bucket_cap_mb: float | None
    after_ms: float
    default_ms: float


class BucketPlan(Plan):
    """Indices of the gradients of each bucket, in order of transfer; ``ddp`` is the nearest setting of PyTorch."""

    buckets: list[list[int]]
    exposed_communication_ms: float
    ddp: Ddp


def plan(given: Input) -> Planned:
    """Return the buckets with the earliest end, of those the fewest; exact, O(n^2) for at most 20,000 gradients.

    Where transfers slow the backward pass also exact, O(n^3), up to about a thousand gradients; past 2e9 steps of the
    search the best cut found is returned with the gap to a bound.
    """
    costs = _Costs(given)
    buckets, least_ms = costs.best()
    spans = costs.spans_ms(buckets)
    after_ms = spans[-1][1]
    ready_ms = float(costs.delayed_ms(spans)[-1])
    current = given.current or [[each] for each in range(len(given.gradients))]
    made = BucketPlan(buckets=buckets, exposed_communication_ms=after_ms - ready_ms, ddp=_ddp(costs, given.update_ms))
    if spans[-1][0] > (spans[-2][1] if len(spans) > 1 else 0.0):
        bound = "the last gradient: its bucket starts as soon as it is ready"
    elif costs.alpha_ms * len(buckets) > costs.beta_ms_per_byte * costs.total_bytes:
        bound = "the latency of the transfers"
    else:
        bound = "the bandwidth of the link"
    slowdown = given.compute_slowdown_during_transfer
    slowed = f"The backward pass takes {slowdown:.4g} times as long while a transfer is active."
    return Planned(
        planner="gradient-buckets",
        plan=made,
        before_ms=costs.end_ms(current) + given.update_ms,
        after_ms=after_ms + given.update_ms,
        gap_ms=max(0.0, after_ms - least_ms),
        bound=bound,
        assumptions=[
            "Buckets are transferred one after another in order; a transfer takes alpha + beta * bytes.",
            "Transfers do not slow the backward pass." if slowdown == 1 else slowed,
        ],
        bars=lambda: [*_bars(given, costs, current, "present"), *_bars(given, costs, buckets, "planned")],
    )


def _bars(given: Input, costs: _Costs, buckets: Buckets, group: str) -> list[Bar]:
    """The gradients as they become ready, the transfer of each bucket, and the update."""
    spans = costs.spans_ms(buckets)
    moments, before_ms, bars = costs.delayed_ms(spans), 0.0, list[Bar]()
    for place, (each, ready_ms) in enumerate(zip(given.gradients, moments.tolist(), strict=True)):
        name = f"gradient {place}, {each.bytes:.4g} bytes"
        bars.append(Bar("backward pass", name, "backward pass", before_ms, ready_ms, group))
        before_ms = ready_ms
    for place, (members, span) in enumerate(zip(buckets, spans, strict=True)):
        name = f"bucket {place}, gradients {members[0]} to {members[-1]}"
        bars.append(Bar("link", name, "transfer", *span, group))
    if given.update_ms:
        end_ms = spans[-1][1]
        bars.append(Bar("backward pass", "update", "update", end_ms, end_ms + given.update_ms, group))
    return bars


def simulated_ms(given: Input, buckets: Buckets) -> float:
    """Return the end of the step with these buckets."""
    return _Costs(given).end_ms(buckets) + given.update_ms


def moments_ms(given: Input, buckets: Buckets) -> list[float]:
    """Return when the gradients are ready next to the transfers of these buckets."""
    costs = _Costs(given)
    return [float(each) for each in costs.delayed_ms(costs.spans_ms(buckets))]


def ddp_buckets(sizes: Sequence[float], first_bytes: float, cap_bytes: float) -> Buckets:
    """Return the buckets of DistributedDataParallel: each is closed by the gradient that reaches its cap."""
    buckets: Buckets = []
    limit, held, members = first_bytes, 0.0, list[int]()
    for index, size in enumerate(sizes):
        members.append(index)
        held += size
        if held >= limit:
            buckets.append(members)
            limit, held, members = cap_bytes, 0.0, []
    return [*buckets, members] if members else buckets


class _Costs:
    """The times of all buckets of one input."""

    def __init__(self, given: Input) -> None:
        self.alpha_ms = given.link.alpha_ms
        self.beta_ms_per_byte = given.link.beta_ms_per_byte
        self.ready_ms = np.array([each.ready_ms for each in given.gradients])
        self.sizes = [each.bytes for each in given.gradients]
        self.before_bytes = np.concatenate(([0.0], np.cumsum(self.sizes)))
        self.lost = 1.0 - 1.0 / given.compute_slowdown_during_transfer

    @property
    def total_bytes(self) -> float:
        return float(self.before_bytes[-1])

    def best(self) -> tuple[Buckets, float]:
        """The buckets with the earliest end, and what no others can be below."""
        undelayed = self.fewest(self.earliest_ends())
        known_ms = self.end_ms(undelayed)
        if not self.lost:
            return undelayed, known_ms
        cost = Cost(self.ready_ms, self.before_bytes, self.alpha_ms, self.beta_ms_per_byte, self.lost)
        cut = best_cut(cost, known_ms, ROUNDING)
        if cut is None:
            return undelayed, least_ms(cost)
        behind = [*cut.firsts[1:], len(self.sizes)]
        return [list(range(*ends)) for ends in zip(cut.firsts, behind, strict=True)], cut.least_ms

    def transfer_ms(self, last: int) -> NDArray[np.float64]:
        """Times of the buckets that end with gradient ``last`` and begin with 0, 1, ... ``last``."""
        held: NDArray[np.float64] = self.before_bytes[last + 1] - self.before_bytes[: last + 1]
        return self.alpha_ms + self.beta_ms_per_byte * held

    def earliest_ends(self) -> NDArray[np.float64]:
        """Earliest end of the first 0, 1, ... n gradients.

        A bucket ends earlier when the one before it does, so the best end of n gradients is made of best ends.
        """
        ends = np.zeros(len(self.sizes) + 1)
        for last, ready_ms in enumerate(self.ready_ms):
            ends[last + 1] = (np.maximum(ends[: last + 1], ready_ms) + self.transfer_ms(last)).min()
        return ends

    def fewest(self, ends: NDArray[np.float64]) -> Buckets:
        """Fewest buckets that end at the earliest time: from the end, each as long as its deadline allows.

        A longer last bucket leaves fewer gradients, and moves their deadline by no more than they would take.
        """
        buckets: Buckets = []
        deadline_ms, behind = float(ends[-1]), len(self.sizes)
        while behind:
            last = behind - 1
            transfer_ms = self.transfer_ms(last)
            finished = np.maximum(ends[:behind], self.ready_ms[last]) + transfer_ms
            first = int(np.argmax(finished <= max(deadline_ms * (1 + ROUNDING), float(finished.min()))))
            buckets.append(list(range(first, behind)))
            deadline_ms, behind = deadline_ms - float(transfer_ms[first]), first
        return buckets[::-1]

    def end_ms(self, buckets: Buckets) -> float:
        """End of the last transfer."""
        return self.spans_ms(buckets)[-1][1]

    def spans_ms(self, buckets: Buckets) -> list[tuple[float, float]]:
        """Start and end of the transfer of each bucket."""
        spans, free_ms, busy_ms = list[tuple[float, float]](), 0.0, 0.0
        for members in buckets:
            transfer_ms = self.alpha_ms + self.beta_ms_per_byte * sum(self.sizes[each] for each in members)
            start_ms = max(free_ms, float(self.ready_ms[members[-1]]) + self.lost * busy_ms)
            free_ms = start_ms + transfer_ms
            busy_ms += transfer_ms
            spans.append((start_ms, free_ms))
        return spans

    def delayed_ms(self, spans: list[tuple[float, float]]) -> NDArray[np.float64]:
        """When the gradients are ready next to these transfers."""
        return delayed_ms(self.ready_ms, spans, self.lost)


def _ddp(costs: _Costs, update_ms: float) -> Ddp:
    """The largest ``bucket_cap_mb`` near the best; setting it sets the size of the first bucket as well.

    So do recent versions of PyTorch; older ones always close the first bucket at 1 MiB.
    """
    default = ddp_buckets(costs.sizes, DDP_FIRST_BUCKET_BYTES, DDP_BUCKET_MB * MIB)
    octaves = int(np.ceil(np.log2(max(costs.total_bytes / MIB, 1.0)))) + 10
    caps_mb = [round(2.0 ** (-10 + step / CAPS_PER_OCTAVE), 6) for step in range(octaves * CAPS_PER_OCTAVE + 1)]
    ends = {cap: costs.end_ms(ddp_buckets(costs.sizes, cap * MIB, cap * MIB)) for cap in caps_mb}
    default_ms = costs.end_ms(default) + update_ms
    near_ms = (min(ends.values()) + update_ms) * (1 + NOTICEABLE)
    if default_ms <= near_ms:
        return Ddp(bucket_cap_mb=None, after_ms=default_ms, default_ms=default_ms)
    best = max(cap for cap, end_ms in ends.items() if end_ms + update_ms <= near_ms)
    return Ddp(bucket_cap_mb=best, after_ms=ends[best] + update_ms, default_ms=default_ms)


def _check_partition(buckets: Sequence[Sequence[int]], gradients: int) -> None:
    listed = [index for bucket in buckets for index in bucket]
    if not all(buckets) or listed != list(range(gradients)):
        raise ValueError(
            f"current: the buckets have to hold the gradients 0 to {gradients - 1} once, in order, and none empty"
        )
