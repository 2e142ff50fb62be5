"""Two files with one reading each of the same totals: their differences, where it is known which came first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.analyzers.registry import check_of
from tools.errors import UsageError
from tools.metrics.registry import measure
from tools.sources.load import load_run
from tools.views.profile import Profile

LINE = "link mlx5_0/1 rx_write_requests 10 out_of_sequence {} local_ack_timeout_err {} rnr_nak_retry_err 0\n"


def profile_of(folder: Path, **files: str) -> Profile:
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text)
    return Profile(load_run([folder]))


def read(out_of_sequence: int, timeouts: int = 3) -> str:
    return LINE.format(out_of_sequence, timeouts)


@pytest.mark.parametrize(
    ("first", "second"),
    [("rdma_before", "rdma_after"), ("t0-rdma", "t1-rdma"), ("pre_x", "post_x"), ("rdma.start", "rdma.end")],
)
def test_names_say_which_reading_came_first(tmp_path: Path, first: str, second: str) -> None:
    profile = profile_of(tmp_path, **{first: read(100), second: read(850)})
    assert measure(profile, "counted_rise", counter="rdma_out_of_sequence").value == 750.0
    assert measure(profile, "counted_rise", counter="rdma_timeouts").value == 0.0
    with pytest.raises(UsageError, match="known times"):
        measure(profile, "counted_per_s", counter="rdma_out_of_sequence")


@pytest.mark.parametrize(
    ("first", "second", "passed_s"),
    [
        ("rdma_20261123_100000", "rdma_20261123_100500", 300.0),
        ("rdma.2026-11-23T10:00", "rdma.2026-11-23T10:10", 600.0),
        ("rdma-1700000000", "rdma-1700000060", 60.0),
    ],
)
def test_dates_in_names_give_the_order_and_the_rate(tmp_path: Path, first: str, second: str, passed_s: float) -> None:
    profile = profile_of(tmp_path, **{second: read(850), first: read(100)})
    assert measure(profile, "counted_per_s", counter="rdma_out_of_sequence").value == pytest.approx(750.0 / passed_s)


def test_the_check_states_the_rise_and_the_rate(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, **{"rdma-1700000000": read(100), "rdma-1700000100": read(85_100)})
    check = check_of(profile, "communication.network_samples")
    assert check is not None
    (finding,) = check.findings
    assert [fact.value for fact in finding.claim.facts] == [85_000.0]
    assert [fact.value for each in finding.details for fact in each.facts] == [850.0]


@pytest.mark.parametrize(("first", "second"), [("node1", "node2"), ("rdma_1", "rdma_2"), ("a_before", "b_after")])
def test_other_names_order_nothing_and_are_asked_for(tmp_path: Path, first: str, second: str) -> None:
    profile = profile_of(tmp_path, **{first: read(100), second: read(850)})
    check = check_of(profile, "communication.network_samples")
    assert check is not None
    assert check.status == "cannot_answer"
    assert any("name them `before` and `after`" in note for note in profile.run.notes)


def test_totals_that_fall_are_of_another_machine_or_start(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, before=read(850), after=read(100))
    assert any("totals of the second are lower" in note for note in profile.run.notes)
    with pytest.raises(UsageError, match="were not read twice"):
        measure(profile, "counted_rise", counter="rdma_out_of_sequence")


def test_one_file_alone_stays_a_total_since_the_start(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, before=read(850))
    assert measure(profile, "counted_total", counter="rdma_out_of_sequence").value == 850.0
    check = check_of(profile, "communication.network_samples")
    assert check is not None
    said = [each.template for each in check.support]
    assert "RDMA packets out of sequence since the counters started: {0}." in said
    assert not [note for note in profile.run.notes if "before" in note and "after" in note]
