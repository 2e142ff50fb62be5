"""The throughput of an output that states no time of a step: levels, drift, rhythm; times where the batch is known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hermes_agent.report.opening import opening
from tools.analyzers.registry import check_of
from tools.errors import UsageError
from tools.findings import Check
from tools.judgement.ranking import ranking
from tools.metrics.registry import measure
from tools.run.recorded.job_log import JobLog
from tools.sources.job_log.reader import read_job_log
from tools.sources.job_log.recognise import is_job_log
from tools.sources.load import load_run
from tools.views.profile import Profile

STEPS = 400
RNG = np.random.default_rng(7)
NOISE = RNG.uniform(0.99, 1.01, STEPS)
LINES: dict[str, Callable[[int, float], str]] = {
    "samples/s": lambda step, rate: f"step {step} loss 2.5 {rate:.2f} samples/s",
    "imgs/s": lambda step, rate: f"Iter {step}: loss 2.5, imgs/sec: {rate:.2f}",
    "tokens/s": lambda step, rate: f"step: {step} loss: 2.5 tokens/s: {rate:.2f}",
    "utt/s": lambda step, rate: f"step {step}/400 loss 2.5 {rate:.2f} utt/s",
    "images/s": lambda step, rate: f"step={step} loss=2.5 images_per_second={rate:.2f}",
    "tok/s": lambda step, rate: f"step {step} | loss 2.5 | {rate / 1000:.5f}k tok/s",
}
UNITS = {"imgs/s": "imgs/s", "tok/s": "tokens/s"}


def text_of(line: Callable[[int, float], str], rates: np.ndarray, every: int = 1) -> str:
    return "".join(f"{line(every * (at + 1), float(rate))}\n" for at, rate in enumerate(rates))


def profile_of(folder: Path, text: str, name: str = "train.log") -> Profile:
    (folder / name).write_text(text)
    assert is_job_log(folder / name)
    return Profile(load_run([folder / name]))


def check(profile: Profile) -> Check:
    found = check_of(profile, "step_time.throughput")
    assert found is not None
    return found


def log_of(folder: Path, text: str) -> JobLog:
    (folder / "train.log").write_text(text)
    log = read_job_log(folder / "train.log").log
    assert log is not None
    return log


@pytest.mark.parametrize("unit", LINES)
def test_a_fall_is_stated_on_throughput_and_never_in_seconds(tmp_path: Path, unit: str) -> None:
    rates = np.where(np.arange(STEPS) < 200, 1000.0, 700.0) * NOISE
    profile = profile_of(tmp_path, text_of(LINES[unit], rates))
    assert profile.series is None
    assert profile.run.job_log is not None
    assert profile.run.job_log.throughput is not None
    assert profile.run.job_log.throughput.unit == UNITS.get(unit, unit)
    assert measure(profile, "throughput_level", side="before").value == pytest.approx(
        np.median(rates[10:200]), rel=1e-4
    )
    assert measure(profile, "throughput_level", side="after").value == pytest.approx(np.median(rates[200:]), rel=1e-4)
    judged = ranking(profile)
    assert judged.verdict == "inconclusive"
    assert [lead.place.steps for lead in judged.leads] == ["from step 201 on"]
    assert judged.leads[0].impact_ms == 0.0
    said = " ".join(each.template for each in opening(profile, judged))
    assert "falls from {0} to {1} at step 201" in said
    facts = [fact for each in (*opening(profile, judged), judged.leads[0].claim) for fact in each.facts]
    assert {fact.unit for fact in facts} == {"/s", "%"}


def test_the_cost_of_the_lower_level_is_that_of_steps_which_hold_equally_many(tmp_path: Path) -> None:
    rates = np.where(np.arange(STEPS) < 200, 1000.0, 500.0)
    profile = profile_of(tmp_path, text_of(LINES["samples/s"], rates))
    usual = 1.0 / rates[10:]
    expected = 100.0 * (usual.mean() - 1 / 1000.0) / usual.mean()
    assert measure(profile, "throughput_level_cost_pct").value == pytest.approx(expected)


def test_a_rise_leads_to_what_is_slow_at_first(tmp_path: Path) -> None:
    rates = np.where(np.arange(STEPS) < 100, 500.0, 1000.0) * NOISE
    leads = ranking(profile_of(tmp_path, text_of(LINES["samples/s"], rates))).leads
    assert [(lead.place.steps, lead.candidates[0].cause) for lead in leads] == [("until step 101", "slow_data_reading")]


def test_a_steady_fall_is_a_drift_and_no_change_of_level(tmp_path: Path) -> None:
    rates = 1000.0 / np.linspace(1.0, 1.6, STEPS) * NOISE
    profile = profile_of(tmp_path, text_of(LINES["samples/s"], rates))
    drift = measure(profile, "throughput_drift_pct").value
    assert drift == pytest.approx(100.0 * 0.6 * 389 / 399 / 1.3, rel=0.05)
    assert [lead.place.steps for lead in ranking(profile).leads] == ["towards the end"]


def test_falls_at_one_distance_have_their_period_and_cost(tmp_path: Path) -> None:
    rates = np.where(np.arange(1, STEPS + 1) % 50 == 0, 200.0, 1000.0) * NOISE
    profile = profile_of(tmp_path, text_of(LINES["samples/s"], rates))
    assert measure(profile, "throughput_stall_period").value == 50.0
    usual = 1.0 / rates[10:]
    expected = 100.0 * (usual.mean() - np.median(usual)) / usual.mean()
    assert measure(profile, "throughput_stall_cost_pct").value == pytest.approx(expected, rel=0.05)
    assert check(profile).status == "found"


def test_of_one_step_in_ten_no_single_steps_are_judged(tmp_path: Path) -> None:
    rates = np.where(np.arange(1, STEPS + 1) % 50 == 0, 200.0, 1000.0) * NOISE
    profile = profile_of(tmp_path, text_of(LINES["samples/s"], rates, every=10))
    assert check(profile).status == "clean"
    with pytest.raises(UsageError, match="not each step is printed"):
        measure(profile, "throughput_stall_period")


def test_steady_throughput_is_clean_and_leads_nowhere(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, text_of(LINES["samples/s"], 1000.0 * NOISE))
    assert check(profile).status == "clean"
    assert ranking(profile).leads == ()
    assert measure(profile, "stated_throughput").value == pytest.approx(np.median(1000.0 * NOISE[10:]), rel=1e-4)


@pytest.mark.parametrize(
    "head",
    [
        "step,loss,images_per_sec,global_batch_size",
        "global_step,loss,train/samples_per_second,effective_batch_size",
    ],
)
def test_where_a_record_states_the_batch_as_well_steps_have_seconds_and_the_derivation(
    tmp_path: Path, head: str
) -> None:
    text = head + "\n" + "".join(f"{step},2.5,512.0,256\n" for step in range(1, 41))
    log = log_of(tmp_path, text)
    assert log.throughput is None
    assert log.steps["wall_ms"].to_numpy() == pytest.approx(np.full(40, 500.0))
    notes = read_job_log(tmp_path / "train.log").notes
    assert any("what the lines state that a step holds over what they state per second" in each for each in notes)


def test_tokens_per_step_and_a_batch_in_the_text_give_seconds_too(tmp_path: Path) -> None:
    records = "".join(
        json.dumps({"step": step, "tokens_per_sec": 40_000, "tokens_per_step": 20_000}) + "\n" for step in range(1, 9)
    )
    assert log_of(tmp_path, records).steps["wall_ms"].tolist() == [500.0] * 8
    text = "".join(f"step {step} loss 2.5 global batch size: 256 throughput 512 samples/s\n" for step in range(1, 9))
    assert log_of(tmp_path, text).steps["wall_ms"].tolist() == [500.0] * 8


@pytest.mark.parametrize(
    "line",
    [
        "step {} loss 2.5 batch size: 256 throughput 512 samples/s",
        "step {} loss 2.5 global batch size: 256 throughput 512 samples/s/GPU",
        '{{"step": {}, "device/samples_per_sec": 512, "global_batch_size": 256}}',
        '{{"step": {}, "tokens_per_sec": 512, "global_batch_size": 256}}',
    ],
    ids=["batch of whom", "of one device", "of one device by its name", "tokens and samples"],
)
def test_a_batch_that_need_not_be_that_of_the_throughput_gives_no_seconds(tmp_path: Path, line: str) -> None:
    log = log_of(tmp_path, "".join(line.format(step) + "\n" for step in range(1, 9)))
    assert log.steps.empty
    assert log.throughput is not None
    assert log.throughput.table["per_s"].tolist() == [512.0] * 8


def test_a_stated_time_comes_before_what_a_throughput_would_give(tmp_path: Path) -> None:
    line = "step {} loss 2.5 step time: 0.4s global batch size: 256 throughput 512 samples/s\n"
    log = log_of(tmp_path, "".join(line.format(step) for step in range(1, 9)))
    assert log.steps["wall_ms"].tolist() == [400.0] * 8
    assert not any("what the lines state" in each for each in read_job_log(tmp_path / "train.log").notes)


def test_stamps_come_before_a_throughput_without_a_batch(tmp_path: Path) -> None:
    text = "".join(f"2026-11-23 11:02:{step:02d}.500 step {step} 512 samples/s\n" for step in range(1, 41))
    log = log_of(tmp_path, text.replace(".500", ".5000"))
    assert log.step_time == "stamps"
    assert log.throughput is None


def test_starts_that_are_left_out_are_told(tmp_path: Path) -> None:
    text = text_of(LINES["samples/s"], 1000.0 * NOISE[:60]) + text_of(LINES["samples/s"], 400.0 * NOISE[:40])
    profile = profile_of(tmp_path, text)
    assert measure(profile, "stated_throughput").value == pytest.approx(1000.0, rel=0.02)
    assert (
        "The step number falls at 1 place or more: this is of the longest start" in check(profile).support[0].template
    )
    whole = profile_of(tmp_path, text_of(LINES["samples/s"], 1000.0 * NOISE[:60]))
    assert "falls" not in check(whole).support[0].template
