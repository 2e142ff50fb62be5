"""Samples that were taken before or after the printed steps: said, and without a cost in these steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.judgement.ranking import ranking
from tools.run.source_clocks import sampled_apart
from tools.sources.load import load_run
from tools.views.profile import Profile

HOUR_NS = 3600 * 10**9


def profile_of(folder: Path, day: int, hour: int) -> Profile:
    """Steps from 10:00:00 to 10:00:59 on the 20th; samples of one minute, with device 1 slowed by heat."""
    steps = [f"[2026-11-20 10:00:{step:02d}] step {step + 1} step time: {800 + step % 3} ms" for step in range(60)]
    (folder / "train.log").write_text("\n".join(steps) + "\n")
    lines = ["timestamp, index, utilization.gpu [%], clocks.sm [MHz], clocks_event_reasons.hw_thermal_slowdown"]
    for second in range(60):
        for device, state in enumerate(("1700 MHz, Not Active", "1100 MHz, Active")):
            lines.append(f"2026/11/{day} {hour:02d}:00:{second:02d}.000, {device}, 98 %, {state}")
    (folder / "gpus.csv").write_text("\n".join(lines) + "\n")
    return Profile(load_run([folder]))


@pytest.mark.parametrize(("day", "hour"), [(20, 10), (20, 16), (21, 11)])
def test_within_the_difference_of_time_zones_samples_may_be_of_the_steps(tmp_path: Path, day: int, hour: int) -> None:
    profile = profile_of(tmp_path, day, hour)
    assert sampled_apart(profile.run) == {}
    assert ranking(profile).causes[0].finding.cause == "slow_device"


@pytest.mark.parametrize(("day", "away", "when"), [(22, 48, "after"), (18, -48, "before")])
def test_samples_of_another_day_are_said_and_cost_these_steps_nothing(
    tmp_path: Path, day: int, away: int, when: str
) -> None:
    profile = profile_of(tmp_path, day, 10)
    assert list(sampled_apart(profile.run).values()) == pytest.approx([away * HOUR_NS], rel=0.001)
    assert f"gpus.csv was sampled 48.0 hours {when} the steps of train.log" in " ".join(profile.run.conflicts)
    assert not ranking(profile).causes
    assert ranking(profile).verdict == "inconclusive"
