"""GPU metrics of an export become sampled counters of its devices; none of them means unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.nsys.export import UNIX_NS, US, Export, training
from tools.analyzers.registry import all_checks
from tools.errors import UsageError
from tools.metrics.registry import measure
from tools.run.model import Run
from tools.sources.load import load_run
from tools.sources.nsys import gpu_metrics
from tools.sources.options import LoadOptions
from tools.views.profile import Profile

SM, TENSOR = "SMs Active [Throughput %]", "Tensor Active [Throughput %]"
READ, WRITE = "DRAM Read Bandwidth [Throughput %]", "DRAM Write Bandwidth [Throughput %]"


def sampled() -> Export:
    """Two devices for 4 ms, a sample each 0.1 ms: device 0 uses 60 % of its multiprocessors, device 1 20, then 40."""
    export = training()
    export.sampled(0, SM, 1, [60] * 40)
    export.sampled(1, SM, 1, [20] * 20 + [40] * 20)
    export.sampled(0, READ, 2, [30] * 40)
    export.sampled(0, WRITE, 3, [25] * 40)
    export.sampled(0, "PCIe RX Throughput [Throughput %]", 4, [7] * 40)
    export.sampled(0, "Compute Warps in Flight [Avg]", 5, [900] * 40)
    return export


def loaded(path: Path) -> Run:
    return load_run([path], LoadOptions(workers=1))


def of(profile: Profile, counter: str, device: str, statistic: str = "mean") -> float:
    return measure(profile, "device_counter_pct", counter=counter, device=device, statistic=statistic).value


def test_each_device_has_the_mean_of_its_samples(tmp_path: Path) -> None:
    profile = Profile(loaded(sampled().write(tmp_path / "a.sqlite")))
    assert of(profile, "device_sm_active_pct", "0") == 60
    assert of(profile, "device_sm_active_pct", "1") == 30
    assert of(profile, "device_sm_active_pct", "1", "max") == 40
    assert of(profile, "pcie_received_pct", "0") == 7


def test_reads_and_writes_of_memory_share_its_bandwidth(tmp_path: Path) -> None:
    profile = Profile(loaded(sampled().write(tmp_path / "a.sqlite")))
    assert of(profile, "device_dram_active_pct", "0") == 55


def test_samples_carry_the_time_of_day_and_the_model(tmp_path: Path) -> None:
    run = loaded(sampled().write(tmp_path / "a.sqlite"))
    assert run.counters is not None
    (source,) = run.counters.sources
    assert (source.tool, source.format, source.clock) == ("nsys", "nsys", "unix")
    assert source.devices == ((0, "NVIDIA H100 80GB HBM3"), (1, "NVIDIA H100 80GB HBM3"))
    times = run.counters.samples["time_unix_ns"]
    assert times.min() == pytest.approx(UNIX_NS, abs=1000)
    assert times.max() - times.min() == pytest.approx(39 * 100 * US, abs=1000)


def test_metrics_in_other_units_are_left_out(tmp_path: Path) -> None:
    run = loaded(sampled().write(tmp_path / "a.sqlite"))
    assert run.counters is not None
    assert set(run.counters.samples["counter"]) == {
        "device_sm_active_pct",
        "device_dram_active_pct",
        "pcie_received_pct",
    }


def test_impossible_values_are_left_out(tmp_path: Path) -> None:
    export = training()
    export.sampled(0, SM, 1, [50, 4_000_000, -1, 70])
    profile = Profile(loaded(export.write(tmp_path / "a.sqlite")))
    assert of(profile, "device_sm_active_pct", "0") == 60


def test_many_samples_become_means_over_intervals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_metrics, "MOST_INTERVALS", 4)
    run = loaded(sampled().write(tmp_path / "a.sqlite"))
    assert run.counters is not None
    samples = run.counters.samples
    own = samples[(samples["counter"] == "device_sm_active_pct") & (samples["device"] == 1)]
    assert own["value"].tolist() == [20, 20, 40, 40]


def test_samples_come_back_from_the_cache(tmp_path: Path) -> None:
    path, options = sampled().write(tmp_path / "a.sqlite"), LoadOptions(cache_dir=tmp_path / "cache", workers=1)
    first, again = load_run([path], options).counters, load_run([path], options).counters
    assert first is not None
    assert again is not None
    assert again.samples.equals(first.samples)
    assert again.sources == first.sources


def test_the_check_of_utilization_cites_what_kernels_use_of_a_device(tmp_path: Path) -> None:
    profile = Profile(loaded(sampled().write(tmp_path / "a.sqlite")))
    (check,) = (each for each in all_checks(profile) if each.name == "computation.device_use")
    assert [(each.template, [fact.value for fact in each.facts]) for each in check.support] == [
        ("Used of device 0 on average: multiprocessors with work {0}, memory bandwidth {1}, PCIe in {2}.", [60, 55, 7]),
        ("Used of device 1 on average: multiprocessors with work {0}.", [30]),
    ]


@pytest.mark.parametrize("without", ["GPU_METRICS", "TARGET_INFO_GPU_METRICS"])
def test_without_a_table_nothing_is_known_of_the_devices(tmp_path: Path, without: str) -> None:
    run = loaded(sampled().write(tmp_path / "a.sqlite", without=[without]))
    assert run.counters is None
    with pytest.raises(UsageError, match="holds no samples"):
        of(Profile(run), "device_sm_active_pct", "0")
