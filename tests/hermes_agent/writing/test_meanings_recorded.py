"""Figures of monitor records, host traces and uneven work: told as what they are they pass, under other names not."""

from __future__ import annotations

import re
from typing import Any

import pytest

from hermes_agent.evidence.verifier import Evidence, Grounds
from hermes_agent.model.diagnosis import EvidenceRecord, SourceSelector
from hermes_agent.writing.binding import Told, unbound
from hermes_agent.writing.meanings_recorded import RECORDED_RULES
from tools.metrics.registry import metrics

Figure = tuple[str, float, str, dict[str, Any]]  # metric, value, unit, arguments


def wrong(sentence: str, *told: Figure) -> list[str]:
    """What is said against a sentence; ``told`` are E1, E2 and so on."""
    where = SourceSelector(path="", selector="")
    evidence = {
        f"E{number}": EvidenceRecord(
            id=f"E{number}", metric=metric, arguments=arguments, value=value, unit=unit, ranks=[0, 1], steps=[],
            window_ns=None, source=where,
        )
        for number, (metric, value, unit, arguments) in enumerate(told, start=1)
    }  # fmt: skip
    grounds = Grounds({name: Evidence(record.value, record.unit) for name, record in evidence.items()})
    return list(unbound(sentence, Told(evidence, grounds, 2)))


MEAN: Figure = ("series_step_ms", 94.4, "ms", {"statistic": "mean"})
MEDIAN: Figure = ("series_step_ms", 93.4, "ms", {"statistic": "median"})
DELAY: Figure = ("counter_ms_per_step", 20.0, "ms", {"field": "training_run_delay_us", "rank": 1})
TRUE: list[tuple[str, list[Figure]]] = [
    ("Steps that no profiler touched take 94.4 ms [E1] on average; their median is 93.4 ms [E2].", [MEAN, MEDIAN]),
    ("The profiled steps took 14.7 % [E1] longer than that median.", [("profiled_excess_pct", 14.7, "%", {})]),
    ("The unprofiled step time varies by 4.0 % [E1].", [("series_variation_pct", 4.0, "%", {})]),
    (
        "Every 8 steps [E1] a step takes 60 ms [E2] longer than usual, which adds 7.5 ms [E3] to the mean step.",
        [
            ("stall_period_steps", 8.0, "steps", {"rank": 0}),
            ("stall_excess_ms", 60.0, "ms", {"rank": 0}),
            ("stall_cost_ms", 7.5, "ms", {"rank": 0}),
        ],
    ),
    (
        "Python's garbage collector holds the steps up for 9 ms [E1] on average, at most for 80 ms [E2] at a time.",
        [("collector_cost_ms", 9.0, "ms", {}), ("collector_longest_ms", 80.0, "ms", {})],
    ),
    ("The training thread is ready to run but has no core for 20 ms [E1] per step.", [DELAY]),
    ("Operators in double precision run 60 % [E1] of the step.", [("host_group_pct", 60.0, "%", {"group": "fp64"})]),
    ("Recomputation inside the backward takes 12 % [E1] of the step.", [("recomputed_pct", 12.0, "%", {"rank": 0})]),
    (
        "The stages of the pipeline wait for each other 40 % [E1] of the step because only 8 [E2] micro-batches pass "
        "through 4 [E3] stages; such a schedule leaves 27 % [E4] idle.",
        [
            ("pipeline_bubble_pct", 40.0, "%", {}),
            ("pipeline_micro_batches", 8.0, "count", {}),
            ("pipeline_stages", 4.0, "count", {}),
            ("pipeline_expected_bubble_pct", 27.0, "%", {}),
        ],
    ),
    (
        "Of all segments that the machine of the training sends, 3.1 % [E1] are retransmitted.",
        [("sent_again_pct", 3.1, "%", {"rank": 0})],
    ),
    (
        "The loader's workers run for 97 % [E1] of the time.",
        [("worker_busy_pct", 97.0, "%", {"rank": 0})],
    ),
    (
        "The rank with most work has 30 % [E1] more than the mean and computes 12 ms [E2] longer.",
        [("work_uneven_pct", 30.0, "%", {}), ("work_compute_spread_ms", 12.0, "ms", {})],
    ),
    (
        "A step has 120 [E1] collectives so small that starting them, 0.3 ms [E2] each, is their cost: while they are"
        " under way a rank does nothing else for 40 ms [E3] per step, and beside its computation they run for 12 ms"
        " [E4].",
        [
            ("small_message_count", 120.0, "count", {}),
            ("small_message_start_ms", 0.3, "ms", {}),
            ("small_message_exposed_ms", 40.0, "ms", {}),
            ("small_message_beside_ms", 12.0, "ms", {}),
        ],
    ),
]
FALSE: list[tuple[str, list[Figure]]] = [
    ("Steps that no profiler touched take a median of 94.4 ms [E1].", [MEAN]),
    ("Communication takes 94.4 ms [E1].", [MEAN]),
    ("The profiled steps took 14.7 % [E1] for communication.", [("profiled_excess_pct", 14.7, "%", {})]),
    ("The loader takes 4.0 % [E1] of the step.", [("series_variation_pct", 4.0, "%", {})]),
    ("The step takes 60 ms [E1].", [("stall_excess_ms", 60.0, "ms", {"rank": 0})]),
    ("The data loader holds the steps up for 9 ms [E1].", [("collector_cost_ms", 9.0, "ms", {})]),
    ("The network holds the training thread up for 20 ms [E1] per step.", [DELAY]),
    ("Communication runs 60 % [E1] of the step.", [("host_group_pct", 60.0, "%", {"group": "fp64"})]),
    ("The loader takes 12 % [E1] of the step.", [("recomputed_pct", 12.0, "%", {"rank": 0})]),
    ("Garbage collection takes 40 % [E1] of the step.", [("pipeline_bubble_pct", 40.0, "%", {})]),
    ("The disk writes 3.1 % [E1] a second time.", [("sent_again_pct", 3.1, "%", {"rank": 0})]),
    ("Kernels run for 97 % [E1] of the time.", [("worker_busy_pct", 97.0, "%", {"rank": 0})]),
    ("Allocations take 12 ms [E1] longer.", [("work_compute_spread_ms", 12.0, "ms", {})]),
    ("The loader makes 120 [E1] reads.", [("small_message_count", 120.0, "count", {})]),
    ("The disk writes for 40 ms [E1] per step.", [("small_message_exposed_ms", 40.0, "ms", {})]),
]


@pytest.mark.parametrize(("sentence", "told"), TRUE)
def test_a_figure_told_as_what_it_is_passes(sentence: str, told: list[Figure]) -> None:
    assert wrong(sentence, *told) == []


@pytest.mark.parametrize(("sentence", "told"), FALSE)
def test_the_same_figure_under_another_name_is_refused(sentence: str, told: list[Figure]) -> None:
    assert wrong(sentence, *told)


@pytest.mark.parametrize("pattern", [pattern for pattern, _, _ in RECORDED_RULES])
def test_every_rule_is_of_a_metric_that_exists(pattern: str) -> None:
    of_metric = pattern.partition(" ")[0]
    assert [name for name in metrics() if re.search(of_metric, name)]
