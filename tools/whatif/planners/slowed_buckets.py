"""Buckets with the earliest end where a transfer slows the backward pass next to it.

While a transfer is active the backward pass goes on at ``1 / slowdown`` of its speed, so every ms of transfer before a
gradient is ready delays it by ``lost = 1 - 1 / slowdown`` ms. The last gradient of the next bucket is then ready at
``ready + lost * busy``, with ``busy`` the transfer time of all buckets before: where it was ready before these are
through, that is no later than their end, and the bucket starts at their end. More buckets delay more, by ``alpha``
each, so the earliest end of the first gradients depends on how many buckets they are in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]
MOST_WORK = 2e9  # numbers of buckets times pairs of gradients that are looked at: about 10 s


@dataclass(frozen=True)
class Cost:
    """Gradients' moments and sizes, the time of a transfer, and what of the backward pass is lost next to one."""

    ready_ms: Times
    before_bytes: Times  # of the gradients in front of each, and of all
    alpha_ms: float
    beta_ms_per_byte: float
    lost: float


@dataclass(frozen=True)
class Cut:
    """First gradient of each bucket, the end of the last transfer, and the bound that no cut is below."""

    firsts: list[int]
    end_ms: float
    least_ms: float


def best_cut(cost: Cost, known_ms: float, rounding: float) -> Cut | None:
    """The cut with the earliest end, of those the one with the fewest buckets; ``known_ms`` is the end of some cut.

    None where no cut within the numbers of buckets that are looked at (all that can matter, or MOST_WORK) ends as
    early as ``known_ms``.
    """
    count = len(cost.ready_ms)
    most = _most_buckets(cost, known_ms)
    tried = int(min(most, max(1.0, MOST_WORK // count**2)))
    ends = np.full((tried + 1, count + 1), np.inf)
    ends[0, 0] = 0.0
    chosen = np.zeros((tried, count), dtype=np.int32)
    sent_ms = cost.alpha_ms * np.arange(tried)[:, None] + cost.beta_ms_per_byte * cost.before_bytes[None, :]
    for last in range(count):
        held_ms = cost.beta_ms_per_byte * (cost.before_bytes[last + 1] - cost.before_bytes[: last + 1])
        ready_ms = cost.ready_ms[last] + cost.lost * sent_ms[:, : last + 1]
        finished = np.maximum(ends[:tried, : last + 1], ready_ms) + cost.alpha_ms + held_ms
        chosen[:, last] = finished.argmin(axis=1)
        ends[1:, last + 1] = finished.min(axis=1)
    end_ms = float(ends[:, count].min())
    if end_ms > known_ms * (1 + rounding):
        return None
    buckets = int(np.argmax(ends[:, count] <= end_ms * (1 + rounding)))
    firsts, behind = list[int](), count
    for number in range(buckets, 0, -1):
        behind = int(chosen[number - 1, behind - 1])
        firsts.append(behind)
    return Cut(firsts[::-1], end_ms, end_ms if tried == most else least_ms(cost))


def least_ms(cost: Cost) -> float:
    """A bound on any cut: all gradients in front of a bucket count as one transfer."""
    ends = np.zeros(len(cost.ready_ms) + 1)
    bytes_before = cost.before_bytes
    for last, ready_ms in enumerate(cost.ready_ms):
        sent_ms = cost.beta_ms_per_byte * bytes_before[: last + 1]
        sent_ms[1:] += cost.alpha_ms
        held_ms = cost.beta_ms_per_byte * (bytes_before[last + 1] - bytes_before[: last + 1])
        ends[last + 1] = (np.maximum(ends[: last + 1], ready_ms + cost.lost * sent_ms) + cost.alpha_ms + held_ms).min()
    return float(ends[-1])


def _most_buckets(cost: Cost, known_ms: float) -> int:
    """More buckets than this take longer for their transfers alone than a cut that is known."""
    count = len(cost.ready_ms)
    if not cost.alpha_ms:
        return count
    spare_ms = known_ms - float(cost.ready_ms[0]) - cost.beta_ms_per_byte * float(cost.before_bytes[-1])
    return int(min(count, max(1.0, np.floor(spare_ms / cost.alpha_ms) + 1)))


def delayed_ms(moments_ms: Times, spans_ms: list[tuple[float, float]], lost: float) -> Times:
    """Moments of the backward pass alone, as they are next to transfers in these spans (in order, none overlapping)."""
    knots = np.array([0.0, *(end for span in spans_ms for end in span)])
    busy = np.concatenate(([0.0], np.cumsum([part for start, end in spans_ms for part in (0.0, end - start)])))
    progress = knots - lost * busy
    beyond = moments_ms + lost * float(busy[-1])
    return np.where(moments_ms > progress[-1], beyond, np.interp(moments_ms, progress, knots))
