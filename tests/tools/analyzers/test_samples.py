"""What samples of devices and machines answer, alone and next to the times of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.synthetic import RankBuilder
from tests.synthetic import profile_of as traced_profile
from tests.tools.analyzers.computation_runs import SGEMM
from tests.tools.sources.job_log.logs import megatron
from tests.tools.sources.utilisation import outputs
from tools.analyzers.computation.device_samples import NO_POWER, ONLY_WAITING
from tools.analyzers.registry import check_of
from tools.findings import Check
from tools.judgement.ranking import ranking
from tools.metrics.registry import measure
from tools.run.model import Device
from tools.sources.load import load_run
from tools.views.profile import Profile

HEAD = "timestamp, index, utilization.gpu [%], temperature.gpu, power.draw [W], clocks.sm [MHz], clocks.max.sm [MHz], "
HEAD += "clocks_event_reasons.active\n"


def profile_of(tmp_path: Path, text: str, log: str = "") -> Profile:
    (tmp_path / "samples").write_text(text)
    if log:
        (tmp_path / "train.log").write_text(log)
    return Profile(load_run([tmp_path]))


def rows(*devices: Sequence[object], readings: int = 10) -> str:
    """A table in which every reading of a device is the same: utilization, temperature, power, clock, most, reasons."""
    return HEAD + "".join(
        f"2026/11/23 10:00:{at:02d}.500, {device}, " + ", ".join(map(str, each)) + "\n"
        for at in range(readings)
        for device, each in enumerate(devices)
    )


def answer(profile: Profile, name: str) -> Check:
    found = check_of(profile, name)
    assert found is not None
    return found


GOOD = (100, 50, 400.0, 1900, 2000, "0x0")
HOT = (100, 88, 300.0, 1500, 2000, "0x20")
CAPPED = (100, 60, 700.0, 1800, 2000, "0x4")
UNUSED = (0, 30, 60.0, 300, 2000, "0x1")


def test_a_device_that_lowers_its_clock_for_heat_is_a_lead_without_steps(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, rows(GOOD, HOT, GOOD))
    (finding,) = answer(profile, "computation.clocks").findings
    assert (finding.cause, finding.mechanism) == ("slow_device", "thermal")
    assert finding.claim.facts[0].value == 100.0
    assert [fact.value for fact in finding.details[0].facts] == [1500.0, 88.0, 300.0]
    result = ranking(profile)
    assert (result.verdict, result.causes) == ("inconclusive", ())
    assert [each.candidates[0].cause for each in result.leads] == ["slow_device"]
    assert "--log-interval 1" in result.needs


def test_with_steps_a_lowered_clock_has_a_saving(tmp_path: Path) -> None:
    """1,500 of at most 2,000 MHz is 25 % below; kernels run all of a step of 100 ms: 25 ms at most, half expected."""
    log = megatron(*((step, 100.0) for step in range(1, 60)))
    profile = profile_of(tmp_path, rows(GOOD, HOT, GOOD), log)
    (finding,) = answer(profile, "computation.clocks").findings
    assert finding.saving is not None
    assert (finding.saving.saved_ms, finding.saving.least_ms, finding.saving.most_ms) == pytest.approx(
        (12.5, 0.0, 25.0)
    )
    assert ranking(profile).causes[0].finding.cause == "slow_device"


def test_what_traces_show_of_a_slow_device_is_not_counted_again(tmp_path: Path) -> None:
    """Rank 1's kernels take 15 % longer by the traces: what its lower clock costs is in that already."""
    ranks = [RankBuilder(number) for number in range(3)]
    for rank in ranks:
        for call in range(5):
            rank.kernel(SGEMM, 200 * call, 115 if rank is ranks[1] else 100, blocks=800, threads=256)
        rank.step(0, 0, 1000)
    traced, sampled = traced_profile(*ranks), profile_of(tmp_path, rows(GOOD, HOT, GOOD))
    both = Profile(replace(traced.run, counters=sampled.run.counters))
    (finding,) = answer(both, "computation.clocks").findings
    assert (finding.saving, finding.impact_ms) == (None, 0.0)
    assert answer(both, "computation.slow_device").findings
    alone = Profile(replace(traced.run.select([0]), counters=sampled.run.counters))
    (priced,) = answer(alone, "computation.clocks").findings
    assert priced.saving is not None


def test_a_lowered_clock_costs_no_more_than_the_traced_computation_of_that_device(tmp_path: Path) -> None:
    """Rank 1 computes 0.1 of 1 ms on device 1, at 1,500 of at most 2,000 MHz: 0.025 ms at most, although the samples
    say that kernels ran all the time, and rank 0 computes longer. Each trace describes both devices, as Kineto does."""
    both_devices = Device(0, "GPU"), Device(1, "GPU")
    ranks = [RankBuilder(number, device=each) for number, each in enumerate(both_devices)]
    for rank, duration_us in zip(ranks, (400, 100), strict=True):
        own = rank.device_stream(7, rank.number)
        rank.kernel(SGEMM, 100, duration_us, stream=own, blocks=800, threads=256)
        rank.step(0, 0, 1000)
    sampled = profile_of(tmp_path, rows(GOOD, HOT))
    run = traced_profile(*ranks).run
    described = tuple(replace(each, devices=both_devices) for each in run.ranks)
    both = Profile(replace(run, ranks=described, counters=sampled.run.counters))
    (finding,) = answer(both, "computation.clocks").findings
    assert finding.saving is not None
    assert finding.saving.most_ms == pytest.approx(0.025)


def test_a_clock_below_that_of_the_others_is_found_without_reasons(tmp_path: Path) -> None:
    """1,500 of 1,900 MHz is 21 % below."""
    (finding,) = answer(profile_of(tmp_path, rows(GOOD, (*HOT[:5], "0x0"), GOOD)), "computation.clocks").findings
    assert finding.mechanism == "down_clock"
    assert [fact.value for fact in finding.claim.facts] == [1500.0, 1900.0]


def test_only_devices_of_one_kind_and_load_are_compared(tmp_path: Path) -> None:
    """Another highest clock is another model; another utilization another load."""
    smaller = (100, 50, 250.0, 1300, 1400, "0x0")
    assert answer(profile_of(tmp_path, rows(GOOD, GOOD, smaller)), "computation.clocks").status == "clean"
    half = (60, 45, 250.0, 1500, 2000, "0x0")
    assert answer(profile_of(tmp_path, rows(GOOD, GOOD, half)), "computation.clocks").findings == ()
    (tmp_path / "b").write_text(rows((*GOOD[:3], 1000, 1000, "0x0")))
    assert answer(profile_of(tmp_path, rows(GOOD)), "computation.clocks").findings == ()


def test_devices_of_one_model_are_compared_over_machines(tmp_path: Path) -> None:
    """Both files name the model; the second device runs at half the clock of the first."""
    text = "index, name, utilization.gpu [%], clocks.sm [MHz]\n" + 8 * "0, NVIDIA H100, 100 %, 1900 MHz\n"
    (tmp_path / "b").write_text(text.replace("1900", "950"))
    (finding,) = answer(profile_of(tmp_path, text), "computation.clocks").findings
    assert [fact.value for fact in finding.claim.facts] == [950.0, 1900.0]


def test_a_lower_power_limit_explains_a_lower_clock(tmp_path: Path) -> None:
    """300 instead of 700 W, and 1,500 instead of 1,900 MHz."""
    reading = "0, 100 %, 1900 MHz, 700 W\n1, 100 %, 1500 MHz, 300 W\n2, 100 %, 1900 MHz, 700 W\n"
    text = "index, utilization.gpu [%], clocks.sm [MHz], power.limit [W]\n" + 8 * reading
    (finding,) = answer(profile_of(tmp_path, text), "computation.clocks").findings
    assert finding.mechanism == "power_cap"


def test_few_readings_make_no_sure_finding(tmp_path: Path) -> None:
    (finding,) = answer(profile_of(tmp_path, rows(GOOD, HOT, readings=2)), "computation.clocks").findings
    assert finding.confidence < 0.5


def test_a_power_limit_at_full_load_is_no_cause(tmp_path: Path) -> None:
    check = answer(profile_of(tmp_path, rows(CAPPED, CAPPED)), "computation.clocks")
    assert (check.status, check.findings) == ("found", ())
    assert "usual at full load" in check.support[0].template


def test_steady_clocks_are_clean_and_a_device_without_load_cannot_be_judged(tmp_path: Path) -> None:
    assert answer(profile_of(tmp_path, rows(GOOD, GOOD)), "computation.clocks").status == "clean"
    idle = answer(profile_of(tmp_path, rows(UNUSED, UNUSED)), "computation.clocks")
    assert idle.status == "cannot_answer"
    assert "nvidia-smi --query-gpu" in idle.needs


def test_a_hotter_device_is_seen_but_not_judged_without_clocks(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, outputs.OWN_NAMES)
    hot = answer(profile, "computation.devices_alike")
    assert [fact.value for fact in hot.support[0].facts] == [60.0, 38.0]
    assert answer(profile, "computation.clocks").status == "cannot_answer"


def test_devices_of_unlike_load_are_not_compared(tmp_path: Path) -> None:
    half = (60, 35, 200.0, 1900, 2000, "0x0")
    check = answer(profile_of(tmp_path, rows(GOOD, half)), "computation.devices_alike")
    assert check.status == "clean"


def test_a_device_that_the_job_does_not_use_is_named(tmp_path: Path) -> None:
    check = answer(profile_of(tmp_path, rows(GOOD, UNUSED, GOOD)), "computation.devices_alike")
    assert check.support[0].template.startswith("On device 1")


def saw_tooth(busy: int, idle: int, times: int) -> str:
    readings = ([100] * busy + [0] * idle) * times
    return "index, utilization.gpu [%]\n" + "".join(f"0, {each} %\n" for each in readings)


def test_a_saw_tooth_is_found_and_a_pause_at_the_start_is_none(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, saw_tooth(6, 2, 5))
    assert measure(profile, "device_idle_readings_pct", device="0").value == pytest.approx(100.0 * 8 / 38)
    assert measure(profile, "device_idle_stretches", device="0").value == 4.0
    said = answer(profile, "computation.device_use").support
    assert any("can look so; the samples do not show which" in each.template for each in said)
    once = answer(profile_of(tmp_path, saw_tooth(30, 8, 1)), "computation.device_use").support
    assert not any("can look so" in each.template for each in once)


def test_readings_before_a_device_is_in_use_are_no_idle_ones(tmp_path: Path) -> None:
    head, rows_ = saw_tooth(6, 2, 5).split("\n", 1)
    profile = profile_of(tmp_path, f"{head}\n" + "0, 2 %\n" * 20 + rows_)
    assert measure(profile, "device_idle_readings_pct", device="0").value == pytest.approx(100.0 * 8 / 38)


def test_utilization_is_never_called_efficiency(tmp_path: Path) -> None:
    check = answer(profile_of(tmp_path, rows(GOOD, GOOD)), "computation.device_use")
    assert check.status == "clean"
    assert "how well kernels use the device is not in it" in check.support[-1].template


def of_power(watts: float, busy: int, state: str = "P0") -> str:
    """A single table of two devices alike with a limit of 400 W."""
    line = f"| N/A   34C    {state}   {watts:.0f}W / 400W |  71234MiB / 81920MiB |    {busy}%      Default |\n"
    return "| NVIDIA-SMI 525.60.13    Driver Version: 525.60.13    CUDA Version: 12.0     |\n" + "".join(
        f"|   {device}  NVIDIA A100-SXM...  On   | 00000000:0{device}:00.0 Off |                    0 |\n{line}"
        for device in range(2)
    )


def test_full_utilization_at_the_power_of_an_idle_device_is_no_load(tmp_path: Path) -> None:
    """60 of 400 W is 15 %, under the 25 % that computation needs; 160 W is 40 %."""
    profile = profile_of(tmp_path, of_power(60.0, 100))
    use = answer(profile, "computation.device_use")
    assert use.status == "found"
    assert use.support[0].template.endswith("each of the 2 devices that were read.")
    assert [fact.value for fact in use.support[1].facts] == [60.0, 15.0, 15.0]
    assert "A kernel that waits" in use.support[1].template
    alike = answer(profile, "computation.devices_alike")
    assert (alike.status, alike.reason) == ("cannot_answer", ONLY_WAITING)
    working = profile_of(tmp_path, of_power(160.0, 100))
    assert answer(working, "computation.device_use").status == "clean"
    state = answer(working, "computation.devices_alike").support[0]
    assert [fact.value for fact in state.facts] == [34.0, 160.0, 40.0]
    assert state.template.endswith("of its power limit.")


def test_a_device_without_kernels_at_little_power_is_idle_in_the_state_it_prints(tmp_path: Path) -> None:
    (_, idle, *_) = answer(profile_of(tmp_path, of_power(28.0, 0, "P8")), "computation.device_use").support
    assert [fact.value for fact in idle.facts] == [28.0, 7.0, 7.0]
    assert "performance state P8" in idle.template
    (_, warm, *_) = answer(profile_of(tmp_path, of_power(160.0, 0)), "computation.device_use").support
    assert "idle device" not in warm.template


def test_little_power_in_a_state_of_work_is_not_that_of_an_idle_device(tmp_path: Path) -> None:
    """71234 of 81920 MiB are 87 %; without kernels at 60 of 400 W in P2."""
    said = answer(profile_of(tmp_path, of_power(60.0, 0, "P2")), "computation.device_use").support
    assert not any("idle device" in each.template for each in said)
    assert any("performance state P2" in each.template for each in said)
    held = next(each for each in said if each.template.startswith("Memory is held meanwhile"))
    assert [fact.value for fact in held.facts] == pytest.approx([100 * 71234 / 81920] * 2)


def test_devices_that_hold_hardly_any_memory_are_not_among_those_that_hold_it(tmp_path: Path) -> None:
    """Of two devices without kernels one holds 71234 of 81920 MiB, the other 3."""
    text = outputs.TABLE.replace(" 97% ", "  0% ")
    said = answer(profile_of(tmp_path, text), "computation.device_use").support
    (held,) = (each for each in said if each.template.startswith("Memory is held meanwhile"))
    assert [fact.value for fact in held.facts] == pytest.approx([100 * 71234 / 81920])
    assert "of device 0:" in held.template


def test_of_devices_with_and_without_kernels_each_is_told_apart(tmp_path: Path) -> None:
    said = [each.template for each in answer(profile_of(tmp_path, outputs.TABLE), "computation.device_use").support]
    assert any(text.startswith("On device 1 no kernel ran in what this sampled. Of the others") for text in said)
    assert not any(text.startswith("By this figure some kernel ran") for text in said)
    assert not any("Memory is held" in text for text in said)  # 3 MiB are none


def test_a_table_shows_memory_and_who_holds_it(tmp_path: Path) -> None:
    second = "|    0   N/A  N/A     99999      C   python                           9000MiB |\n"
    check = answer(profile_of(tmp_path, outputs.TABLE + second), "memory.device_samples")
    assert check.support[0].facts[0].value == 2.0
    full = outputs.TABLE.replace("71234MiB", "81000MiB")
    nearly = answer(profile_of(tmp_path, full), "memory.device_samples")
    assert [fact.value for fact in nearly.support[0].facts] == pytest.approx([81000 / 1024, 80.0])


def test_steal_and_disks_are_hypotheses_without_a_known_cost(tmp_path: Path) -> None:
    stolen = outputs.SAR.replace("30,00      4,00     64,44", " 1,00     25,00     72,44")
    (steal,) = answer(profile_of(tmp_path, stolen), "cpu.machine_samples").findings
    assert (steal.cause, steal.impact_ms, steal.claim.facts[0].value) == ("cpu_contention", 0.0, 25.0)
    (disk,) = answer(profile_of(tmp_path, outputs.IOSTAT), "io.machine_samples").findings
    assert disk.cause == "slow_data_reading"
    assert disk.confidence < 0.5
    (stall,) = answer(profile_of(tmp_path, outputs.PRESSURE), "io.machine_samples").findings
    assert stall.claim.facts[0].value == 35.0


DISKS = """\
Device:            r/s     w/s    rMB/s    wMB/s avgqu-sz   await r_await w_await  svctm  %util
sda               1.00    0.00     0.08     0.00     0.00    0.40    0.40    0.00   0.31   0.20
sdb            1800.00  200.00   900.50     0.20   130.61   31.00   34.00    4.00   0.46 100.00
sdc            1000.00    0.00   500.00     0.00    53.07   20.00   20.00    0.00   0.47  98.00
"""


def test_every_disk_without_time_to_spare_is_named_with_its_requests_and_reads(tmp_path: Path) -> None:
    said = answer(profile_of(tmp_path, DISKS), "io.machine_samples").support[0]
    assert said.names == ("sdb", "sdc")
    assert [fact.value for fact in said.facts] == pytest.approx([100.0, 31.0, 900.5, 98.0, 20.0, 500.0])


def test_the_wait_of_a_python_process_for_a_processor(tmp_path: Path) -> None:
    (finding,) = answer(profile_of(tmp_path, outputs.PIDSTAT), "cpu.machine_samples").findings
    assert finding.claim.facts[0].value == 87.23


def test_counters_are_judged_by_their_rise(tmp_path: Path) -> None:
    """Out of sequence 10 -> 120 on one adapter and 0 -> 0 on the other."""
    (finding,) = answer(profile_of(tmp_path, outputs.RDMA), "communication.network_samples").findings
    assert (finding.cause, finding.claim.facts[0].value) == ("rdma_retransmission", 110.0)
    pauses = answer(profile_of(tmp_path, outputs.ETHTOOL), "communication.network_samples")
    assert [fact.value for each in pauses.support for fact in each.facts] == [5000.0]
    once = answer(profile_of(tmp_path, "\n".join(outputs.RDMA.splitlines()[:2])), "communication.network_samples")
    assert once.status == "cannot_answer"
    assert "twice" in once.needs


def test_tcp_segments_sent_again_between_two_readings(tmp_path: Path) -> None:
    """300 -> 900 of 20,000 -> 60,000 segments: 1.5 %."""
    later = outputs.NSTAT.replace("20000 ", "60000 ").replace("300 ", "900 ")
    profile = profile_of(tmp_path, outputs.NSTAT + later)
    assert measure(profile, "tcp_sent_again_pct").value == pytest.approx(1.5)
    assert answer(profile, "communication.network_samples").status == "found"


def test_devices_of_two_files_are_not_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "b").write_text(rows(HOT))
    profile = profile_of(tmp_path, rows(GOOD))
    assert measure(profile, "device_counter_mhz", counter="device_clock_mhz", device="0 of b").value == 1500.0
    assert measure(profile, "device_counter_mhz", counter="device_clock_mhz", device="0 of samples").value == 1900.0


def test_without_samples_no_such_question_arises(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(megatron(*((step, 100.0) for step in range(1, 60))))
    profile = Profile(load_run([tmp_path]))
    names = ("computation.clocks", "computation.device_use", "cpu.machine_samples", "communication.network_samples")
    assert [check_of(profile, name) for name in names] == [None] * 4


def test_at_0_pct_no_kernel_ran_and_the_vendor_names_its_own_tool(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, outputs.NPU.replace(" 95 ", " 0  "))
    said = [each.template for each in answer(profile, "computation.device_use").support]
    assert not any("some kernel ran" in text for text in said)
    needs = answer(profile, "computation.clocks").needs
    assert "npu-smi" in needs
    assert "nvidia-smi" not in needs


def test_shares_of_time_are_means_over_the_time_that_each_reading_is_of(tmp_path: Path) -> None:
    head = "Linux 5.10.103 (node7) \t2026-11-23 \t_x86_64_\t(4 CPU)\n\n"
    columns = "{}        CPU     %user     %nice   %system   %iowait    %steal     %idle\n"
    row = "{}        all     {}     0.00      0.00      0.00      0.00     {}\n"
    busy = {"10:01:00": 0.0, "10:02:00": 0.0, "10:03:00": 0.0, "10:05:00": 90.0}
    rows = "".join(row.format(at, each, 100.0 - each) for at, each in busy.items())
    profile = profile_of(tmp_path, head + columns.format("10:00:00") + rows)
    assert measure(profile, "machine_counter_pct", counter="cpu_busy_pct").value == pytest.approx(90.0 * 2 / 5)
    assert measure(profile, "machine_counter_pct", counter="cpu_busy_pct", statistic="median").value == 0.0


def test_a_request_s_wait_is_the_mean_over_requests_and_none_of_intervals_without_any(tmp_path: Path) -> None:
    table = "Device            r/s     rkB/s   r_await     w/s     wkB/s   w_await  aqu-sz  %util\n"
    row = "sda   {}      1.00      {}       0.00    0.00      0.00      0.00     {}\n"
    reports = ((9.0, 1.0, 1.0), (30.0, 2.0, 50.0), (10.0, 6.0, 20.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    text = "\n".join(table + row.format(*each) for each in reports)
    profile = profile_of(tmp_path, f"Linux 5.10 (n) \t2026-11-23 \t_x86_64_\t(4 CPU)\n\n{text}")
    wait = measure(profile, "machine_counter_ms", counter="disk_wait_ms", part="sda")
    assert wait.value == pytest.approx((30 * 2.0 + 10 * 6.0) / 40)
    assert measure(profile, "machine_counter_pct", counter="disk_busy_pct", part="sda").value == pytest.approx(17.5)
    assert any(
        "the first report of iostat is a mean since the machine was started" in each for each in profile.run.notes
    )


SLOWED = """
==============NVSMI LOG==============

Attached GPUs                             : 1
GPU 00000000:07:00.0
    Performance State                     : P0
    Clocks Event Reasons
        Idle                              : Not Active
        SW Power Cap                      : Not Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
    GPU Power Readings
        Power Draw                        : 170.00 W
        Current Power Limit               : 400.00 W
"""


def test_a_clock_lowered_for_heat_is_told_at_the_low_power_that_it_leads_to(tmp_path: Path) -> None:
    """170 of 400 W are under the half that shows a load; utilization was not sampled."""
    (finding,) = answer(profile_of(tmp_path, SLOWED), "computation.clocks").findings
    assert finding.mechanism == "thermal"
    assert finding.claim.template == "Device 0 lowers its clock for heat in {0} of the only reading."
    said = answer(profile_of(tmp_path, SLOWED), "computation.device_use").support
    assert said[0].template == "Device 0 draws {0} at the moment of the one reading."
    for idle in (SLOWED.replace(": P0", ": P8"), SLOWED.replace(": Active", ": Not Active")):
        open_ = answer(profile_of(tmp_path, idle), "computation.clocks")
        assert (open_.status, open_.reason) == ("cannot_answer", NO_POWER)


DMON = "# gpu    pwr  gtemp     sm    mem   mclk   pclk  pviol  tviol\n"
DMON += "# Idx      W      C      %      %    MHz    MHz      %   bool\n"


def test_the_time_at_the_power_limit_is_read_from_rows_of_dmon(tmp_path: Path) -> None:
    rows_ = "".join(f"    0    300     71     98     60   1593   1140     {each}      0\n" for each in (90, 92, 94))
    check = answer(profile_of(tmp_path, DMON + rows_), "computation.clocks")
    assert "The power limit lowers the clock of device 0 for {0} of the time" in check.support[0].template
    assert check.support[0].facts[0].value == pytest.approx(92.0)


def test_reasons_that_were_not_sampled_are_not_denied(tmp_path: Path) -> None:
    head = DMON.replace("  pviol", "").replace("      %   bool", "   bool")
    check = answer(
        profile_of(tmp_path, head + 3 * "    0    300     71     98     60   1593   1140      0\n"),
        "computation.clocks",
    )
    text = check.support[0].template
    assert text.startswith("Device 0 lowers its clock for heat in {0}")
    assert "whether its power limit does was not sampled" in text


def test_the_others_of_an_unused_device_are_named_as_their_median(tmp_path: Path) -> None:
    """Utilizations of 100, 99, 55, 0 and 0: the median of the others of an unused one is (99 + 55) / 2."""
    busy = ((100, 60, 390.0, 1400, 1410, "0x0"), (99, 60, 380.0, 1400, 1410, "0x0"), (55, 50, 300.0, 1400, 1410, "0x0"))
    none = (0, 30, 60.0, 1400, 1410, "0x0")
    (said,) = answer(profile_of(tmp_path, rows(*busy, none, none)), "computation.devices_alike").support
    assert "in the median of the others in {1}" in said.template
    assert said.template.endswith("The same holds for device 4.")
    assert [fact.value for fact in said.facts] == [0.0, 77.0]


def test_swapping_is_told_before_the_disk_that_it_keeps_busy(tmp_path: Path) -> None:
    """Readings of 39 + 21 and 41 + 19 MiB/s; the first report is left out."""
    head = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----\n"
    head += " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n"
    row = " 2  9 2914312 402112  18220 1802112 {} {} 52100 18200 31022 52011  6  8 41 45  0\n"
    text = head + row.format(0, 0) + row.format(39 << 10, 21 << 10) + row.format(41 << 10, 19 << 10)
    check = answer(profile_of(tmp_path, text), "memory.host_reports")
    assert check.status == "found"
    assert [fact.value for fact in check.support[0].facts] == [60.0, 60.0]
    assert "are swapped in and out" in check.support[0].template
