"""The real samples of the manifest, with what plain Python counts in them."""

from __future__ import annotations

from pathlib import Path

from tests.real_runs import real_profile
from tools.analyzers.registry import check_of
from tools.judgement.ranking import ranking
from tools.metrics.registry import measure


def test_power_at_100_ms_is_read_and_no_more_is_said_than_it_holds(traces: Path) -> None:
    path = traces / "metrics/nvidia_smi_query.csv"
    rows = [line.split(", ") for line in path.read_text().splitlines()[1:]]
    watts = [float(power.removesuffix(" W")) for _, power in rows]
    profile = real_profile(path)
    most = measure(profile, "device_counter_w", counter="device_power_w", device="0", statistic="max")
    assert most.value == max(watts)
    assert profile.run.counters is not None
    assert profile.run.counters.samples["value"].tolist() == watts
    assert abs(measure(profile, "reading_interval_s", device="0").value - 0.1) < 0.005
    for name in ("computation.clocks", "computation.device_use"):
        check = check_of(profile, name)
        assert check is not None
        assert check.status == "cannot_answer"
    assert ranking(profile).verdict == "inconclusive"
