"""Does the step wait for the host program? Made-up runs with known answers, and real ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.asked import CPU, ask, asking
from tests.real_runs import real_profile
from tests.recorded_runs import recorded_profile, records_of, step_rows
from tests.synthetic import V100, RankBuilder, profile_of, run_of
from tools.findings import Check
from tools.run.events import EventKind
from tools.run.recorded.environment import HostEnvironment
from tools.views.profile import Profile
from tools.whatif.change import Scale, Unblock

analyze = asking(*CPU)


def check_of(profile: Profile, name: str) -> Check:
    return ask(profile, name)


def launches(interval_us: float, kernel_us: float, count: int = 50, **metadata: str) -> RankBuilder:
    rank = RankBuilder(0, V100, **metadata)
    for number in range(count):
        at = number * interval_us
        rank.operator("aten::add", at, interval_us * 0.9)
        rank.kernel("add", start_us=at + 2, duration_us=kernel_us, call_us=at)
    rank.step(0, 0, count * interval_us)
    return rank


def test_short_kernels_launched_slowly_are_small_operators() -> None:
    check = check_of(profile_of(launches(interval_us=100, kernel_us=10)), "cpu.small_operators")
    (finding,) = check.findings
    assert (finding.cause, finding.mechanism) == ("operator_dispatch", "small_operators")
    amount, share, count, interval, kernel = finding.claim.facts
    assert amount.value == pytest.approx(4.5)
    assert share.value == pytest.approx(90.0)
    assert (count.value, interval.value, kernel.value) == (50, 100, 10)
    assert finding.confidence == 0.45  # of a single step
    (change,) = finding.change
    assert isinstance(change, Scale)
    assert (change.factor, change.cautious_factor) == (0.1, 0.6)


def test_launches_that_only_copy_are_no_small_operators() -> None:
    rank = RankBuilder(0, V100)
    for number in range(50):
        rank.copy("Memcpy HtoD (Pinned -> Device)", 100 * number + 2, 10, call_us=100 * number)
    rank.step(0, 0, 5000)
    assert check_of(profile_of(rank), "cpu.small_operators").status == "cannot_answer"


def test_a_handful_of_slow_launches_is_a_hypothesis_only() -> None:
    check = check_of(profile_of(launches(interval_us=100, kernel_us=10, count=8)), "cpu.small_operators")
    (finding,) = check.findings
    assert finding.confidence < 0.5
    assert finding.against[0].facts[0].value == 8


def unmarked(rank: RankBuilder) -> Profile:
    """The same run, its one step being the whole recording."""
    run = run_of(rank)
    return Profile(replace(run, ranks=tuple(replace(each, step_origin="window") for each in run.ranks)))


def test_a_handful_of_launches_without_marked_steps_is_no_loop() -> None:
    few, many = launches(100, 10, count=8), launches(100, 10, count=50)
    assert check_of(unmarked(few), "cpu.small_operators").status == "clean"
    assert check_of(unmarked(many), "cpu.small_operators").findings
    started = RankBuilder()
    started.runtime("cudaGetDeviceCount", 0, 900_000)
    for at in range(4):
        started.kernel("add", start_us=900_010 + 100 * at, duration_us=5, call_us=900_000 + 100 * at)
    started.step(0, 0, 1_000_000)
    assert check_of(unmarked(started), "cpu.device_idle").status == "cannot_answer"
    assert check_of(profile_of(started), "cpu.device_idle").findings


def test_waits_of_a_benchmark_around_all_of_its_work_are_no_reads_of_values() -> None:
    rank, inside = RankBuilder(), RankBuilder()
    for each in (rank, inside):
        for at in range(40):
            each.kernel("gemm", start_us=10 + 100 * at, duration_us=50, call_us=5 + 100 * at)
            each.runtime("hipDeviceSynchronize", 8 + 100 * at, 60)
        each.step(0, 0, 4000)
    inside.operator("aten::item", 0, 4000)
    check = check_of(unmarked(rank), "cpu.host_synchronization")
    assert (check.status, "as benchmarks do" in check.support[0].template) == ("clean", True)
    assert check_of(profile_of(rank), "cpu.host_synchronization").findings
    assert check_of(unmarked(inside), "cpu.host_synchronization").findings


def test_a_host_that_runs_ahead_is_clean() -> None:
    rank = RankBuilder()
    for number in range(50):
        rank.kernel("gemm", start_us=2 + 100 * number, duration_us=100, call_us=10 * number)
    rank.step(0, 0, 5002)
    check = check_of(profile_of(rank), "cpu.small_operators")
    assert check.status == "clean"
    assert check.support[0].facts[1].value > 10


def test_without_a_device_many_short_operators_are_found() -> None:
    rank = RankBuilder(device=None)
    rank.operator("aten::conv2d", 0, 2000)
    for number in range(100):
        rank.operator("aten::mul", 2000 + 20 * number, 10)
    rank.step(0, 0, 4000)
    (finding,) = check_of(profile_of(rank), "cpu.small_operators").findings
    assert finding.mechanism == "small_operators"
    assert finding.claim.facts[1].value == pytest.approx(50.0)
    assert [fact.value for fact in finding.claim.facts[2:]] == [100, 101]
    assert finding.details[0].names == ("aten::mul",)
    (change,) = finding.change
    assert isinstance(change, Scale)
    assert (change.factor, change.cautious_factor) == (0.1, 0.6)


def stretched(rank: int) -> RankBuilder:
    """Three steps of 100 short operators; the profiler makes the first one ten times as long as the others."""
    builder, at = RankBuilder(rank=rank, device=None), 0.0
    for step, conv_us in enumerate((38_000, 2000, 2000)):
        builder.operator("aten::conv2d", at, conv_us)
        for number in range(100):
            builder.operator("aten::mul", at + conv_us + 20 * number, 10)
        builder.step(1000 + step, at, at + conv_us + 2000)
        at += conv_us + 2000
    return builder


def test_steps_that_recording_stretches_do_not_hide_short_operators_from_the_unprofiled_step() -> None:
    profile = recorded_profile(records_of([step_rows(0, [4.0] * 40)]), stretched)
    (finding,) = check_of(profile, "cpu.small_operators").findings
    amount, share, *_ = finding.claim.facts
    assert amount.value == pytest.approx(2.0)
    assert share.value == pytest.approx(50.0)
    assert finding.change == ()
    assert finding.saving is not None
    assert finding.saving.step_ms == pytest.approx(4.0)
    assert finding.saving.saved_ms == pytest.approx(0.65 * 2.0)
    assert finding.saving.least_ms == pytest.approx(0.8)
    assert finding.saving.most_ms == pytest.approx(1.8)


def test_without_a_device_a_few_long_operators_are_clean() -> None:
    rank = RankBuilder(device=None)
    for number in range(4):
        rank.operator("aten::conv2d", 1000 * number, 990)
    rank.step(0, 0, 4000)
    assert check_of(profile_of(rank), "cpu.small_operators").status == "clean"


def reading_rank(reads: bool) -> RankBuilder:
    """Kernels queued ahead; with ``reads`` the host waits for each before it goes on."""
    rank = RankBuilder()
    at = 0.0
    for _ in range(20):
        rank.kernel("gemm", start_us=at + 2, duration_us=500, call_us=at)
        if reads:
            rank.operator("aten::item", at + 3, 501)
            rank.runtime("cudaStreamSynchronize", at + 4, 499)
        at += 700 if reads else 502
    rank.step(0, 0, at)
    return rank


def test_waits_for_the_device_that_cost_the_host_its_lead_are_found() -> None:
    profile = profile_of(reading_rank(reads=True))
    (finding,) = check_of(profile, "cpu.host_synchronization").findings
    assert finding.mechanism == "host_synchronization"
    calls, idle, share = finding.claim.facts
    assert calls.value == 20
    assert idle.value == pytest.approx(20 * 198e-3, rel=0.02)
    assert share.value == pytest.approx(100 * 198 / 700, rel=0.02)
    assert finding.claim.names == ("cudaStreamSynchronize", "aten::item")
    assert finding.hints["call"] == "aten::item"
    (change,) = finding.change
    assert isinstance(change, Unblock)
    assert set(profile.rank(0).names(np.asarray(change.rows))) == {"cudaStreamSynchronize"}


def test_the_same_gaps_are_not_blamed_on_dispatch_too() -> None:
    assert check_of(profile_of(reading_rank(reads=True)), "cpu.small_operators").status == "clean"


def test_no_waits_for_the_device_are_clean() -> None:
    assert check_of(profile_of(reading_rank(reads=False)), "cpu.host_synchronization").status == "clean"


def test_launches_that_last_as_long_as_their_kernels_are_launch_blocking() -> None:
    rank = RankBuilder()
    for number in range(30):
        at = 100.0 * number
        rank.kernel("kernel", start_us=at + 5, duration_us=80, call_us=at, call_duration_us=90)
    rank.step(0, 0, 3000)
    (finding,) = check_of(profile_of(rank), "cpu.launch_blocking").findings
    assert finding.mechanism == "launch_blocking"
    assert finding.claim.facts[0].value == pytest.approx(100.0)


def test_too_few_launches_say_nothing_about_blocking() -> None:
    assert check_of(profile_of(launches(100, 10, count=5)), "cpu.launch_blocking").status == "cannot_answer"


def test_compile_events_in_later_steps_point_to_changing_shapes() -> None:
    rank = RankBuilder()
    for step in range(3):
        at = 2000 * step
        rank.operator("_compile.compile_inner (dynamo_timed)", at, 1000)
        rank.kernel("kernel", start_us=at + 1002, duration_us=998, call_us=at + 1000)
        rank.step(step, at, at + 2000)
    (finding,) = check_of(profile_of(rank), "cpu.operator_compilation").findings
    assert (finding.cause, finding.mechanism) == ("operator_compilation", "dynamic_shape")
    assert finding.claim.facts[0].value == 3
    assert finding.claim.facts[1].value == pytest.approx(1.0)


def test_running_compiled_regions_is_not_compiling() -> None:
    rank = launches(100, 90)
    rank.annotation("Torch-Compiled Region: 0/0", 0, 4000)
    rank.operator("TorchDynamo Cache Lookup", 0, 10)
    check = check_of(profile_of(rank), "cpu.operator_compilation")
    assert check.status == "clean"
    assert check.support[0].facts[0].value == 0


def test_a_trace_without_any_sign_of_a_compiler_cannot_answer() -> None:
    check = check_of(profile_of(launches(100, 90)), "cpu.operator_compilation")
    assert check.status == "cannot_answer"
    assert check.needs


def test_recorded_stacks_on_a_host_bound_run_are_a_hypothesis_of_overhead() -> None:
    rank = launches(interval_us=100, kernel_us=10, with_stack="1", record_shapes="1")
    for number in range(5000):
        rank.event(EventKind.PYTHON, f"model.py({number % 50}): forward", number, 0.5)
    (finding,) = check_of(profile_of(rank), "cpu.profiling_overhead").findings
    estimate, frames, operators = finding.claim.facts
    assert (frames.value, operators.value) == (5000, 50)
    assert estimate.value == pytest.approx(5000 * 0.15e-3 + 50 * 2 * 1e-3)
    assert finding.confidence <= 0.6
    assert finding.against


def test_recording_on_a_device_bound_run_costs_nothing() -> None:
    rank = RankBuilder(0, with_stack="1")
    rank.kernel("long", start_us=2, duration_us=9998, call_us=0)
    for number in range(5000):
        rank.event(EventKind.PYTHON, "model.py(1): forward", number, 0.5)
    rank.step(0, 0, 10_000)
    assert check_of(profile_of(rank), "cpu.profiling_overhead").status == "clean"


def test_a_debug_variable_in_the_metadata_is_reported_by_name() -> None:
    (finding,) = check_of(profile_of(launches(100, 90, CUDA_LAUNCH_BLOCKING="1")), "cpu.environment").findings
    assert (finding.cause, finding.mechanism) == ("environment_configuration", "debug_variable")
    assert finding.claim.names == ("CUDA_LAUNCH_BLOCKING",)
    assert check_of(profile_of(launches(100, 90, NCCL_DEBUG="WARN")), "cpu.environment").status == "clean"
    bare = profile_of(launches(100, 90))
    unanswered = check_of(bare, "cpu.environment")
    assert unanswered.status == "cannot_answer"
    assert unanswered.needs.startswith("env.json next to the trace")
    recorded = (HostEnvironment("env.json", {"torch": "2.4.0"}),)  # with no variables
    there = check_of(Profile(replace(bare.run, environments=recorded)), "cpu.environment")
    assert (there.status, there.reason) == ("cannot_answer", "the recorded environment holds no environment variables")
    assert "next to the trace" not in there.needs


def test_a_run_without_a_device_has_no_waits_for_one() -> None:
    rank = RankBuilder(device=None)
    rank.operator("aten::add", 0, 10)
    rank.step(0, 0, 10)
    profile = profile_of(rank)
    for name in ("cpu.host_synchronization", "cpu.launch_blocking"):
        assert check_of(profile, name).status == "cannot_answer"


@pytest.mark.parametrize(
    ("name", "status"),
    [("nccl_parser_config", "found"), ("df_index_resolver", "found"), ("trace_diff_test", "clean")],
)
def test_real_runs_are_called_host_bound_where_the_host_is_late(traces: Path, name: str, status: str) -> None:
    profile = real_profile(traces / "hta" / f"{name}.json.gz")
    assert check_of(profile, "cpu.small_operators").status == status


def test_waits_for_the_device_in_a_real_run_are_placed_in_the_program(traces: Path) -> None:
    profile = real_profile(traces / "hta" / "trace_diff_control.json.gz")
    (finding,) = check_of(profile, "cpu.host_synchronization").findings
    assert finding.claim.facts[0].value == pytest.approx(20.0)
    assert finding.claim.names[:2] == ("cudaMemcpyAsync", "aten::to")


def test_a_single_launch_says_nothing_about_the_pace_of_launches() -> None:
    check = check_of(profile_of(launches(interval_us=100, kernel_us=10, count=1)), "cpu.small_operators")
    assert check.status == "cannot_answer"
    assert "two launches" in check.reason
