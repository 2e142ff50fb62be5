"""When a run is a problem, healthy or inconclusive, and what is asked for next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.collective_runs import late_run
from tests.recorded_runs import loading_rank, recorded_profile, records_of, step_rows
from tests.synthetic import RankBuilder, profile_of, run_of, to_ns
from tests.tools.judgement.answers import clean, found
from tests.tools.sources.kineto_text import JsonEvent, span, write_trace
from tools.findings import Check, Finding, Saving, Sentence
from tools.judgement.ranking import rank_causes, ranking
from tools.judgement.unseen import CAPTURED, COUNTED, DEVICE_ALONE, NO_STEPS_SEEN, device_work_missing
from tools.judgement.verdict import (
    MARKED_STEPS,
    MORE_STEPS,
    STEADY,
    unexplained_parts,
)
from tools.run.model import CutTrace, Run
from tools.sources.load import load_run
from tools.views.profile import Profile
from tools.whatif.change import Scale


def computing(share: float, length_us: float = 1000.0, lengths: tuple[float, ...] = ()) -> RankBuilder:
    """Steps in which launched kernels run for that share; the rest is waiting of work that was launched."""
    rank = RankBuilder()
    at = 0.0
    for step, length in enumerate(lengths or (length_us,) * 4):
        rank.kernel("first", at + 10, length * share / 2, call_us=at + 1)
        rank.kernel("second", at + length * (1 - share / 2) - 10, length * share / 2, call_us=at + 4)
        rank.runtime("cudaDeviceSynchronize", at + 7, length - 12)
        rank.step(step, at, at + length)
        at += length
    return rank


def host_work(start_us: float, end_us: float, confidence: float = 0.9) -> Finding:
    """A finding whose removal takes this host time away."""
    spans = np.array([[to_ns(start_us), to_ns(end_us)]], dtype=np.int64)
    return Finding("garbage_collection", Sentence("made up"), confidence, change=(Scale(0, 0, spans),))


def unmarked(rank: RankBuilder) -> Profile:
    """The same run, its one step being the whole recording."""
    run: Run = run_of(rank)
    return Profile(replace(run, ranks=tuple(replace(each, step_origin="window") for each in run.ranks)))


def test_a_step_that_computes_and_leaves_little_open_is_healthy() -> None:
    result = rank_causes(profile_of(computing(0.9)), [clean("io.data_loader")])
    assert (result.verdict, result.unexplained, result.needs) == ("healthy", (), "")


def device_alone() -> RankBuilder:
    """Steps that kernels fill, without anything of the host."""
    rank = RankBuilder()
    for step in range(4):
        rank.kernel("gemm", 1000.0 * step, 990)
        rank.step(step, 1000.0 * step, 1000.0 * (step + 1))
    return rank


def test_a_device_that_was_recorded_alone_is_not_called_healthy() -> None:
    called = device_alone()
    called.runtime("GE@Infer", 0, 4000)
    for profile in (profile_of(device_alone()), unmarked(device_alone()), profile_of(called)):
        result = rank_causes(profile, [clean("io.data_loader")])
        assert (result.verdict, result.why) == ("inconclusive", DEVICE_ALONE)
        assert "the host's operators and calls" in result.needs
        (lead,) = result.leads
        assert "Not observed: shapes and types of the operators and the host" in lead.claim.template
        assert lead.decide_by == result.needs


def test_a_recording_without_steps_is_healthy_only_where_it_holds_a_training_step() -> None:
    rank = computing(0.9)
    assert rank_causes(unmarked(rank), [clean("io.data_loader")]).why == NO_STEPS_SEEN
    rank = computing(0.9)
    rank.annotation("Optimizer.step#Adam.step", 900, 20)
    assert rank_causes(unmarked(rank), [clean("io.data_loader")]).verdict == "healthy"


def test_nothing_is_called_healthy_next_to_a_cut_trace() -> None:
    cut = CutTrace(Path("rank1.json"), 1, "its events have no end", 1, 1)
    run = replace(run_of(computing(0.9)), cut=(cut,))
    result = rank_causes(Profile(run), [clean("io.data_loader")])
    assert result.verdict == "inconclusive"
    assert "cut" in result.why
    assert "copy the files again" in result.needs


@pytest.mark.parametrize(("work_us", "missing"), [(1000.0, False), (100.0, True)])
def test_launches_still_queued_when_the_recording_ends_are_not_missing_work(work_us: float, missing: bool) -> None:
    """Ten launches ran, thirty more were made; the device works until after the last of them, or stopped before."""
    rank = RankBuilder()
    for at in range(10):
        rank.kernel("gemm", start_us=20 + at * work_us / 10, duration_us=work_us / 10, call_us=2 * at)
    for at in range(30):
        rank.runtime("cudaLaunchKernel", start_us=100 + 10 * at, duration_us=2)
    rank.step(0, 0, 1020)
    assert bool(device_work_missing(profile_of(rank))) == missing


def test_launches_that_are_captured_into_a_graph_are_no_missing_kernels() -> None:
    rank = RankBuilder()
    rank.runtime("hipStreamBeginCapture", start_us=5, duration_us=2)
    for at in range(30):
        rank.runtime("hipLaunchKernel", start_us=10 + 10 * at, duration_us=2)
    rank.runtime("hipStreamEndCapture", start_us=400, duration_us=2)
    rank.kernel("gemm", start_us=450, duration_us=20, call_us=440)
    rank.step(0, 0, 500)
    profile = profile_of(rank)
    assert device_work_missing(profile) == CAPTURED
    result = rank_causes(profile, [found("cpu.pauses", host_work(10, 400))])
    assert (result.causes, result.verdict) == ((), "inconclusive")  # nothing runs in such a step
    assert [lead.impact_ms for lead in result.leads] == [0.0]


def test_counter_ranges_are_no_kernels_and_what_the_host_waits_for_them_is_no_lead(tmp_path: Path) -> None:
    events: list[JsonEvent] = [span("aten::conv2d", 1000, 30_000)]
    for at in range(30):
        events.append(span("cudaLaunchKernel", 1000 + 900 * at, 890, "cuda_runtime", args={"correlation": at + 1}))
        ranged = {"smsp__inst_executed.sum": 1.0}
        events.append(span("gemm", 2000 + 900 * at, 900, "cuda_profiler_range", pid=0, tid=0, args=ranged))
    labels = [{"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "args": {"labels": "GPU 0"}}]
    device = {"deviceProperties": [{"id": 0, "name": "NVIDIA A100"}]}
    profile = Profile(load_run([write_trace(tmp_path / "t.json", [*events, *labels], **device)]))
    assert not len(profile.rank(0).kernels)
    result = ranking(profile)
    assert (result.why, result.unexplained) == (COUNTED, ())
    assert "profiler_metrics" in result.needs
    assert [lead.place.part for lead in result.leads] == ["step"]


def test_a_large_part_that_nothing_explains_rules_out_healthy_and_says_what_to_record() -> None:
    result = rank_causes(profile_of(computing(0.8)), [clean("io.data_loader")])
    assert result.verdict == "inconclusive"
    assert result.unexplained == ("idle",)
    assert result.needs == result.leads[0].decide_by == "stream synchronisation events (enable_cuda_sync_events=True)"


def test_a_part_stays_open_next_to_a_problem_of_another_kind() -> None:
    kernels = np.array([[to_ns(step * 1000 + 10), to_ns(step * 1000 + 260)] for step in range(4)], dtype=np.int64)
    slow = Finding("underutilization", Sentence("made up"), 0.9, change=(Scale(0, 1, kernels),))
    result = rank_causes(profile_of(computing(0.5)), [found("computation.made_up", slow)])
    assert result.causes[0].impact_pct == pytest.approx(25, abs=0.5)
    assert (result.verdict, result.unexplained) == ("problem", ("idle",))


def test_steps_of_very_different_length_settle_nothing() -> None:
    rank = RankBuilder()
    for step, (at, length) in enumerate(((0.0, 100.0), (100.0, 9900.0))):
        rank.operator("work", at, length / 2)
        rank.step(step, at, at + length)
    result = rank_causes(profile_of(rank), [found("cpu.made_up", host_work(0, 4000))])
    assert result.causes[0].impact_pct == pytest.approx(39.5, abs=1.0)
    assert result.causes[0].alone is not None
    assert result.causes[0].alone.withheld
    assert (result.verdict, result.needs) == ("inconclusive", MORE_STEPS)


def recording() -> RankBuilder:
    """5 ms of start-up, then ten kernels of 0.2 ms, one every 0.5 ms, each waited for."""
    rank = RankBuilder()
    rank.operator("start", 0, 5000)
    for number in range(10):
        at = 5000.0 + number * 500
        rank.operator("work", at, 290)
        rank.kernel("gemm", at + 296, 200, call_us=at + 291)
        rank.runtime("cudaDeviceSynchronize", at + 294, 204)
    rank.step(0, 0, 10_000, marked=False)
    return rank


def test_no_cause_makes_a_problem_of_an_unmarked_recording() -> None:
    """Neither one of its start-up nor one that lasts, which may be all start-up as well."""
    start = host_work(100, 4900)
    spans = np.array([[to_ns(5000 + n * 500), to_ns(5200 + n * 500)] for n in range(10)], dtype=np.int64)
    lasting = Finding("garbage_collection", Sentence("made up"), 0.9, change=(Scale(0, 0, spans),))
    for finding, share in ((start, 48), (lasting, 20)):
        checks: list[Check] = [found("cpu.made_up", finding)]
        assert rank_causes(profile_of(recording()), checks).verdict == "problem"
        result = rank_causes(unmarked(recording()), checks)
        assert result.causes[0].impact_pct == pytest.approx(share, abs=0.5)
        assert result.causes[0].finding.confidence == pytest.approx(0.49 * finding.confidence, abs=0.001)
        assert (result.verdict, result.needs) == ("inconclusive", MARKED_STEPS)
        assert "no steps are marked" in result.why


def empty() -> RankBuilder:
    """One step in which nothing is recorded."""
    rank = RankBuilder()
    rank.step(0, 0, 1000)
    return rank


def test_an_inconclusive_verdict_always_names_the_next_measurement() -> None:
    for profile in (profile_of(computing(0.2)), unmarked(recording()), profile_of(empty())):
        result = rank_causes(profile, [])
        assert (result.verdict, bool(result.needs)) == ("inconclusive", True)


@pytest.mark.parametrize("how", ["data", "host", "compute"])
def test_what_makes_one_of_four_ranks_late_costs_all_of_them_its_lateness(how: str) -> None:
    result = ranking(late_run(lambda rank, _: 3000.0 if rank == 2 else 0.0, how=how))
    of_the_late = [each.impact_ms for each in result.causes if each.finding.ranks == (2,)]
    assert sum(of_the_late) == pytest.approx(3.0, abs=0.1)
    assert result.causes[0].finding.ranks == (2,)
    assert result.verdict == "problem"


def test_a_hypothesis_that_promises_little_does_not_rule_out_healthy_but_one_that_promises_much_does() -> None:
    profile = profile_of(computing(0.9))

    def verdict(impact_ms: float) -> str:
        thin = Finding("garbage_collection", Sentence("made up"), 0.4, impact_ms=impact_ms, impact_method="made up")
        return rank_causes(profile, [clean("io.data_loader"), found("cpu.made_up", thin)]).verdict

    step_ms = profile.mean_step_ms
    assert verdict(0.10 * step_ms) == "healthy"  # 40 % sure of 10 %: 4 % to be expected
    assert verdict(0.14 * step_ms) == "inconclusive"  # 5.6 %


def test_a_loss_that_records_measured_rules_out_healthy_however_thin_its_cause() -> None:
    profile = profile_of(computing(0.9))
    step_ms = profile.mean_step_ms
    measured = Saving(step_ms, 0.09 * step_ms, 0.05 * step_ms, 0.1 * step_ms, "made up")
    thin = Finding("checkpoint_stall", Sentence("made up"), 0.45, saving=measured)
    assert rank_causes(profile, [clean("io.data_loader"), found("storage.made_up", thin)]).verdict == "inconclusive"


def test_a_cause_that_is_neither_sure_nor_large_is_no_problem_yet() -> None:
    profile = profile_of(computing(0.9))

    def verdict(share: float) -> str:
        step_ms = profile.mean_step_ms
        half = Finding(
            "garbage_collection", Sentence("made up"), 0.6, impact_ms=share * step_ms, impact_method="made up"
        )
        return rank_causes(profile, [clean("io.data_loader"), found("cpu.made_up", half)]).verdict

    assert (verdict(0.06), verdict(0.09)) == ("inconclusive", "problem")


def test_long_steps_that_nobody_explains_rule_out_healthy() -> None:
    lengths = (1000.0, 1000.0, 1000.0, 1000.0, 1800.0)
    result = rank_causes(profile_of(computing(0.9, lengths=lengths)), [clean("io.data_loader")])
    assert (result.verdict, result.needs) == ("inconclusive", STEADY)
    even = rank_causes(profile_of(computing(0.9, lengths=(1000.0, 1000.0, 1100.0))), [clean("io.data_loader")])
    assert even.verdict == "healthy"


def waiting_for_data(data_wait_ms: float) -> Profile:
    """Traced steps that wait for data for a fifth, in a run whose other steps wait for so long."""
    steps = step_rows(0, [100.0] * 40, data_wait_ms=data_wait_ms, thread_cpu_ms=95.0)

    def build(rank: int) -> RankBuilder:
        return loading_rank(rank, 120_000, 24_000, "_MultiProcessingDataLoaderIter")

    return recorded_profile(records_of([steps]), build)


def test_waiting_for_data_in_the_traced_steps_alone_is_no_open_part_of_the_run() -> None:
    assert unexplained_parts(waiting_for_data(19.0), ()) == ("data_wait",)
    assert unexplained_parts(waiting_for_data(2.0), ()) == ()
    assert unexplained_parts(waiting_for_data(0.0), ()) == ("data_wait",)


def test_waiting_for_a_late_rank_is_told_where_the_causes_above_take_what_the_finding_would_save() -> None:
    profile = late_run(lambda rank, _: 3000.0 if rank == 2 else 0.0, how="host")
    straggler = ranking(profile).causes[0]
    assert straggler.alone is not None
    assert straggler.alone.saving_ms / straggler.alone.step_ms_before == pytest.approx(0.39, abs=0.01)
    left = replace(straggler, impact_ms=0.02, impact_pct=0.3, then_ms=0.02)
    assert unexplained_parts(profile, ()) == ("exposed_communication",)
    assert unexplained_parts(profile, (left,)) == ()
    assert unexplained_parts(profile, (replace(left, alone=None),)) == ("exposed_communication",)
