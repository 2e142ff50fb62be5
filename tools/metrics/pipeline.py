"""Figures of a pipeline-parallel step."""

from __future__ import annotations

from tools.errors import UsageError
from tools.metrics.communication import measured
from tools.metrics.measurement import Measurement, Metric
from tools.profilers.pipeline import Stages, expected_bubble, pipeline
from tools.profilers.point_to_point import partner_wait_ns, point_to_point
from tools.profilers.profile import Profile

SELECTOR = "send and receive transfers in steps, computation of the ranks that have them"


def pipeline_stages(profile: Profile) -> Measurement:
    """How many stages the pipeline has."""
    return _of(profile, float(_stages(profile).count))


def pipeline_micro_batches(profile: Profile) -> Measurement:
    """Micro-batches per step: half the transfers of a stage at the pipeline's end."""
    return _of(profile, _stages(profile).micro_batches)


def pipeline_bubble_pct(profile: Profile) -> Measurement:
    """Share of the step that a stage only waits for its neighbours and would with equal stages too, mean of stages."""
    return _of(profile, 100.0 * _stages(profile).bubble_ms / profile.mean_step_ms)


def pipeline_expected_bubble_pct(profile: Profile, micro_batches: float | None = None) -> Measurement:
    """(p - 1) / (m + p - 1), for the recorded or another number of micro-batches m."""
    stages = _stages(profile)
    return _of(profile, 100.0 * expected_bubble(stages.count, micro_batches or stages.micro_batches))


def stage_compute_ms(profile: Profile, rank: int | None = None) -> Measurement:
    """Computation per step of one stage, or the mean of all stages."""
    table = _stages(profile).table
    if rank is None:
        return _of(profile, float(table["compute_ms"].mean()))
    if rank not in table.index:
        raise UsageError(f"rank {rank} is no stage of the pipeline")
    return _of(profile, float(table["compute_ms"].loc[rank]), rank)


def stage_imbalance_pct(profile: Profile) -> Measurement:
    """How much longer than the mean stage the heaviest one computes."""
    stages = _stages(profile)
    return _of(profile, 100.0 * stages.imbalance_ms / max(stages.mean_ms, 1e-9))


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
    return measured(profile, value, table, SELECTOR, rank)


METRICS = (
    Metric("pipeline_stages", "count", "How many stages does the pipeline have?", pipeline_stages),
    Metric("pipeline_micro_batches", "count", "How many micro-batches pass per step?", pipeline_micro_batches),
    Metric("pipeline_bubble_pct", "%", "What share of the step is pipeline bubble?", pipeline_bubble_pct),
    Metric("pipeline_expected_bubble_pct", "%", "What bubble would the schedule leave?", pipeline_expected_bubble_pct),
    Metric("stage_compute_ms", "ms", "How long does a pipeline stage compute per step?", stage_compute_ms),
    Metric("stage_imbalance_pct", "%", "How much longer does the heaviest stage compute?", stage_imbalance_pct),
    Metric("stage_wait_ms", "ms", "How long does a stage only wait for its neighbours?", stage_wait_ms),
)
