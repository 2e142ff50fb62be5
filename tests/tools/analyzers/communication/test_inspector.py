"""Lines of NCCL Inspector with known answers: the rank that enters last, and the communicator below its peers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.collective_lines import inspector_line, world_lines, write_lines
from tools.analyzers.registry import check_of
from tools.findings import Check
from tools.judgement.ranking import ranking
from tools.sources.load import load_run
from tools.views.profile import Profile

PAIRS = ((0, 1), (2, 3), (4, 5), (6, 7))


def answer(profile: Profile, name: str) -> Check:
    found = check_of(profile, f"communication.inspector_{name}")
    assert found is not None
    return found


def pairs(busbw: dict[int, float]) -> dict[int, list[str]]:
    """30 all-reduces of all eight ranks, then 30 in each pair, at the pair's bandwidth."""
    lines = world_lines({rank: [100.0] * 30 for rank in range(8)})
    for place, members in enumerate(PAIRS):
        for member, process in enumerate(members):
            lines[process] += [
                inspector_line(
                    member, 200.0, at, communicator=f"0x{place}", ranks=2, busbw=busbw[place], process=process
                )
                for at in range(30)
            ]
    return lines


def test_the_rank_that_enters_last_is_the_straggler(tmp_path: Path) -> None:
    """The transfer takes 100 us; ranks 0, 1 and 3 wait 300 us more for rank 2."""
    lines = world_lines({rank: [100.0 if rank == 2 else 400.0] * 30 for rank in range(4)})
    profile = Profile(load_run([write_lines(tmp_path, lines)]))
    (finding,) = answer(profile, "arrival").findings
    assert (finding.cause, finding.ranks) == ("straggler", (2,))
    assert [fact.value for fact in finding.claim.facts] == pytest.approx([100.0, 0.3, 0.4])
    assert finding.claim.names[0] == "node1"
    assert ranking(profile).verdict == "inconclusive"


def test_ranks_that_take_turns_in_entering_last_are_clean(tmp_path: Path) -> None:
    lines = world_lines({rank: [100.0 if at % 4 == rank else 400.0 for at in range(32)] for rank in range(4)})
    check = answer(Profile(load_run([write_lines(tmp_path, lines)])), "arrival")
    assert check.status == "clean"
    assert [fact.value for fact in check.support[0].facts] == pytest.approx([25.0, 0.3, 0.4])


def test_a_rank_that_is_last_by_little_is_no_straggler(tmp_path: Path) -> None:
    lines = world_lines({rank: [100.0 if rank == 2 else 110.0] * 30 for rank in range(4)})
    assert answer(Profile(load_run([write_lines(tmp_path, lines)])), "arrival").status == "clean"


@pytest.mark.parametrize(
    ("ranks", "timing", "reason"),
    [((0, 1, 3), "kernel_gpu", "every rank of their communicator"), ((0, 1, 2, 3), "collective_cpu", "on the host")],
)
def test_without_a_rank_or_the_device_s_times_it_is_not_judged(
    tmp_path: Path, ranks: tuple[int, ...], timing: str, reason: str
) -> None:
    lines = world_lines({rank: [100.0 if rank == 1 else 400.0] * 30 for rank in range(4)}, timing)
    profile = Profile(load_run([write_lines(tmp_path, {rank: lines[rank] for rank in ranks})]))
    for name in ("arrival", "bandwidth"):
        check = answer(profile, name)
        assert check.status == "cannot_answer"
        assert reason in check.reason


def test_a_communicator_below_its_peers_has_a_slow_link(tmp_path: Path) -> None:
    profile = Profile(load_run([write_lines(tmp_path, pairs({0: 40.0, 1: 42.0, 2: 10.0, 3: 44.0}))]))
    (finding,) = answer(profile, "bandwidth").findings
    assert (finding.cause, finding.ranks) == ("slow_link", (4, 5))
    assert [fact.value for fact in finding.claim.facts] == pytest.approx([10.0, 42.0])
    assert finding.claim.names == ("0x2", "node2", "AllReduce")


def test_communicators_that_agree_are_clean(tmp_path: Path) -> None:
    profile = Profile(load_run([write_lines(tmp_path, pairs({0: 40.0, 1: 42.0, 2: 38.0, 3: 44.0}))]))
    check = answer(profile, "bandwidth")
    assert check.status == "clean"
    assert [fact.value for fact in check.support[0].facts] == pytest.approx([38.0, 42.0])
