"""Samples that say something by themselves: queues of processors, error codes, other processes, trackers' tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.analyzers.registry import check_of
from tools.findings import Check
from tools.metrics.registry import measure
from tools.sources.load import load_run
from tools.views.profile import Profile


def profile_of(path: Path, text: str, name: str = "samples.txt") -> Profile:
    (path / name).write_text(text)
    return Profile(load_run([path / name]))


def answer(profile: Profile, name: str) -> Check:
    found = check_of(profile, name)
    assert found is not None
    return found


def queue(runnable: int, cores: int = 8) -> str:
    lines = [f"Linux 5.15.0 (node1) \t2026-11-23 \t_x86_64_\t({cores} CPU)", ""]
    lines.append("10:00:00      runq-sz  plist-sz   ldavg-1   ldavg-5  ldavg-15   blocked")
    lines += [
        f"10:00:{at:02d}           {runnable}       900     1.00     1.00     1.00         0" for at in range(1, 9)
    ]
    return "\n".join(lines) + "\n"


def test_more_runnable_processes_than_processors_are_contention(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, queue(40))
    (finding,) = answer(profile, "cpu.machine_samples").findings
    assert finding.cause == "cpu_contention"
    assert [fact.value for fact in finding.claim.facts] == [40.0, 8.0]


def test_a_short_queue_is_stated_and_is_no_contention(tmp_path: Path) -> None:
    check = answer(profile_of(tmp_path, queue(9)), "cpu.machine_samples")
    assert not check.findings
    assert [fact.value for each in check.support for fact in each.facts] == [9.0, 8.0]


def test_the_process_that_takes_the_processors_is_named(tmp_path: Path) -> None:
    head = "10:00:0{}      UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command"
    rows = [
        "10:00:0{}     1000     12345   60.00    3.00    0.00   90.00   63.00     1  python",
        "10:00:0{}        0       999  400.00    3.00    0.00    0.00  403.00     2  monitord",
        "10:00:0{}        0       998    1.00    0.00    0.00    0.00    1.00     3  sshd",
    ]
    text = "Linux 5.15.0 (node1) \t2026-11-23 \t_x86_64_\t(8 CPU)\n"
    for at in range(1, 5):
        text += "\n" + "\n".join((head.format(at), *(row.format(at + 1) for row in rows))) + "\n"
    (finding,) = answer(profile_of(tmp_path, text), "cpu.machine_samples").findings
    assert finding.claim.names == ("999 monitord",)
    assert [fact.value for fact in finding.claim.facts] == pytest.approx([90.0, 403.0])


def test_the_last_xid_of_a_device_in_samples_is_said(tmp_path: Path) -> None:
    text = ""
    for device, code in ((0, 0), (1, 79)):
        label = f'{{gpu="{device}",UUID="GPU-{device}",modelName="NVIDIA H100 80GB HBM3",Hostname="node1"}}'
        text += f"DCGM_FI_DEV_GPU_UTIL{label} 98\nDCGM_FI_DEV_XID_ERRORS{label} {code}\n"
    (said,) = answer(profile_of(tmp_path, text), "computation.device_errors").support
    assert said.names == ("Xid 79",)
    assert said.template.startswith("The samples of device 1 hold")


HEADER = "_timestamp,_runtime," + ",".join(
    f"system.gpu.{at}.{name}" for at in range(2) for name in ("gpu", "temp", "powerWatts", "smClock")
)
PANEL = '"Step","run-a - system/gpu.0.gpu","run-a - system/gpu.0.gpu__MIN","run-a - system/gpu.0.gpu__MAX"'


def test_the_export_of_a_trackers_system_metrics_is_read(tmp_path: Path) -> None:
    rows = "".join(f"{1_795_428_000 + 15 * at}.0,{15 * at},97,60,400,1980,90,92,250,1200\n" for at in range(6))
    profile = profile_of(tmp_path, f"{HEADER}\n{rows}", "export.csv")
    clocks = [
        measure(profile, "device_counter_mhz", counter="device_clock_mhz", device=device).value for device in ("0", "1")
    ]
    assert clocks == [1980.0, 1200.0]
    assert measure(profile, "reading_interval_s", device="0").value == 15.0
    assert profile.run.counters is not None
    assert profile.run.counters.sources[0].clock == "unix"


def test_the_export_of_a_panel_is_read_without_its_least_and_most(tmp_path: Path) -> None:
    rows = "".join(f'"{at}","{90 + at}","1","100"\n' for at in range(5))
    profile = profile_of(tmp_path, f"{PANEL}\n{rows}", "panel.csv")
    busy = measure(profile, "device_counter_pct", counter="device_busy_pct", device="0", statistic="mean")
    assert busy.value == 92.0


def test_damaged_rows_of_an_export_are_left_out(tmp_path: Path) -> None:
    rows = "1795428000.0,0,97,60,400,1980,90,92,250,1200\n,,,,,,,,,\nx,1,2\n" + '"unclosed,1\n'
    rows += "nan,inf,97,60,400,1980,90,92,250,1e999\n"
    profile = profile_of(tmp_path, f"{HEADER}\n{rows}", "export.csv")
    assert measure(profile, "device_counter_pct", counter="device_busy_pct", device="0").value == 97.0
