"""Step lines as a pattern of the user describes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.errors import UsageError
from tools.sources.job_log.grammars.given_pattern import LONGEST, GivenPattern
from tools.sources.job_log.reader import read_job_log
from tools.sources.load import load_run
from tools.sources.options import LoadOptions

PATTERN = r"upd (?P<step>\d+) .*took (?P<time_s>[\d.]+), (?P<samples>\d+) docs, (?P<tokens>[\d,]+)"
LINES = "".join(f"2: upd {at} loss 1.0 took {at}.5, 32 docs, 2,048\n" for at in range(1, 31))


def test_the_figures_are_those_of_the_named_groups(tmp_path: Path) -> None:
    path = tmp_path / "train.out"
    path.write_text("starting\n" + LINES)
    log = read_job_log(path, pattern=PATTERN).log
    assert log is not None
    assert log.grammars == ("given pattern",)
    rows = log.steps[["rank", "step", "wall_ms", "samples", "line"]].to_numpy().tolist()
    assert rows[:2] == [[2, 1, 1500.0, 32, 2], [2, 2, 2500.0, 32, 3]]
    assert log.steps["tokens_per_s"].iloc[0] == pytest.approx(2048 / 1.5)
    assert len(rows) == 30


def test_a_pattern_without_a_step_counts_its_lines_and_wins_over_other_lines(tmp_path: Path) -> None:
    (tmp_path / "train.out").write_text(
        "".join(f"step {at} took 9 s\nbatch done in {at}.0 ms\n" for at in range(1, 40))
    )
    run = load_run([tmp_path], LoadOptions(log_pattern=r"done in (?P<time_ms>[\d.]+)"))
    assert run.job_log is not None
    assert run.job_log.steps["wall_ms"].tolist() == [float(at) for at in range(1, 40)]
    assert run.job_log.steps["step"].tolist() == list(range(1, 40))


def test_a_file_of_unknown_lines_is_a_log_by_the_pattern_alone(tmp_path: Path) -> None:
    path = tmp_path / "anything"
    path.write_text("\n".join(f"tick {at}: {0.5 + at % 2 / 100} sec" for at in range(30)))
    run = load_run([path], LoadOptions(log_pattern=r"tick (?P<step>\d+): (?P<time>[\d.]+)"))
    assert run.job_log is not None
    assert run.job_log.steps["wall_ms"].tolist() == pytest.approx([500 + 10 * (at % 2) for at in range(30)])
    assert any("no unit" in note for note in run.notes)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (r"(?P<time>\d+", "is not valid"),
        (r"(?P<time>\d+)(?=x)", "is not valid"),
        (r"(\d+) (?P<time>\d+)", "is not valid"),
        (r"(?P<step>\d+)", "has no group for a time"),
        (r"(?P<time>\d+) (?P<loss>\d+)", "has a group 'loss'"),
        ("x" * (LONGEST + 1), "more than 1000 characters"),
    ],
)
def test_a_bad_pattern_is_one_sentence(pattern: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as error:
        GivenPattern(pattern)
    assert "\n" not in str(error.value)


def test_a_pattern_that_would_backtrack_without_end_takes_no_time() -> None:
    pattern = GivenPattern(r"(?P<time>(?:a|aa)*)*b")
    assert pattern.starts(b"a" * 60_000 + b"\n") == []


@given(text=st.binary(max_size=200))
def test_any_bytes_are_searched(text: bytes) -> None:
    pattern = GivenPattern(r"(?P<step>.)(?P<time>.*)")
    starts = pattern.starts(text + b"\nline\n")
    assert len(text) + 1 in starts
    assert pattern.line(b"line") is not None


def test_a_clock_of_the_pattern_gives_the_differences_of_its_lines(tmp_path: Path) -> None:
    """Steps of 250 ms, and one of 750 ms after the tenth, on a clock in ms since the start."""
    clocks = [1000 + 250 * at + (500 if at > 9 else 0) for at in range(30)]
    path = tmp_path / "train.out"
    path.write_text("".join(f"upd {at} at {clock}\n" for at, clock in enumerate(clocks)))
    log = read_job_log(path, pattern=r"upd (?P<step>\d+) at (?P<clock_ms>\d+)").log
    assert log is not None
    assert log.steps["wall_ms"].tolist() == [750.0 if at == 10 else 250.0 for at in range(1, 30)]
    path.write_text("".join(f"upd {at} at {clock / 1e3:.2f}\n" for at, clock in enumerate(clocks)))
    in_seconds = read_job_log(path, pattern=r"upd (?P<step>\d+) at (?P<clock_s>[\d.]+)").log
    assert in_seconds is not None
    assert in_seconds.steps["wall_ms"].tolist() == pytest.approx(log.steps["wall_ms"].tolist())


def test_times_of_the_pattern_that_only_rise_point_to_the_groups_of_a_clock(tmp_path: Path) -> None:
    path = tmp_path / "train.out"
    path.write_text("".join(f"upd {at} at {1000 + 250 * at}\n" for at in range(30)))
    notes = read_job_log(path, pattern=r"upd (?P<step>\d+) at (?P<time_ms>\d+)").notes
    assert any("name its group clock_s or clock_ms" in note for note in notes)
