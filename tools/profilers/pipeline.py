"""The stages of a pipeline-parallel step: who they are, how many micro-batches pass, what each computes and waits.

Ranks that send and receive in every step are stages of a pipeline when some of them begin the step by computing and
others by waiting for a transfer. (Ring exchanges, as in context parallelism, begin alike on all ranks.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.intervals import covered
from tools.profilers.point_to_point import partner_wait_ns, point_to_point
from tools.profilers.profile import Profile
from tools.profilers.rank_profile import RankProfile

LEAST_PER_STEP = 2  # a stage at the end of a pipeline receives and sends once per micro-batch
BEGINS_WAITING = 0.2  # a stage that computes less than this share of what the first one does before it exchanges
BEGINS_COMPUTING = 0.5  # a first stage computes at least this share of what the longest of them does


@dataclass(frozen=True)
class Stages:
    """One chain of stages. ``table`` has index rank and columns compute_ms and wait_ms, means per step.

    ``wait_ms`` is the time in which the stage only waits for its neighbours.
    """

    count: int  # of stages, traced or not
    micro_batches: float
    table: pd.DataFrame

    @property
    def bubble_share(self) -> float:
        """What a schedule of forward, then backward leaves idle with equal stages: (p - 1) / (m + p - 1)."""
        return expected_bubble(self.count, self.micro_batches)

    @property
    def heaviest_ms(self) -> float:
        """Compute of the stage that computes longest."""
        return float(self.table["compute_ms"].max())

    @property
    def mean_ms(self) -> float:
        """Mean compute of the stages."""
        return float(self.table["compute_ms"].mean())

    @property
    def imbalance_ms(self) -> float:
        """What the heaviest stage computes more than the mean: the step would be about that much shorter if equal."""
        return self.heaviest_ms - self.mean_ms

    @property
    def bubble_ms(self) -> float:
        """Waiting that equal stages would still have, mean over stages."""
        behind = self.heaviest_ms - self.table["compute_ms"]
        return float((self.table["wait_ms"] - behind).clip(lower=0.0).mean())


def expected_bubble(stages: int, micro_batches: float) -> float:
    """Idle share of a step with equal stages (GPipe, NeurIPS'19, section 2.3)."""
    return (stages - 1) / (micro_batches + stages - 1)


def pipeline(profile: Profile) -> Stages | None:
    """The run's pipeline, None where the traces show none or hold fewer than two of its stages."""
    return profile.memo("pipeline", lambda: _pipeline(profile))


def _pipeline(profile: Profile) -> Stages | None:
    table = point_to_point(profile)
    exchanging = [view for view in profile.ranks if _per_step(table, view) >= LEAST_PER_STEP]
    chains = _chains(table, exchanging) if len(exchanging) > 1 else 0
    if not chains or len(exchanging) % chains:
        return None
    rows = {
        view.rank.rank: (
            float(view.breakdown["compute_ns"].mean()) / 1e6,
            float(partner_wait_ns(profile, view.rank.rank).mean()) / 1e6,
        )
        for view in exchanging
    }
    stages = pd.DataFrame.from_dict(rows, orient="index", columns=["compute_ms", "wait_ms"])
    fewest = min(_per_step(table, view) for view in exchanging)
    known = profile.run.layout.pipeline_parallel
    return Stages(known if known and known > 1 else len(exchanging) // chains, fewest / 2.0, stages)


def _per_step(table: pd.DataFrame, view: RankProfile) -> float:
    return float((table["rank"] == view.rank.rank).sum()) / max(len(view.rank.steps), 1)


def _chains(table: pd.DataFrame, views: list[RankProfile]) -> int:
    """How many pipelines run side by side, by their first stages: these alone compute before their first transfer.

    0 where not some ranks begin a step by computing and others by waiting.
    """
    before = np.array([float(np.median(_compute_before(table, view))) for view in views])
    if before.max() <= 0 or before.min() >= BEGINS_WAITING * before.max():
        return 0
    return int((before >= BEGINS_COMPUTING * before.max()).sum())


def _compute_before(table: pd.DataFrame, view: RankProfile) -> NDArray[np.int64]:
    """Per step, computation before the first transfer."""
    first = table[table["rank"] == view.rank.rank].groupby("step")["start_ns"].min()
    begin = view.steps.set_index("number")["start_ns"].reindex(first.index).to_numpy()
    return covered(view.parts.compute, begin, np.maximum(first.to_numpy(), begin))
