"""What unprofiled steps take back of what a few profiled ones show."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.asked import asking
from tests.recorded_runs import loading_rank, recorded_profile, records_of, step_rows
from tests.synthetic import RankBuilder, run_of
from tools.analyzers.support.figures import saving
from tools.findings import Finding, Sentence
from tools.judgement.series_doubt import DOUBTED, doubted
from tools.knowledge.thresholds import Thresholds
from tools.views.profile import Profile

analyze = asking("io.data_loader", "io.upload")


def waiting(rank: int) -> RankBuilder:
    """Half of each traced step of 100 ms goes into the loader."""
    return loading_rank(rank, 100_000, 50_000)


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


def captured_after_a_change(untraced: bool, wait_ms: float = 24.0) -> tuple[Finding, Finding]:
    """Rank 1 is traced; its data come late from step 80 on. An earlier capture, before that, is in the records too."""
    late = np.arange(160) >= 80
    profiled = np.isin(np.arange(160), (40, 41, 42, 90, 91, 92))
    walls, waits = np.where(late, 10.0 + wait_ms, 11.0), np.where(late, wait_ms, 0.3)
    own = step_rows(1, list(walls), data_wait_ms=list(waits), own_ms=list(waits + 8.0), captured=list(profiled))
    other = step_rows(0, list(walls), data_wait_ms=0.3, own_ms=11.0)
    run = replace(
        run_of(waiting(1)),
        records=records_of([other, own] if untraced else [own]),
        origin_unix_ns=int(own["end_unix_ns"][89]),
    )
    profile = Profile(run, Thresholds())
    (finding,) = analyze(profile)[0].findings
    return finding, doubted(profile, finding)


def test_a_wait_that_began_with_a_change_before_the_traced_steps_stands() -> None:
    before, after = captured_after_a_change(untraced=False)
    assert after == before


def test_a_wait_of_a_like_share_of_shorter_steps_stands() -> None:
    before, after = captured_after_a_change(untraced=False, wait_ms=10.0)  # half of the step, a fifth of the traced one
    assert after == before


def test_where_other_ranks_have_no_trace_a_wait_is_worth_what_the_records_tell() -> None:
    before, after = captured_after_a_change(untraced=True)
    assert (after.confidence, after.against, after.change) == (before.confidence, before.against, ())
    assert after.saving is not None
    assert after.saving.step_ms == pytest.approx(34.0)
    assert after.saving.saved_ms == pytest.approx(32.0 - 10.7)  # the other rank takes that long without its data


@pytest.mark.parametrize("own_ms", [60.0, 12.0])
def test_a_rank_that_is_very_late_in_the_trace_is_doubted_only_where_the_records_do_not_bear_it(own_ms: float) -> None:
    """In the trace rank 1 takes 60 ms of a step of 60 ms, the others 10 ms: five times as much again."""
    rows = [step_rows(rank, [60.0] * 60, own_ms=own_ms if rank == 1 else 10.0) for rank in range(3)]
    profile = recorded_profile(records_of(rows), late)
    finding = Finding(cause="straggler", mechanism=None, claim=Sentence("Late."), confidence=0.9, ranks=(1,))
    assert (doubted(profile, finding) == finding) == (own_ms == 60.0)


def late(rank: int) -> RankBuilder:
    builder = RankBuilder(rank=rank, device=None)
    for step in range(3):
        begin, own = step * 60_000, 60_000 if rank == 1 else 10_000
        builder.operator("aten::mm", begin, own)
        if rank != 1:
            builder.operator("gloo:all_reduce", begin + own, 60_000 - own)
        builder.step(1000 + step, begin, begin + 60_000)
    return builder


def offloading(rank: int) -> RankBuilder:
    """Layers of 201 and 67 MB are copied to the device one after another, 80 us each before a kernel of 20 us."""
    builder = RankBuilder(rank=rank)
    for layer, at in enumerate(range(0, 4_000, 100)):
        copied = (201, 67)[layer % 2] * 10**6
        builder.copy("Memcpy HtoD (Pinned -> Device)", start_us=at, duration_us=80, call_us=at, bytes_=copied)
        builder.kernel("gemm", start_us=at + 80, duration_us=20, call_us=at + 1)
    builder.step(0, 0, 4_000)
    return builder


def test_lengths_of_unprofiled_steps_do_not_make_the_saving_of_a_recording_without_steps_certain() -> None:
    """The recording may be all start-up, whatever is recorded next to it; a saving counted in the series stands."""
    recorded = recorded_profile(records_of([step_rows(0, [1000.0] * 60)]), offloading)
    unmarked = tuple(replace(each, step_origin="window") for each in recorded.run.ranks)
    profile = Profile(replace(recorded.run, ranks=unmarked), Thresholds())
    (finding,) = asking("memory.offload")(profile)[0].findings
    assert finding.saving is not None
    limited = finding.confidence * profile.thresholds["unmarked_confidence"]
    assert doubted(profile, finding).confidence == pytest.approx(limited, abs=0.001)
    assert limited < finding.confidence
    assert doubted(recorded, finding) == finding
    counted = replace(finding, saving=saving(profile, 100.0, 0.5, 1.0, "time that the monitor counts"))
    assert doubted(profile, counted) == counted
