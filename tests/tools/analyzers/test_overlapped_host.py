"""Host time on accelerators: it costs the step only as far as the device waits for the host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.asked import asking
from tests.recorded_runs import recorded_profile, records_of, step_rows
from tests.synthetic import RankBuilder, run_of
from tools.findings import Check
from tools.knowledge.thresholds import Thresholds
from tools.views.profile import Profile

contention = asking("cpu.contention", "cpu.interpreter_lock")
garbage_collection = asking("cpu.garbage_collection")
page_faults = asking("memory.page_faults")

STEP_US = 50_000


def on_device(idle_share: float, waiting_call: bool = False) -> Callable[[int], RankBuilder]:
    """A rank whose device has nothing to do for that share of each step, because nothing was launched."""

    def build(rank: int) -> RankBuilder:
        builder = RankBuilder(rank=rank)
        for step in range(3):
            begin = step * STEP_US
            late = idle_share * STEP_US
            builder.kernel("gemm", begin + late + 4, STEP_US - late - 8, call_us=begin + late + 1)
            if waiting_call:
                builder.runtime("cudaDeviceSynchronize", begin + late + 5, STEP_US - late - 20)
            builder.step(1000 + step, begin, begin + STEP_US)
        return builder

    return build


def profile(build: Callable[[int], RankBuilder], rates: dict[str, float], **columns: Any) -> Profile:  # noqa: ANN401
    return recorded_profile(records_of([step_rows(0, [50.0] * 40, **columns)], {0: rates}), build)


def delays(seen: Profile) -> Check:
    return contention(seen)[0]


def side_threads(seen: Profile) -> Check:
    return contention(seen)[1]


def collections(seen: Profile) -> Check:
    return garbage_collection(seen)[0]


def faults(seen: Profile) -> Check:
    return page_faults(seen)[0]


CASES = [
    pytest.param(delays, {"training_run_delay_us": 0.2e6}, {}, 10.0, id="waiting for a core"),
    pytest.param(faults, {"minor_faults": 160_000.0}, {}, 16.0, id="page faults"),
    pytest.param(collections, {}, {"gc_ms": 2.5, "gc_longest_ms": 2.5}, 2.5 * 0.95, id="collections"),
    pytest.param(side_threads, {"python_threads_cpu_us": 0.7e6}, {"thread_cpu_ms": 20.0}, 30.0, id="side thread"),
]


@pytest.mark.parametrize(("ask", "rates", "columns", "whole_ms"), CASES)
def test_host_time_behind_a_busy_device_is_clean_and_says_so(
    ask: Callable[[Profile], Check], rates: dict[str, float], columns: dict[str, float], whole_ms: float
) -> None:
    del whole_ms
    check = ask(profile(on_device(0.002), rates, **columns))
    assert check.status == "clean"
    assert "the device works meanwhile" in check.support[0].template
    assert check.support[0].facts[1].value < 1.0


@pytest.mark.parametrize(("ask", "rates", "columns", "whole_ms"), CASES)
def test_host_time_saves_no_more_than_the_device_waits_for_the_host(
    ask: Callable[[Profile], Check], rates: dict[str, float], columns: dict[str, float], whole_ms: float
) -> None:
    (finding,) = ask(profile(on_device(0.04), rates, **columns)).findings
    assert finding.saving is not None
    assert finding.saving.saved_ms == pytest.approx(min(2.0, whole_ms), abs=0.05)
    assert finding.saving.most_ms <= 2.05
    (bound,) = ask(profile(on_device(0.9), rates, **columns)).findings
    assert bound.saving is not None
    assert bound.saving.saved_ms == pytest.approx(whole_ms)


def test_rare_pauses_that_the_trace_missed_count_as_far_as_they_make_steps_longer() -> None:
    pauses = [60.0 if step % 6 == 1 else 0.0 for step in range(60)]
    walls = [50.0 + pause for pause in pauses]
    records = records_of([step_rows(0, walls, gc_ms=pauses, gc_longest_ms=pauses)])
    (finding,) = collections(recorded_profile(records, on_device(0.002))).findings
    assert finding.saving is not None
    assert finding.saving.saved_ms == pytest.approx(9.5, rel=0.1)
    even = records_of([step_rows(0, [50.0] * 60, gc_ms=pauses, gc_longest_ms=pauses)])
    assert collections(recorded_profile(even, on_device(0.002))).status == "clean"


def waiting_in_collectives(share: float) -> RankBuilder:
    """Rank 0 with a collective that fills that share of each step alone."""
    builder = RankBuilder(rank=0)
    for step in range(3):
        begin, alone = step * STEP_US, share * STEP_US
        builder.kernel("gemm", begin + 4, STEP_US - alone - 8, call_us=begin + 1)
        builder.kernel("ncclDevKernel_AllReduce", begin + STEP_US - alone - 4, alone, call_us=begin + 3)
        builder.step(1000 + step, begin, begin + STEP_US)
    return builder


def test_the_host_of_a_rank_without_a_trace_shows_on_those_that_wait_for_it() -> None:
    paused = step_rows(1, [50.0] * 40, gc_ms=10.0, gc_longest_ms=10.0)
    records = records_of([step_rows(0, [50.0] * 40), paused])
    seen = Profile(replace(run_of(waiting_in_collectives(0.2)), records=records), Thresholds())
    (finding,) = collections(seen).findings
    assert finding.ranks == (1,)
    assert finding.saving is not None
    assert finding.saving.saved_ms == pytest.approx(10.0, rel=0.1)
    busy = Profile(replace(run_of(on_device(0.002)(0)), records=records), Thresholds())
    check = collections(busy)
    assert check.status == "clean"
    assert "for others" in check.support[0].template


def test_a_thread_that_sleeps_until_the_device_is_done_does_not_wait_for_the_interpreter() -> None:
    rates, columns = {"python_threads_cpu_us": 0.6e6}, {"thread_cpu_ms": 5.0}
    assert side_threads(profile(on_device(0.1), rates, **columns)).status == "found"
    assert side_threads(profile(on_device(0.1, waiting_call=True), rates, **columns)).status == "clean"
