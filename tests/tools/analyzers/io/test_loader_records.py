"""What monitor records add to a data wait: reading or processing, and whose cores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.asked import asking
from tests.recorded_runs import environment_of, recorded_profile, records_of, step_rows
from tests.synthetic import RankBuilder
from tools.analyzers.io.loader_records import loader_reading
from tools.findings import Finding
from tools.metrics.registry import measure

analyze = asking("io.data_loader", "io.upload")

SINGLE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def loading(name: str) -> Any:  # noqa: ANN401 (a builder by rank)
    def build(rank: int) -> RankBuilder:
        builder = RankBuilder(rank=rank, device=None)
        for step in range(3):
            begin = step * 100_000
            builder.annotation(name, begin, 50_000)
            builder.operator("aten::mm", begin + 50_000, 49_900)
            builder.step(1000 + step, begin, begin + 100_000)
        return builder

    return build


def data_finding(name: str, cpu_ms: float, rates: dict[str, float], ranks: int = 1, **levels: float) -> Finding:
    steps = [step_rows(rank, [100.0] * 40, data_wait_ms=50.0, thread_cpu_ms=cpu_ms) for rank in range(ranks)]
    numbers = range(ranks)
    records = records_of(
        steps,
        dict.fromkeys(numbers, rates),
        dict.fromkeys(numbers, levels),
        [environment_of(rank, cores=2) for rank in numbers],
    )
    (finding,) = analyze(recorded_profile(records, loading(name)))[0].findings
    return finding


@pytest.mark.parametrize(
    ("cpu_ms", "ranks", "cause", "mechanism"),
    [
        pytest.param(99.0, 1, "slow_data_processing", "too_few_workers", id="it computes, and a core is free"),
        pytest.param(99.0, 2, "slow_data_processing", "heavy_transform", id="it computes, and no core is free"),
        pytest.param(52.0, 1, "slow_data_reading", None, id="it is blocked"),
    ],
)
def test_a_loader_in_the_process_is_shown_by_what_the_thread_does(
    cpu_ms: float, ranks: int, cause: str, mechanism: str | None
) -> None:
    finding = data_finding(SINGLE, cpu_ms, {"process_cpu_us": cpu_ms * 1e4}, ranks)
    assert (finding.cause, finding.mechanism) == (cause, mechanism)
    assert not finding.against


@pytest.mark.parametrize(
    ("rates", "levels", "cause", "mechanism"),
    [
        pytest.param(
            {"children_cpu_us": 0.1e6, "process_cpu_us": 0.5e6},
            {"children": 1.0, "children_allowed_cores": 2.0},
            "slow_data_reading",
            None,
            id="a worker that waits",
        ),
        pytest.param(
            {"children_cpu_us": 0.9e6, "process_cpu_us": 0.5e6},
            {"children": 1.0, "children_allowed_cores": 2.0},
            "slow_data_processing",
            "too_few_workers",
            id="a busy worker and a free core",
        ),
        pytest.param(
            {"children_cpu_us": 1.4e6, "process_cpu_us": 0.5e6},
            {"children": 2.0, "children_allowed_cores": 2.0},
            "slow_data_processing",
            "heavy_transform",
            id="busy workers on all cores",
        ),
        pytest.param(
            {"children_cpu_us": 0.9e6, "process_cpu_us": 0.3e6},
            {"children": 2.0, "children_allowed_cores": 1.0},
            "slow_data_processing",
            "process_binding",
            id="workers bound to one core",
        ),
    ],
)
def test_workers_are_shown_by_their_cores(
    rates: dict[str, float], levels: dict[str, float], cause: str, mechanism: str | None
) -> None:
    finding = data_finding(WORKERS, 50.0, rates, 1, **levels)
    assert (finding.cause, finding.mechanism) == (cause, mechanism)


def test_the_time_after_the_workers_ended_with_their_loader_is_not_theirs() -> None:
    """Two workers compute for 0.8 s per second each, half of the time; then they are gone, and what they ran stays."""
    steps = [step_rows(0, [100.0] * 40, data_wait_ms=50.0)]
    records = records_of(steps, {0: {"children_cpu_us": 1.6e6}}, {0: {"children": 2.0}})
    system = records.system.copy()
    late = np.arange(len(system)) > len(system) // 2
    system.loc[late, "children_cpu_us"] = system["children_cpu_us"][~late].max()
    system.loc[late, "children"] = 0.0
    profile = recorded_profile(replace(records, system=system), loading(WORKERS))
    assert measure(profile, "worker_busy_pct", rank=0).value == pytest.approx(80.0)


@pytest.mark.parametrize(
    ("queued", "children", "cause"),
    [
        pytest.param(4.0, 2.0, "slow_data_reading", id="the children are the workers"),
        pytest.param(2.0, 4.0, None, id="one worker may have used all of it"),
        pytest.param(2.0, 1.0, "slow_data_reading", id="one worker"),
    ],
)
def test_idle_children_that_are_no_workers_do_not_make_the_workers_wait(
    queued: float, children: float, cause: str | None
) -> None:
    steps = [step_rows(0, [100.0] * 40, data_wait_ms=50.0, thread_cpu_ms=50.0, in_flight=queued)]
    rates = {0: {"children_cpu_us": 0.25e6 * children, "process_cpu_us": 0.5e6}}
    records = records_of(
        steps, rates, {0: {"children": children, "children_allowed_cores": 8.0}}, [environment_of(0, cores=8)]
    )
    reading = loader_reading(recorded_profile(records, loading(WORKERS)), 0, "workers")
    assert (None if reading is None else reading.cause) == cause


@pytest.mark.parametrize(
    ("allowed", "mechanism"),
    [
        pytest.param((0,), "heavy_transform", id="bound to one core of many"),
        pytest.param((0, 1), "too_few_workers", id="a second core may be used"),
    ],
)
def test_cores_that_the_ranks_may_not_use_are_not_spare(allowed: tuple[int, ...], mechanism: str) -> None:
    steps = [step_rows(0, [100.0] * 40, data_wait_ms=50.0, thread_cpu_ms=99.0)]
    environment = environment_of(0, cores=96, allowed_cores=allowed)
    records = records_of(steps, {0: {"process_cpu_us": 0.99e6}}, None, [environment])
    reading = loader_reading(recorded_profile(records, loading(SINGLE)), 0, "single")
    assert reading is not None
    assert reading.mechanism == mechanism
