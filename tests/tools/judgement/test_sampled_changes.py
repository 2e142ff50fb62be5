"""Samples of a machine next to longer steps: what changes with them is the first candidate of their lead."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tools.judgement.lead import Lead
from tools.judgement.ranking import ranking
from tools.sources.load import load_run
from tools.views.profile import Profile

BEGIN = datetime(2026, 11, 23, 10, 0, 0)
SAR = {
    "steal": ("CPU     %user     %nice   %system   %iowait    %steal     %idle", "all 20.00 0.00 1.00 0.00 {} 30.00"),
    "disk": ("DEV       tps     rkB/s     wkB/s     await     %util", "sda 10.00 100.00 10.00 5.00 {}"),
    "memory": ("%smem-10  %smem-60  %smem-300     %smem", "0.00 0.00 0.00 {}"),
    "queue": ("runq-sz  plist-sz   ldavg-1   ldavg-5  ldavg-15   blocked", "{:.0f} 900 1.00 1.00 1.00 0"),
}


def log_of(walls: list[float]) -> str:
    lines, at = [], BEGIN
    for step, wall in enumerate(walls):
        at += timedelta(milliseconds=wall)
        lines.append(f"[{at:%Y-%m-%d %H:%M:%S}.{at.microsecond:06d}] step {step} step time: {wall:.1f} ms")
    return "\n".join(lines) + "\n"


def sar_of(kind: str, level: Callable[[int], float], title: str = "2026-11-23", seconds: int = 160) -> str:
    columns, row = SAR[kind]
    lines = [f"Linux 5.15.0 (node1) \t{title} \t_x86_64_\t(8 CPU)", "", f"09:59:59        {columns}"]
    for second in range(seconds):
        moment = BEGIN + timedelta(seconds=second)
        lines.append(f"{moment:%H:%M:%S}        {row.format(level(second))}")
    return "\n".join(lines) + "\n"


def lead_of(path: Path, walls: list[float], sar: str) -> Lead:
    (path / "train.log").write_text(log_of(walls))
    (path / "sar.txt").write_text(sar)
    return ranking(Profile(load_run([path]))).leads[0]


CHANGED = [(1400.0 if step >= 60 else 1000.0) + step % 5 for step in range(120)]


@pytest.mark.parametrize("title", ["2026-11-23", "11/23/26", "11/23/2026"])
@pytest.mark.parametrize(
    ("kind", "cause"),
    [("steal", "cpu_contention"), ("disk", "slow_data_reading"), ("memory", "memory_pressure")],
)
def test_a_counter_that_rises_with_the_steps_is_the_first_candidate(
    tmp_path: Path, kind: str, cause: str, title: str
) -> None:
    lead = lead_of(tmp_path, CHANGED, sar_of(kind, lambda second: 50.0 if second >= 61 else 1.0, title))
    assert lead.candidates[0].cause == cause
    assert [fact.value for fact in lead.claim.facts[-2:]] == [50.0, 1.0]
    assert sum(each.likelihood for each in lead.candidates) <= 1.0


def test_a_queue_of_processes_that_grows_with_the_steps_is_named(tmp_path: Path) -> None:
    lead = lead_of(tmp_path, CHANGED, sar_of("queue", lambda second: 40.0 if second >= 61 else 4.0))
    assert lead.candidates[0].cause == "cpu_contention"
    assert "processes that run or wait for a processor" in lead.claim.template


@pytest.mark.parametrize("level", [lambda second: 50.0, lambda second: 50.0 if second % 2 else 1.0])
def test_a_counter_that_does_not_change_with_the_steps_is_no_candidate(
    tmp_path: Path, level: Callable[[int], float]
) -> None:
    assert "the samples show" not in lead_of(tmp_path, CHANGED, sar_of("steal", level)).claim.template


def test_a_counter_that_rises_in_long_steps_is_a_candidate_of_theirs(tmp_path: Path) -> None:
    walls = [6000.0 if step in (37, 61, 74, 103) else 1000.0 + step % 5 for step in range(120)]
    ends = [sum(walls[: at + 1]) / 1e3 for at in range(len(walls))]
    long = [(ends[at - 1], ends[at]) for at, wall in enumerate(walls) if wall > 2000.0]
    busy = sar_of("disk", lambda second: 99.0 if any(a < second <= b for a, b in long) else 5.0, seconds=150)
    lead = lead_of(tmp_path, walls, busy)
    assert lead.candidates[0].cause == "slow_data_reading"
