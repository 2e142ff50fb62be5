"""The step with changes of the grammar, for runs whose answer can be worked out by hand."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from tests.recorded_runs import recorded_profile, records_of, step_rows
from tests.synthetic import H100, RankBuilder, profile_of
from tools.errors import UsageError
from tools.judgement.catalog import measure
from tools.judgement.step_base import StepBase, step_base
from tools.judgement.what_if import TOGETHER, WhatIf, answered, split_changes
from tools.sources.load import load_run
from tools.views.profile import Profile
from tools.whatif.asked_changes import NEVER

RECORDED = Path(__file__).parents[3] / "evals/lab/recorded"


def synchronising() -> Profile:
    """300 us of kernel, a read that waits, 200 us of host work, 300 us of kernel and a wait: 830 of 1000 us."""
    rank = RankBuilder()
    for step in range(4):
        at = step * 1000.0
        rank.kernel("first", start_us=at + 10, duration_us=300, call_us=at)
        rank.runtime("cudaStreamSynchronize", at + 6, 306)
        rank.kernel("second", start_us=at + 522, duration_us=300, call_us=at + 512)
        rank.runtime("cudaDeviceSynchronize", at + 516, 310)
        rank.step(step, at, at + 1000)
    return profile_of(rank)


@cache
def recorded(name: str) -> Profile:
    return Profile(load_run([RECORDED / name / "slow"]))


def saved_us(profile: Profile, changes: str) -> float:
    """What the changes save per step."""
    found = answered(profile, changes)
    assert found.prediction is not None
    return 1e3 * (found.step_ms - found.prediction.step_ms_after)


def refusal(found: WhatIf) -> str:
    """Why there is no prediction."""
    assert found.prediction is None
    return " ".join(f"{each.why}; {each.needs}" for each in found.refused)


def test_kernels_of_a_name_run_as_many_times_as_fast_as_asked() -> None:
    assert saved_us(synchronising(), 'kernels "FIRST" 2x') == pytest.approx(150, abs=1)
    assert saved_us(synchronising(), 'kernels "first" 2x; kernels "second" 3x') == pytest.approx(350, abs=1)


def test_what_is_asked_for_exactly_is_not_hoped_to_be_better() -> None:
    found = answered(synchronising(), 'kernels "first" 2x').prediction
    assert found is not None
    assert found.step_ms_before - found.low_ms < 1.3 * found.saving_ms


def test_a_host_that_waits_in_no_call_works_on() -> None:
    # The host's own 384 us of a step then lie under the device's 600 us, which are left of 1,000.
    assert saved_us(synchronising(), "without synchronisation") == pytest.approx(400, abs=4)


def test_a_change_that_touches_nothing_saves_nothing_and_says_so() -> None:
    ranks = [RankBuilder(number) for number in (0, 1)]
    for rank in ranks:
        for step in range(3):
            rank.kernel("gemm", start_us=step * 100 + 10, duration_us=50, call_us=step * 100)
            rank.step(step, step * 100, step * 100 + 100)
    found = answered(profile_of(*ranks), "rank 1 as fast as the others")
    assert found.prediction is not None
    assert found.prediction.step_ms_after == found.step_ms
    assert "nothing is saved" in found.notes[0]


@pytest.mark.parametrize("kind", NEVER)
def test_another_workload_is_refused_with_what_to_record(kind: str) -> None:
    assert "a few steps with the new setting" in refusal(answered(synchronising(), f"{kind}=4"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("num_workers=4", "no data-loader span is recorded"),
        ("no waits for data", "no data-loader span is recorded"),
        ("bucket_cap_mb=50", "no all-reduce of known size was recorded"),
        ("micro_batches=8", "the traces of all stages"),
        ("equal stages", "the traces of all stages"),
        ("rank 0 as fast as the others", "only one rank is traced"),
        ("link 2x", "no collective is recorded"),
        ('kernels "nothing like it" 2x', "no kernel in the steps has 'nothing like it' in its name"),
        ("bf16", "has no matrix units for bf16"),
        ("without slow_device", "slow_device was not found in this run"),
        ("without nonsense_cause", "knows no such cause"),
    ],
)
def test_a_change_that_the_run_cannot_answer_names_what_is_missing(change: str, reason: str) -> None:
    assert reason in refusal(answered(synchronising(), change))


def test_one_refused_change_leaves_no_prediction_for_the_others() -> None:
    found = answered(synchronising(), 'kernels "first" 2x; batch_size=8')
    assert found.prediction is None
    assert [each.change for each in found.rests_on] == ['kernels "first" 2x']


def test_matrix_kernels_in_bf16_follow_the_peaks_of_the_device() -> None:
    rank = RankBuilder(device=H100)
    for step in range(4):
        at = step * 1000.0
        rank.kernel("ampere_sgemm_128x64_tn", start_us=at + 10, duration_us=600, call_us=at)
        rank.kernel("elementwise_kernel", start_us=at + 620, duration_us=100, call_us=at + 5)
        rank.runtime("cudaDeviceSynchronize", at + 10, 715)
        rank.step(step, at, at + 1000)
    # 67 TFLOP/s at 70 % by ordinary units, 989 at 40 % by matrix units: 600 us become 71.
    assert saved_us(profile_of(rank), "bf16") == pytest.approx(600 * (1 - 67 * 70 / (989 * 40)), rel=0.02)


@pytest.mark.parametrize(
    ("pair", "change"),
    [
        ("tiny_buckets/tokens-mild", "bucket_cap_mb=25"),
        ("heavy_stage/stages-strong", "equal stages"),
        ("too_few_workers/tokens-mild", "num_workers=1"),
    ],
)
def test_the_measured_speedup_of_a_recorded_pair_lies_in_the_range(pair: str, change: str) -> None:
    found = answered(recorded(pair), change).prediction
    assert found is not None
    measured = json.loads((RECORDED / pair / "measured.json").read_text())["speedup"]["median"]
    assert found.speedup_low < measured < found.speedup_high


def test_a_plan_and_a_replay_together_save_between_the_larger_and_both() -> None:
    profile = recorded("tiny_buckets/tokens-mild")
    each = [answered(profile, change).prediction for change in ("bucket_cap_mb=25", 'kernels "addmm" 2x')]
    both = answered(profile, 'bucket_cap_mb=25; kernels "addmm" 2x')
    first, second = (1 - part.step_ms_after / part.step_ms_before for part in each if part is not None)
    assert both.prediction is not None
    saved = 1 - both.prediction.step_ms_after / both.step_ms
    assert max(first, second) < saved == pytest.approx(first + second - first * second)
    assert TOGETHER in both.notes


def test_the_metric_gives_the_ends_of_the_range() -> None:
    profile, changes = synchronising(), 'kernels "first" 2x'
    found = answered(profile, changes).prediction
    assert found is not None
    ends = [measure(profile, "changed_step_ms", changes=changes, bound=bound).value for bound in ("low", "high")]
    assert ends == [found.low_ms, found.high_ms]
    assert measure(profile, "changed_speedup", changes=changes).value == found.speedup
    with pytest.raises(UsageError, match="batch size"):
        measure(profile, "changed_step_ms", changes="batch_size=2")


def test_semicolons_part_changes_and_not_names() -> None:
    assert split_changes('kernels "a;b" 2x; bf16 ;') == ('kernels "a;b" 2x', "bf16")


def test_the_step_now_names_the_steps_that_it_is_the_mean_of() -> None:
    """Profiled: 1 ms, 4 of one rank; unprofiled: by hand 36 of 40 steps of 50 and 60 ms by turns on rank 1."""
    assert step_base(synchronising(), None) == StepBase(1.0, 4, "step_time_ms", "mean of 4 profiled steps")
    slow = [60.0 if step % 2 else 50.0 for step in range(40)]
    both = recorded_profile(records_of([step_rows(0, [50.0] * 40), step_rows(1, slow)]))
    assert both.series is not None
    unprofiled = step_base(both, both.series.mean_ms)
    assert (unprofiled.step_ms, unprofiled.said) == (55.0, "mean of 36 steps of rank 1 without a profiler")
    profiled = step_base(both, both.mean_step_ms)
    assert profiled.step_ms == pytest.approx(measure(both, profiled.metric, statistic="mean").value)
    assert profiled.said == "mean of 3 profiled steps, by the slowest rank of each"
