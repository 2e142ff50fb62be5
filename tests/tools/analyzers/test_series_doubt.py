"""What unprofiled steps take back of what a few profiled ones show."""

from __future__ import annotations

import pytest

from tests.recorded_runs import recorded_profile, records_of, step_rows
from tests.synthetic import RankBuilder
from tools.analyzers.io import analyze
from tools.analyzers.series_doubt import DOUBTED, doubted
from tools.findings import Finding
from tools.profilers.profile import Profile


def waiting(rank: int) -> RankBuilder:
    """Half of each traced step of 100 ms goes into the loader."""
    builder = RankBuilder(rank=rank, device=None)
    for step in range(3):
        begin = step * 100_000
        builder.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", begin, 50_000)
        builder.operator("aten::mm", begin + 50_000, 49_900)
        builder.step(1000 + step, begin, begin + 100_000)
    return builder


def judged(data_wait_ms: float) -> tuple[Finding, Finding]:
    """What the trace says, and what is left of it when unprofiled steps of 100 ms wait that long for data."""
    steps = step_rows(0, [100.0] * 40, data_wait_ms=data_wait_ms, thread_cpu_ms=95.0)
    profile: Profile = recorded_profile(records_of([steps]), waiting)
    (finding,) = analyze(profile)[0].findings
    return finding, doubted(profile, finding)


@pytest.mark.parametrize(
    "data_wait_ms",
    [
        pytest.param(45.0, id="the run waits as the trace shows"),
        pytest.param(17.0, id="a third of it"),
        pytest.param(0.0, id="nobody watched the loader"),
    ],
)
def test_a_wait_for_data_stands_when_unprofiled_steps_bear_it_or_do_not_tell(data_wait_ms: float) -> None:
    before, after = judged(data_wait_ms)
    assert after == before


def test_a_wait_for_data_of_the_profiled_steps_alone_costs_the_run_nothing() -> None:
    before, after = judged(1.0)
    assert after.confidence == pytest.approx(before.confidence * DOUBTED, abs=0.001)
    assert after.change == ()
    assert after.against[-1].facts[0].value == pytest.approx(1.0)


def test_a_smaller_wait_is_doubted_and_worth_what_the_unprofiled_steps_wait() -> None:
    before, after = judged(10.0)
    assert after.confidence < before.confidence
    assert after.change == ()
    assert after.saving is not None
    assert after.saving.step_ms == pytest.approx(100.0)
    assert after.saving.saved_ms == pytest.approx(10.0)
