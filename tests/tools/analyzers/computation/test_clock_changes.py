"""A change of level of the steps next to samples in which a device's clock falls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tools.analyzers.computation.sampled_clocks import OTHER_TIME
from tools.analyzers.registry import check_of
from tools.findings import Finding
from tools.judgement.ranking import Ranking, ranking
from tools.metrics.registry import measure
from tools.sources.load import load_run
from tools.views.profile import Profile

BEGIN = datetime(2026, 11, 23, 10, 0, 0)
HEAD = (
    "timestamp, index, utilization.gpu [%], power.draw [W], power.limit [W], temperature.gpu, clocks.current.sm [MHz],"
    " clocks.max.sm [MHz], clocks_throttle_reasons.active"
)
STEPS, FROM = 120, 60
USUAL, HOT = "97 %, 480 W, 700 W, 60, 1980 MHz, 1980 MHz, 0x0", "97 %, 350 W, 700 W, 92, 1200 MHz, 1980 MHz, 0x20"
LIMITED = "97 %, 300 W, 400 W, 55, 1300 MHz, 1980 MHz, 0x0"


def walls_of(longer_ms: float = 1400.0, since: int = FROM) -> list[float]:
    return [(longer_ms if step >= since else 1000.0) + step % 5 for step in range(STEPS)]


def log_of(walls: Sequence[float], stamped: bool = True) -> str:
    lines, at = [], BEGIN
    for step, wall in enumerate(walls):
        at += timedelta(milliseconds=wall)
        stamp = f"[{at:%Y-%m-%d %H:%M:%S}.{at.microsecond:06d}] " if stamped else ""
        lines.append(f"{stamp}step {step} step time: {wall:.1f} ms")
    return "\n".join(lines) + "\n"


def samples_of(slow: str, since_s: float, hours: int = 0, seconds: int = 160) -> str:
    """Two devices, read each second; device 1 is ``slow`` from then on."""
    lines = [HEAD]
    for second in range(seconds):
        moment = BEGIN + timedelta(hours=hours, seconds=second)
        for device, state in enumerate((USUAL, slow if second >= since_s else USUAL)):
            lines.append(f"{moment:%Y/%m/%d %H:%M:%S}.000, {device}, {state}")
    return "\n".join(lines) + "\n"


def profile_of(path: Path, log: str, samples: str) -> Profile:
    (path / "train.log").write_text(log)
    (path / "gpus.csv").write_text(samples)
    return Profile(load_run([path]))


def finding_of(profile: Profile) -> Finding:
    check = check_of(profile, "computation.clocks")
    assert check is not None
    (finding,) = check.findings
    return finding


@pytest.mark.parametrize("hours", [0, 8])
@pytest.mark.parametrize(("slow", "mechanism"), [(HOT, "thermal"), (LIMITED, "power_cap")])
def test_steps_that_get_longer_with_a_fall_of_the_clock_are_explained_by_it(
    tmp_path: Path, slow: str, mechanism: str, hours: int
) -> None:
    """60 of 120 steps take 400 ms longer, of which the first ones are left out as start-up."""
    profile = profile_of(tmp_path, log_of(walls_of()), samples_of(slow, 60.2, hours))
    result = ranking(profile)
    assert result.verdict == "problem"
    (cause,) = result.causes
    assert (cause.finding.cause, cause.finding.mechanism) == ("slow_device", mechanism)
    assert cause.impact_ms == pytest.approx(measure(profile, "series_level_cost_ms").value)
    assert [fact.value for fact in cause.finding.claim.facts[2:4]] == pytest.approx([1402.0, 1002.0], abs=1.0)
    assert "assumed" in cause.finding.claim.template
    assert not result.leads


def test_a_clock_that_falls_at_another_time_than_the_steps_change_does_not_explain_them(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, log_of(walls_of()), samples_of(HOT, 30.0))
    assert (finding_of(profile).saving, finding_of(profile).impact_method) == (None, OTHER_TIME)
    result = ranking(profile)
    assert (result.verdict, result.leads[0].candidates[0].mechanism) == ("inconclusive", None)


def on_and_off(longer_ms: float, block: int = 15) -> tuple[str, str]:
    """Blocks of steps of which every second one is longer, and the samples of a clock that is lowered in these."""
    walls = [(longer_ms if step // block % 2 else 1000.0) + step % 5 for step in range(STEPS)]
    lines, ends = [HEAD], [sum(walls[: at + 1]) / 1000.0 for at in range(STEPS)]
    for second in range(int(ends[-1]) + 1):
        step = next((at for at, end in enumerate(ends) if second <= end), STEPS - 1)
        moment = BEGIN + timedelta(seconds=second)
        for device, state in enumerate((USUAL, HOT if step // block % 2 else USUAL)):
            lines.append(f"{moment:%Y/%m/%d %H:%M:%S}.000, {device}, {state}")
    return log_of(walls), "\n".join(lines) + "\n"


def test_a_clock_that_is_lowered_again_and_again_explains_the_steps_that_are_longer_while_it_is(
    tmp_path: Path,
) -> None:
    """Every second block of 15 steps takes 400 ms longer."""
    profile = profile_of(tmp_path, *on_and_off(1400.0))
    finding = finding_of(profile)
    assert (finding.cause, finding.mechanism) == ("slow_device", "thermal")
    assert "again and again" in finding.claim.template
    assert [fact.value for fact in finding.claim.facts] == pytest.approx([1200.0, 1980.0, 1402.0, 1002.0], abs=2.0)
    assert finding.saving is not None
    assert finding.saving.saved_ms == pytest.approx(200.0, rel=0.1)
    result = ranking(profile)
    assert result.verdict == "problem"
    assert [each.finding.cause for each in result.causes] == ["slow_device"]


def test_steps_that_are_as_long_each_time_the_clock_is_lowered_are_not_explained_by_it(tmp_path: Path) -> None:
    finding = finding_of(profile_of(tmp_path, *on_and_off(1000.0)))
    assert finding.saving is None
    assert finding.saves_nothing


def test_steps_that_do_not_follow_a_lowered_clock_lose_nothing_to_it(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, log_of(walls_of(1000.0)), samples_of(HOT, 60.0))
    finding = finding_of(profile)
    assert finding.saves_nothing
    assert "otherwise" in finding.claim.template
    assert ranking(profile).verdict == "inconclusive"


def first_lead(result: Ranking) -> tuple[str, str | None, str]:
    lead = result.leads[0]
    return lead.candidates[0].cause, lead.candidates[0].mechanism, lead.claim.template


def test_without_times_the_lowered_clock_is_the_first_candidate_of_the_longer_steps(tmp_path: Path) -> None:
    result = ranking(profile_of(tmp_path, log_of(walls_of(), stamped=False), samples_of(HOT, 60.0)))
    cause, mechanism, claim = first_lead(result)
    assert (cause, mechanism) == ("slow_device", "thermal")
    assert "nothing aligns its readings" in claim
    assert result.verdict == "inconclusive"


def test_samples_of_clocks_that_the_folder_holds_are_not_asked_for(tmp_path: Path) -> None:
    result = ranking(profile_of(tmp_path, log_of(walls_of(), stamped=False), samples_of(HOT, 60.0)))
    assert "nvidia-smi" not in result.needs
    assert all("nvidia-smi" not in each.decide_by for each in result.leads)


def test_a_clock_that_is_lowered_in_a_part_of_the_readings_costs_that_part(tmp_path: Path) -> None:
    """Half of the readings at 1,200 instead of 1,980 MHz: 19.7 % of the time in which kernels ran, by half."""
    profile = profile_of(tmp_path, log_of([1000.0 + step % 5 for step in range(STEPS)], False), samples_of(HOT, 80.0))
    saving = finding_of(profile).saving
    assert saving is not None
    assert saving.most_ms == pytest.approx(0.97 * (1.0 - 1200.0 / 1980.0) * 0.5 * 1002.0, rel=0.01)
