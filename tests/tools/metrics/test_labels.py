"""Every metric says in words what its value is."""

from __future__ import annotations

import inspect

import pytest

from tools.errors import UsageError
from tools.findings import Argument
from tools.judgement.catalog import label, metrics
from tools.metrics.measurement import Metric

EXAMPLES: dict[str, Argument] = {
    **{"str": "host", "str | None": "wait", "int": 1, "int | None": 1},
    **{"float": 4.0, "float | None": 4.0},
}


@pytest.mark.parametrize("metric", metrics().values(), ids=lambda metric: metric.name)
def test_every_metric_has_a_label_with_its_arguments_filled_in(metric: Metric) -> None:
    parameters = dict(inspect.signature(metric.function).parameters)
    parameters.pop("profile")
    required = [name for name, each in parameters.items() if each.default is each.empty]
    for names in (required, list(parameters)):
        text = label(metric.name, {name: EXAMPLES[parameters[name].annotation] for name in names})
        assert text == " ".join(text.split())
        assert not set("{}?_") & set(text)
        assert ("rank 1" in text) == ("rank" in names)
    assert metric.question.endswith("?")


@pytest.mark.parametrize(
    ("metric", "arguments", "expected"),
    [
        ("part_ms", {"part": "data_wait", "rank": 1}, "mean data wait per step on rank 1"),
        ("part_ms", {"part": "wall"}, "mean wall time per step"),
        ("part_pct", {"part": "compute", "step": 13}, "compute share of the step in step 13"),
        ("device_idle_ms", {"rank": 0}, "mean device idle time per step on rank 0"),
        (
            "device_idle_ms",
            {"rank": 0, "reason": "launched", "statistic": "max"},
            "maximum device idle time per step with queued kernels on rank 0",
        ),
        ("timeline_ms", {"part": "idle", "rank": 0}, "idle device time (TraceLens) on rank 0"),
        ("collective_ms", {}, "time per step in collectives"),
        ("collective_ms", {"kind": "all_reduce"}, "time per step in all-reduce collectives"),
        ("exposed_wait_ms", {"last_rank": 7}, "exposed collective wait per step for rank 7"),
        ("counter_per_second", {"rank": 0, "field": "rdma_retransmits"}, "RDMA retransmissions per second on rank 0"),
        ("pipeline_expected_bubble_pct", {"micro_batches": 8.0},
         "expected pipeline bubble of the schedule with 8 micro-batches"),
        ("host_name_ms", {"rank": 1, "name": "a`b[E7]\x1b[31m\nc"},
         "host time per step in events named `a'b(E7) (31m c` on rank 1"),
        ("predicted_speedup", {"cause": "slow_link", "ranks": "0,1,2", "bound": "low"},
         "predicted speedup without slow link on ranks 0, 1 and 2 (lower bound)"),
        ("joint_speedup", {"causes": "slow_data_processing/heavy_transform,gc"},
         "predicted speedup without slow data processing (heavy transform) and gc"),
    ],
)  # fmt: skip
def test_a_label_reads_as_a_noun_phrase(metric: str, arguments: dict[str, Argument], expected: str) -> None:
    assert label(metric, arguments) == expected


def test_an_unknown_metric_has_no_label() -> None:
    with pytest.raises(UsageError, match="there is no metric 'nothing'"):
        label("nothing", {})
