"""Lines that a log repeats are one statement with their number, and with their rate where they state times."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.report.opening import opening
from tools.analyzers.registry import check_of
from tools.errors import UsageError
from tools.judgement.ranking import ranking
from tools.metrics.registry import measure
from tools.sources.load import load_run
from tools.views.profile import Profile

CONNECT = "node1:{}:{} [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 10.0.0.{}<{}> failed : timed out"
INFO = "node1:12:13 [0] NCCL INFO Using network IB"


def profile_of(tmp_path: Path, *lines: str) -> Profile:
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines) + "\n")
    return Profile(load_run([path]))


def warned(count: int, every_s: int | None = None) -> list[str]:
    """So many warnings, each with other numbers, with a time where ``every_s`` is given."""
    lines = []
    for at in range(count):
        seconds = at * (every_s or 0)
        clock = f"{10 + seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        stamp = "" if every_s is None else f"[2026-04-28 {clock}] "
        lines.append(stamp + CONNECT.format(100 + at, 200 + at, at % 250, 40_000 + at))
    return lines


def test_hundreds_of_warnings_that_differ_in_numbers_are_one_with_their_number(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, INFO, *warned(312))
    check = check_of(profile, "communication.library_warnings")
    assert check is not None
    assert len(check.support) == 1
    assert [fact.value for fact in check.support[0].facts] == [312.0]
    assert "socketStartConnect" in check.support[0].names[0]
    assert "lines 2 to 313" in measure(profile, "nccl_warning_lines", place=1).selector
    said = [each for each in opening(profile, ranking(profile)) if each.template.startswith("NCCL warns")]
    assert len(said) == 1


def test_the_rate_is_by_the_gaps_between_the_lines(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, INFO, *warned(61, every_s=90))  # 60 gaps of 90 s
    assert measure(profile, "nccl_warnings_per_h", place=1).value == pytest.approx(40.0)


@pytest.mark.parametrize(("count", "every_s"), [(2, 600), (20, 1), (50, None)])
def test_few_lines_lines_within_a_minute_and_lines_without_times_show_no_rate(
    tmp_path: Path, count: int, every_s: int | None
) -> None:
    with pytest.raises(UsageError, match="too few lines state when"):
        measure(profile_of(tmp_path, INFO, *warned(count, every_s)), "nccl_warnings_per_h", place=1)


def test_one_warning_in_the_files_of_several_processes_is_one_with_the_lines_of_all(tmp_path: Path) -> None:
    for rank in range(3):
        (tmp_path / f"nccl.{rank}.log").write_text("\n".join([INFO, *warned(rank + 1)]) + "\n")
    profile = Profile(load_run([tmp_path]))
    check = check_of(profile, "communication.library_warnings")
    assert check is not None
    assert [fact.value for each in check.support for fact in each.facts] == [6.0]
    selector = measure(profile, "nccl_warning_lines", place=1).selector
    assert selector == "warnings of NCCL, nccl.0.log, line 2; nccl.1.log, lines 2 to 3; nccl.2.log, lines 2 to 4"


def test_the_most_frequent_warnings_come_first_and_the_rest_is_counted(tmp_path: Path) -> None:
    others = [
        f"node1:1:2 [0] NCCL WARN {text} {at}"
        for text, count in (("Cuda failure", 3), ("Net error", 9), ("Abort", 1), ("Timeout", 2))
        for at in range(count)
    ]
    check = check_of(profile_of(tmp_path, INFO, *others), "communication.library_warnings")
    assert check is not None
    assert [each.facts[0].value for each in check.support[:3]] == [9.0, 3.0, 2.0]
    assert check.support[3].template == "And 1 other warnings."


@pytest.mark.parametrize(
    "stamp", ["[{:5d}.000000] ", "[Mon Nov 23 10:{:02d}:00 2026] "], ids=["since the start", "dates of dmesg -T"]
)
def test_the_rate_of_a_drivers_error_is_by_the_times_of_the_kernels_log(tmp_path: Path, stamp: str) -> None:
    minutes = range(0, 31, 10)
    lines = [
        f"{stamp.format(at if 'Mon' in stamp else 60 * at)}NVRM: Xid (PCI:0000:3b:00): 63, row remapped"
        for at in minutes
    ]
    profile = profile_of(tmp_path, *lines)
    assert measure(profile, "reported_error_lines", code="Xid 63").value == 4.0
    assert measure(profile, "reported_errors_per_h", code="Xid 63").value == pytest.approx(6.0)
    check = check_of(profile, "computation.device_errors")
    assert check is not None
    assert [fact.value for fact in check.support[0].facts] == pytest.approx([4.0, 6.0])
