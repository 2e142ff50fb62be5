"""Gradients to reduce together: the buckets with the earliest end of the last transfer.

The models are dPRO's tensor fusion and Hermes' adaptive gradient fusion: a bucket is a run of consecutive gradients,
starts when its last gradient is ready and the bucket before it is through, and takes ``alpha + beta * bytes``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from tools.whatif.planners.record import FASTEST_BYTES_PER_MS, MOST_MS, Bytes, Given, Milliseconds, Plan, Planned
from tools.whatif.timeline import Bar

Buckets: TypeAlias = list[list[int]]

MIB = 1 << 20
DDP_FIRST_BUCKET_BYTES = MIB  # torch.distributed._DEFAULT_FIRST_BUCKET_BYTES
DDP_BUCKET_MB = 25.0  # default of DistributedDataParallel(bucket_cap_mb=...)
MOST_GRADIENTS = 20_000  # the search looks at every pair: 2e8 at most, about a second
CAPS_PER_OCTAVE = 4  # sizes of bucket_cap_mb that are tried between 2**n and 2**(n+1) MiB
NOTICEABLE = 0.01  # of the step; steps of two starts of one setting differ by more, so it is worth no smaller buckets
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
    """Gradients in order of readiness, the link, and the present buckets (else one per gradient)."""

    gradients: Annotated[list[Gradient], Field(min_length=1, max_length=MOST_GRADIENTS)]
    link: Link
    current: list[list[int]] | None = None
    update_ms: Milliseconds = 0.0

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
    """Return the buckets with the earliest end, of those the fewest; exact, O(n^2) for at most 20,000 gradients."""
    costs = _Costs(given)
    buckets = costs.fewest(costs.earliest_ends())
    after_ms, begun_idle = costs.end_ms(buckets)
    current = given.current or [[each] for each in range(len(given.gradients))]
    last_ready_ms = float(costs.ready_ms[-1])
    made = BucketPlan(
        buckets=buckets, exposed_communication_ms=after_ms - last_ready_ms, ddp=_ddp(costs, given.update_ms)
    )
    if begun_idle:
        bound = "the last gradient: its bucket starts as soon as it is ready"
    elif costs.alpha_ms * len(buckets) > costs.beta_ms_per_byte * costs.total_bytes:
        bound = "the latency of the transfers"
    else:
        bound = "the bandwidth of the link"
    return Planned(
        planner="gradient-buckets",
        plan=made,
        before_ms=costs.end_ms(current)[0] + given.update_ms,
        after_ms=after_ms + given.update_ms,
        gap_ms=0.0,
        bound=bound,
        assumptions=[
            "Buckets are transferred one after another in order; a transfer takes alpha + beta * bytes.",
            "Transfers do not slow the backward pass.",
        ],
        bars=lambda: [*_bars(given, costs, current, "present"), *_bars(given, costs, buckets, "planned")],
    )


def _bars(given: Input, costs: _Costs, buckets: Buckets, group: str) -> list[Bar]:
    """The gradients as they become ready, the transfer of each bucket, and the update."""
    bars, ready_ms, end_ms = list[Bar](), 0.0, 0.0
    for place, each in enumerate(given.gradients):
        name = f"gradient {place}, {each.bytes:.4g} bytes"
        bars.append(Bar("backward pass", name, "backward pass", ready_ms, each.ready_ms, group))
        ready_ms = each.ready_ms
    for place, members in enumerate(buckets):
        start_ms, end_ms = costs.span_ms(members, end_ms)
        name = f"bucket {place}, gradients {members[0]} to {members[-1]}"
        bars.append(Bar("link", name, "transfer", start_ms, end_ms, group))
    if given.update_ms:
        bars.append(Bar("backward pass", "update", "update", end_ms, end_ms + given.update_ms, group))
    return bars


def simulated_ms(given: Input, buckets: Buckets) -> float:
    """Return the end of the step with these buckets."""
    return _Costs(given).end_ms(buckets)[0] + given.update_ms


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

    @property
    def total_bytes(self) -> float:
        return float(self.before_bytes[-1])

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

    def end_ms(self, buckets: Buckets) -> tuple[float, bool]:
        """End of the last transfer, and whether the link was idle before it."""
        end_ms, idle = 0.0, False
        for members in buckets:
            idle = float(self.ready_ms[members[-1]]) > end_ms
            _, end_ms = self.span_ms(members, end_ms)
        return end_ms, idle

    def span_ms(self, members: Sequence[int], free_ms: float) -> tuple[float, float]:
        """Start and end of the transfer of a bucket on a link that is free from ``free_ms``."""
        start_ms = max(free_ms, float(self.ready_ms[members[-1]]))
        size = sum(self.sizes[each] for each in members)
        return start_ms, start_ms + self.alpha_ms + self.beta_ms_per_byte * size


def _ddp(costs: _Costs, update_ms: float) -> Ddp:
    """The largest ``bucket_cap_mb`` near the best; setting it sets the size of the first bucket as well.

    So do recent versions of PyTorch; older ones always close the first bucket at 1 MiB.
    """
    default = ddp_buckets(costs.sizes, DDP_FIRST_BUCKET_BYTES, DDP_BUCKET_MB * MIB)
    octaves = int(np.ceil(np.log2(max(costs.total_bytes / MIB, 1.0)))) + 10
    caps_mb = [round(2.0 ** (-10 + step / CAPS_PER_OCTAVE), 6) for step in range(octaves * CAPS_PER_OCTAVE + 1)]
    ends = {cap: costs.end_ms(ddp_buckets(costs.sizes, cap * MIB, cap * MIB))[0] for cap in caps_mb}
    default_ms = costs.end_ms(default)[0] + update_ms
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
