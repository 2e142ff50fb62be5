"""Times before log lines: syslog, glog, seconds since 1970, container runtimes; years and zones that are absent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from tools.metrics.registry import measure
from tools.run.recorded.job_log import JobLog
from tools.sources.job_log.prefixes import LogClock, Stamp, after, parse_line, stamp_within
from tools.sources.job_log.reader import read_job_log
from tools.sources.job_log.recognise import is_job_log
from tools.sources.load import load_run
from tools.views.profile import Profile

NEW_YEAR = datetime(2026, 12, 31, 23, 59, 30, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HEADS: dict[str, Callable[[datetime], str]] = {
    "syslog": lambda at: f"{at:%b %d %H:%M:%S} node7 python[331]: ",
    "syslog of one host": lambda at: f"{at:%b %d %H:%M:%S} ",
    "ctime": lambda at: f"[{at:%a %b %d %H:%M:%S %Y}] ",
    "glog": lambda at: f"I{at:%m%d %H:%M:%S.%f}   123 train.py:55] ",
    "container runtime": lambda at: f"{at:%Y-%m-%dT%H:%M:%S.%f}123Z stdout F ",
    "ISO with a zone": lambda at: f"{at + timedelta(hours=1):%Y-%m-%dT%H:%M:%S.%f}+01:00 ",
    "UTC in a word": lambda at: f"{at:%Y-%m-%d %H:%M:%S} UTC ",
    "since 1970": lambda at: f"{at.timestamp():.6f} ",
    "since 1970 in brackets": lambda at: f"[{at.timestamp():.0f}] ",
    "ms since 1970": lambda at: f"{at.timestamp() * 1000:.0f} ",
    "ns since 1970": lambda at: f"{at.timestamp() * 1000:.0f}000000 ",
}
YEARLESS = ("syslog", "syslog of one host", "glog")
ZONED = ("container runtime", "ISO with a zone", "UTC in a word", *(each for each in HEADS if "1970" in each))


def stamp_of(text: str) -> Stamp | None:
    line = parse_line(1, text.encode())
    return line.stamp or stamp_within(line.text)


def log_of(path: Path, head: Callable[[datetime], str], every: timedelta, count: int = 40) -> JobLog:
    """A log over the end of a year whose lines name a step and no time."""
    lines = [f"{head(NEW_YEAR + at * every)}step {at} loss 2.{at:03d}\n" for at in range(1, count + 1)]
    path.write_text("".join(lines))
    read = read_job_log(path)
    assert read.log is not None
    return read.log


@pytest.mark.parametrize("name", HEADS)
def test_each_form_gives_the_time_between_lines_over_the_end_of_a_year(tmp_path: Path, name: str) -> None:
    log = log_of(tmp_path / "train.log", HEADS[name], every=25 * SECOND)
    assert is_job_log(tmp_path / "train.log")
    assert log.step_time == "stamps"
    assert log.steps["step"].tolist() == list(range(2, 41))
    assert log.steps["wall_ms"].to_numpy() == pytest.approx(np.full(39, 25_000.0))


@pytest.mark.parametrize("name", HEADS)
def test_a_clock_is_compared_with_others_only_where_the_year_is_stated(tmp_path: Path, name: str) -> None:
    log = log_of(tmp_path / "train.log", HEADS[name], every=25 * SECOND)
    expected = "none" if name in YEARLESS else "unix" if name in ZONED else "local"
    assert log.clock == expected
    if name in YEARLESS:
        assert log.steps["written_ns"].isna().all()
    else:
        second = (NEW_YEAR + 50 * SECOND).timestamp()
        assert log.steps["written_ns"].iloc[0] / 1e9 == pytest.approx(second, abs=0.001)


@pytest.mark.parametrize(
    ("earlier", "later", "seconds"),
    [
        ("Feb 28 23:59:50 ", "Mar  1 00:00:10 ", 20.0),
        ("Feb 28 23:59:50 ", "Feb 29 00:00:10 ", 20.0),
        ("Feb 29 23:59:50 ", "Mar  1 00:00:10 ", 20.0),
        ("Dec 31 23:59:50 ", "Jan  1 00:00:10 ", 20.0),
        ("Jan 10 00:00:00 ", "Jan 12 00:00:00 ", 172_800.0),
    ],
)
def test_a_date_without_a_year_passes_its_end_and_the_end_of_february(earlier: str, later: str, seconds: float) -> None:
    first, second = stamp_of(earlier + "x"), stamp_of(later + "x")
    assert first is not None
    assert second is not None
    assert after(second, first) == seconds


def test_lines_with_times_of_several_kinds_give_no_difference(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    heads = [HEADS["since 1970"], HEADS["syslog of one host"]]
    path.write_text("".join(f"{heads[at % 2](NEW_YEAR + 25 * at * SECOND)}step {at} loss 1.0\n" for at in range(1, 41)))
    assert read_job_log(path).log is None


def test_a_clock_leaves_out_times_of_another_kind_than_its_first() -> None:
    clock = LogClock()
    assert clock.seconds(stamp_of("1795432923.5 x")) == 1_795_432_923.5
    assert clock.seconds(stamp_of("Nov 23 11:02:03 x")) is None
    assert clock.seconds(stamp_of("1795432925.5 x")) == 1_795_432_925.5


@pytest.mark.parametrize(
    "text",
    [
        "  1073741824     268435456     float     sum      -1   11520  93.20  174.75      0",
        "  1610612736     402653184     float     sum      -1   11520  93.20  174.75      0",
        "Feb 30 11:02:03 x",
        "I1323 11:02:03.123456 1 a.py:1] x",
        "Ideally step 4 takes 3 ms",
        "March 3",
    ],
    ids=["bytes", "bytes of a year", "no such day", "no such month", "a word", "another word"],
)
def test_numbers_of_bytes_words_and_impossible_dates_are_no_times(text: str) -> None:
    assert stamp_of(text) is None


def test_the_head_of_pytorchs_lines_gives_a_time_and_stays_in_the_text() -> None:
    line = parse_line(1, b"[rank3]:[E419 10:42:28.858931807 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught")
    assert line.rank == 3
    assert line.text.startswith("[E419")
    stamp = stamp_within(line.text)
    assert stamp is not None
    assert (stamp.yearless, stamp.zoned) == (True, False)
    assert stamp.resolution_s == pytest.approx(1e-9)


def test_errors_of_a_syslog_have_their_rate_over_the_end_of_a_year(tmp_path: Path) -> None:
    path = tmp_path / "messages"
    error = "kernel: [ 1234.{:06d}] NVRM: Xid (PCI:0000:3b:00): 63, row remapped"
    path.write_text(
        "".join(f"{NEW_YEAR + timedelta(minutes=20 * at):%b %d %H:%M:%S} node7 {error.format(at)}\n" for at in range(7))
    )
    profile = Profile(load_run([path]))
    assert measure(profile, "reported_errors_per_h", code="Xid 63", place="0000:3b:00").value == pytest.approx(3.0)
