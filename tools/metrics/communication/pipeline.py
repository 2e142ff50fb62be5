"""The stages of a pipeline-parallel step: who they are, how many micro-batches pass, what each computes and waits.

Ranks that send and receive in every step are stages of a pipeline when some of them begin the step by computing and
others by waiting for a transfer. (Ring exchanges, as in context parallelism, begin alike on all ranks.)
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import UsageError
from tools.intervals import covered
from tools.metrics.measurement import Measurement, metric, of_ranks
from tools.views.communication.collectives import partner_wait_ns, point_to_point
from tools.views.profile import Profile, memoized
from tools.views.rank_profile import RankProfile
from tools.views.scatter import least_mean

LEAST_PER_STEP = 2  # a stage at the end of a pipeline receives and sends once per micro-batch
BEGINS_WAITING = 0.2  # a stage that computes less than this share of what the first one does before it exchanges
HOST_THAT_GROWS = 0.5  # with the number of micro-batches, of the host's own time: the middle of none and all
LEAST_STEPS = 3  # from which on the scatter of the steps says how sure their mean is
BEGINS_COMPUTING = 0.5  # a first stage computes at least this share of what the longest of them does


@dataclass(frozen=True)
class Stages:
    """One chain of stages.

    ``table``: index rank, columns compute_ms, wait_ms (for neighbours) and host_ms (nothing but host work), per step.
    ``steps_ms``: the compute of each stage (columns) in each step that all of them were traced in.
    """

    count: int  # of stages, traced or not
    micro_batches: float
    table: pd.DataFrame
    steps_ms: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def bubble_share(self) -> float:
        """Idle share of a schedule of forward, then backward with equal stages: (p - 1) / (m + p - 1)."""
        return expected_bubble(self.count, self.micro_batches)

    @property
    def mean_ms(self) -> float:
        """Mean compute of the stages."""
        return float(self.table["compute_ms"].mean())

    @property
    def heaviest_ms(self) -> float:
        """Compute of the stage that computes longest."""
        return float(self.table["compute_ms"].max())

    @property
    def imbalance_ms(self) -> float:
        """Extra compute of the heaviest stage over the mean: equal stages would shorten the step by about that."""
        return self.heaviest_ms - self.mean_ms

    @property
    def least_imbalance_ms(self) -> float | None:
        """The same as far as it stands out from the scatter of the steps; None of fewer than ``LEAST_STEPS``."""
        if len(self.steps_ms) < LEAST_STEPS:
            return None
        over = self.steps_ms[self.table["compute_ms"].idxmax()] - self.steps_ms.mean(axis=1)
        return least_mean(over.to_numpy(dtype=np.float64))

    @property
    def bubble_ms(self) -> float:
        """Waiting that equal stages would still have, mean over stages."""
        behind = self.heaviest_ms - self.table["compute_ms"]
        return float((self.table["wait_ms"] - behind).clip(lower=0.0).mean())

    def saved_ms(self, micro_batches: float) -> float:
        """What as many micro-batches of the same batch save of a step; negative where they cost more than they save.

        The bubble shrinks like (p - 1) / m (GPipe). The passes of a micro-batch run the same operators whatever its
        size, so the host's own time that is left exposed grows with their number, except what is there once per step
        (loader, update). How that divides is not recorded: half of it is taken to grow. It counts as on the stage with
        least, because a stage that is through first has nothing to do at the end of the step.
        """
        more = micro_batches / max(self.micro_batches, 1.0) - 1.0
        host_ms = float(self.table["host_ms"].min())
        return self.bubble_ms * (1.0 - self.micro_batches / micro_batches) - HOST_THAT_GROWS * host_ms * more


def expected_bubble(stages: int, micro_batches: float) -> float:
    """Idle share of a step with equal stages (GPipe, NeurIPS'19, section 2.3)."""
    return (stages - 1) / (micro_batches + stages - 1)


def at_least_one(micro_batches: float) -> float:
    """A number of micro-batches that is asked for; UsageError for one that no step can have."""
    if micro_batches < 1:
        raise UsageError(f"a step has at least one micro-batch, not {micro_batches:g}")
    return micro_batches


@memoized
def pipeline(profile: Profile) -> Stages | None:
    """The run's pipeline, None where the traces show none or hold fewer than two of its stages."""
    table = point_to_point(profile)
    counts = table.groupby("rank").size()
    per_step = {view: counts.get(view.rank.rank, 0) / max(len(view.rank.steps), 1) for view in profile.ranks}
    exchanging = {view: count for view, count in per_step.items() if count >= LEAST_PER_STEP}
    chains = _chains(table, list(exchanging)) if len(exchanging) > 1 else 0
    if not chains or len(exchanging) % chains:
        return None
    rows = [
        (
            view.breakdown["compute_ns"].mean(),
            partner_wait_ns(profile, view.rank.rank).mean(),
            view.breakdown["host_ns"].mean(),
        )
        for view in exchanging
    ]
    numbers = [view.rank.rank for view in exchanging]
    stages = pd.DataFrame(np.array(rows) / 1e6, index=numbers, columns=["compute_ms", "wait_ms", "host_ms"])
    known = profile.run.layout.pipeline_parallel
    count = known if known and known > 1 else len(exchanging) // chains
    steps_ms = [view.breakdown.groupby("number")["compute_ns"].sum() / 1e6 for view in exchanging]
    each = pd.concat(steps_ms, axis=1, keys=numbers).dropna()
    return Stages(count, min(exchanging.values()) / 2.0, stages, each)


def _chains(table: pd.DataFrame, views: list[RankProfile]) -> int:
    """Number of parallel pipelines, by the stages that compute before their first transfer; 0 where none stand out."""
    before = np.array([float(np.median(_compute_before(table, view))) for view in views])
    if before.max() <= 0 or before.min() >= BEGINS_WAITING * before.max():
        return 0
    return int((before >= BEGINS_COMPUTING * before.max()).sum())


def _compute_before(table: pd.DataFrame, view: RankProfile) -> NDArray[np.int64]:
    """Per step, computation before the first transfer."""
    first = table[table["rank"] == view.rank.rank].groupby("step")["start_ns"].min()
    begin = view.steps.set_index("number")["start_ns"].reindex(first.index).to_numpy()
    return covered(view.parts.compute, begin, np.maximum(first.to_numpy(), begin))


SELECTOR = "send and receive transfers in steps, computation of the ranks that have them"


@metric("count", "pipeline stages", "How many stages does the pipeline have?")
def pipeline_stages(profile: Profile) -> Measurement:
    """Number of pipeline stages."""
    return _of(profile, float(_stages(profile).count))


@metric("count", "micro-batches per step", "How many micro-batches pass per step?")
def pipeline_micro_batches(profile: Profile) -> Measurement:
    """Micro-batches per step: half the transfers of a stage at the pipeline's end."""
    return _of(profile, _stages(profile).micro_batches)


@metric(
    "%",
    "pipeline bubble share of the step, less the waiting for unequal stages",
    "Which share of the step is pipeline bubble?",
)
def pipeline_bubble_pct(profile: Profile) -> Measurement:
    """Share of the step that a stage only waits for its neighbours and would with equal stages too, mean of stages."""
    return _of(profile, 100.0 * _stages(profile).bubble_ms / profile.mean_step_ms)


@metric("%", "expected pipeline bubble of the schedule", "How large a bubble would equal stages leave?")
def pipeline_expected_bubble_pct(profile: Profile, micro_batches: float | None = None) -> Measurement:
    """(p - 1) / (m + p - 1), for the recorded or another number of micro-batches m."""
    stages = _stages(profile)
    passing = stages.micro_batches if micro_batches is None else at_least_one(micro_batches)
    return _of(profile, 100.0 * expected_bubble(stages.count, passing))


@metric("ms", "pipeline stage compute per step", "How long does a pipeline stage compute per step?")
def stage_compute_ms(profile: Profile, rank: int | None = None) -> Measurement:
    """Computation per step of one stage, or the mean of all stages."""
    own = _stages(profile).table["compute_ms"]
    if rank is not None and rank not in own.index:
        raise UsageError(f"rank {rank} is no stage of the pipeline")
    return _of(profile, float(own.mean() if rank is None else own.loc[rank]), rank)


@metric("%", "compute imbalance of the heaviest stage", "How much longer does the heaviest stage compute?")
def stage_imbalance_pct(profile: Profile) -> Measurement:
    """Extra compute of the heaviest stage over the mean stage."""
    stages = _stages(profile)
    return _of(profile, 100.0 * stages.imbalance_ms / max(stages.mean_ms, 1e-9))


@metric("%", "computation of the heaviest stage beyond that of equal stages", "How much of a stage is too much?")
def stage_surplus_pct(profile: Profile) -> Measurement:
    """Share of the heaviest stage's computation that equal stages would have elsewhere."""
    stages = _stages(profile)
    return _of(profile, 100.0 * stages.imbalance_ms / max(stages.heaviest_ms, 1e-9))


@metric("ms", "least excess compute of the heaviest stage", "How much longer does the heaviest stage compute at least?")
def least_stage_excess_ms(profile: Profile) -> Measurement:
    """Extra compute of the heaviest stage per step, the lower end of the 95 % interval over the steps."""
    least = _stages(profile).least_imbalance_ms
    if least is None:
        raise UsageError(f"fewer than {LEAST_STEPS} steps of all stages are traced, so their scatter is unknown")
    return _of(profile, least)


@metric("ms", "pipeline wait per step for neighbour stages", "How long does a stage only wait for others?")
def stage_wait_ms(profile: Profile, rank: int) -> Measurement:
    """Time per step in which a rank does nothing but wait for the partner of a transfer."""
    return _of(profile, float(partner_wait_ns(profile, profile.rank(rank).rank.rank).mean()) / 1e6, rank)


def _stages(profile: Profile) -> Stages:
    stages = pipeline(profile)
    if stages is None:
        raise UsageError("the traces show no pipeline of stages")
    return stages


def _of(profile: Profile, value: float, rank: int | None = None) -> Measurement:
    table = point_to_point(profile)
    table = table if rank is None else table[table["rank"] == rank]
    return of_ranks(profile, value, table, SELECTOR, rank)
