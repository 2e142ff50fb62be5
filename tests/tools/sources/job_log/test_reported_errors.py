"""Errors of drivers in a log are counted by code, device and missing rank, and answered with what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.job_log.logs import megatron
from tools.analyzers.registry import check_of
from tools.knowledge.tables import table
from tools.metrics.registry import measure
from tools.run.recorded.job_log import ReportedError
from tools.sources.job_log.reported_errors import MOST_ERRORS
from tools.sources.load import load_run
from tools.sources.options import LoadOptions
from tools.views.profile import Profile

XID = "[{at}.5] NVRM: Xid (PCI:0000:{bus}:00): {code}, pid=12, name=python, more"
WAITED = (
    "EI0002: [PID: 7] 2026-03-01-11:59:30.645.648 The wait execution of the Notify register times out. Reason: "
    "The Notify register has not received the Notify record from remote rank [{rank}].base information: [taskID[5]]"
)
OF_PROCESS = "[ERROR] 2026-03-01-11:59:30 (PID:7, Device:0, RankID:{rank}) ERR00100 PTA call acl api failed"
LINK = "[ERROR] HCCL(39,t) | 10.0.0.8({to}) | 16666 | 10.0.0.9({own}) | 0 | server | time out | DISABLE |"
AGENTS = '[ERROR] HCCL(39,t) TopoDetect ERROR occur !!! fault_type[1], fault_info["Failed to connect agent[1,3,]"]'


def profile_of(folder: Path, *lines: str) -> Profile:
    path = folder / "any.txt"
    path.write_text("\n".join(lines) + "\n")
    return Profile(load_run([path], LoadOptions(workers=1)))


def errors(profile: Profile) -> tuple[ReportedError, ...]:
    assert profile.run.job_log is not None
    return profile.run.job_log.errors


def said(profile: Profile, name: str) -> list[str]:
    check = check_of(profile, name)
    assert check is not None
    return [f"{each.template} {each.names}" for each in check.support]


def test_xid_lines_are_counted_by_code_and_device_in_a_kernels_log_alone(tmp_path: Path) -> None:
    lines = [XID.format(at=at, bus="3B", code=79) for at in range(3)] + [XID.format(at=9, bus="86", code=31)]
    profile = profile_of(tmp_path, *lines)
    assert [(each.code, each.place, each.count, each.first_line, each.last_line) for each in errors(profile)] == [
        ("Xid 79", "0000:3b:00", 3, 1, 3),
        ("Xid 31", "0000:86:00", 1, 4, 4),
    ]
    assert measure(profile, "reported_error_lines", code="Xid 79", place="0000:3b:00").value == 3
    first, second, which = said(profile, "computation.device_errors")
    assert "no longer reachable" in first
    assert "hardware" in first
    assert "usually the program's" in second
    assert which.endswith("('Xid 79', '0000:3b:00')")


def test_the_step_before_an_error_is_named(tmp_path: Path) -> None:
    steps = megatron(*[(step, 1000.0) for step in range(1, 7)])
    before, after = steps.splitlines()[:4], steps.splitlines()[4:]
    profile = profile_of(tmp_path, *before, XID.format(at=1, bus="3b", code=48), *after)
    last = profile.run.job_log.steps.query("line < 5")["step"].max() if profile.run.job_log is not None else 0
    assert f"first after step {last}" in said(profile, "computation.device_errors")[0]


def test_an_unknown_code_is_not_explained(tmp_path: Path) -> None:
    assert (
        "not in the table"
        in said(profile_of(tmp_path, XID.format(at=1, bus="3b", code=999)), "computation.device_errors")[0]
    )


@pytest.mark.parametrize(
    ("line", "code", "ranks"),
    [
        (WAITED.format(rank=4), "EI0002", (4,)),
        (WAITED.format(rank="unknown"), "EI0002", ()),
        (LINK.format(to=1, own=0), "EI0006", (1,)),
        (AGENTS, "EI0015", (1, 3)),
    ],
)
def test_hccl_names_the_rank_that_did_not_arrive(tmp_path: Path, line: str, code: str, ranks: tuple[int, ...]) -> None:
    profile = profile_of(tmp_path, *([WAITED.format(rank="unknown")] if code != "EI0002" else []), line, line)
    (own,) = (each for each in errors(profile) if each.code == code)
    assert (own.remote, own.count) == (ranks, 2)
    texts = " ".join(said(profile, "communication.hccl_errors"))
    named = ", ".join(map(str, ranks))
    assert (f"{named} of the communicator did not arrive" in texts) == bool(ranks)


@pytest.mark.parametrize("code", ["EI0001", "EI0004", "EI0005", "EI0009"])
def test_an_error_that_is_no_wait_says_nothing_of_ranks_that_did_not_arrive(tmp_path: Path, code: str) -> None:
    line = "{code}: [PID: 7] A parameter is not valid. Reason: it differs from that of remote rank [4]"
    (text,) = said(profile_of(tmp_path, line.format(code=code)), "communication.hccl_errors")
    assert "did not arrive" not in text
    assert "first to look at" not in text
    unnamed = profile_of(tmp_path, f"{code}: [PID: 7] Something is not valid.")
    assert "first to look at" not in said(unnamed, "communication.hccl_errors")[0]


@pytest.mark.parametrize("code", ["EI0002", "EI0006", "EI0015"])
def test_of_a_wait_without_a_rank_the_log_without_the_error_is_to_be_looked_at(tmp_path: Path, code: str) -> None:
    profile = profile_of(tmp_path, f"{code}: [PID: 7] A time-out. Reason: unknown.")
    assert "first to look at" in said(profile, "communication.hccl_errors")[0]


def test_errors_of_the_device_are_listed_first_and_those_that_are_not_listed_are_counted(tmp_path: Path) -> None:
    """Of 9 errors 7 are of programs (Xid 31, two lines each) and come before the two of the hardware in the log."""
    program = [XID.format(at=at, bus=f"{at:02x}", code=31) for at in range(7) for _ in range(2)]
    hardware = [XID.format(at=9, bus="86", code=79), XID.format(at=9, bus="87", code=48)]
    *listed, more, first = said(profile_of(tmp_path, *program, *hardware), "computation.device_errors")
    assert [each.partition("('")[2].partition("'")[0] for each in listed] == ["Xid 79", "Xid 48"] + ["Xid 31"] * 4
    assert "And 3 more errors by code and device (6 lines), 0 of the hardware" in more
    assert "('Xid 31', '0000:00:00')" in first


def test_errors_beyond_the_limit_are_noted(tmp_path: Path) -> None:
    lines = [XID.format(at=1, bus=f"{at:04x}", code=79) for at in range(MOST_ERRORS + 3)]
    profile = profile_of(tmp_path, *lines, lines[0])
    assert sum(each.count for each in errors(profile)) == MOST_ERRORS + 1
    (source,) = profile.run.sources
    assert source.status == "partial"
    assert "first 4,096 errors" in source.note
    assert "3 lines with further ones are not" in source.note
    assert "And 4090 more errors" in said(profile, "computation.device_errors")[-2]


def test_words_about_errors_are_no_errors(tmp_path: Path) -> None:
    lines = [*megatron(*[(step, 1000.0) for step in range(1, 4)]).splitlines(), "see Xid 79 and EI0002 in the manual"]
    assert not errors(profile_of(tmp_path, *lines))


def test_every_known_code_says_something_and_whose_it_is() -> None:
    rows = table("device_errors")
    assert {row["whose"] for row in rows.values()} == {"device", "program", "open"}
    assert all(row["says"] and not row["says"].endswith(".") for row in rows.values())


@pytest.mark.parametrize(
    ("before", "waiting"),
    [
        ([OF_PROCESS.format(rank=8)], (8,)),
        ([OF_PROCESS.format(rank=8), OF_PROCESS.format(rank=9)], ()),
        ([], ()),
    ],
)
def test_the_rank_that_waited_is_the_one_that_its_process_names_once(
    tmp_path: Path, before: list[str], waiting: tuple[int, ...]
) -> None:
    profile = profile_of(tmp_path, *before, WAITED.format(rank="unknown"))
    assert profile.run.job_log is not None
    assert [each.waiting for each in profile.run.job_log.errors] == [waiting]
    check = check_of(profile, "communication.hccl_errors")
    assert check is not None
    assert ("Rank 8 waited" in check.support[0].template) is bool(waiting)
