"""Answers of NCCL RAS: ranks that are lost, fail, or are behind while nothing moves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.collective_lines import ras_answer, ras_lost, ras_rank
from tools.analyzers.registry import check_of
from tools.findings import Check
from tools.judgement.ranking import ranking
from tools.sources.load import load_run
from tools.views.profile import Profile

LATER = "2026-03-01 10:01:00"


def profile_of(folder: Path, *answers: str) -> Profile:
    for place, text in enumerate(answers):
        (folder / f"answer{place}.json").write_text(text)
    return Profile(load_run([folder]))


def answer(profile: Profile) -> Check:
    found = check_of(profile, "communication.ras")
    assert found is not None
    return found


def test_a_rank_behind_in_two_answers_without_movement_is_named(tmp_path: Path) -> None:
    stands = [ras_rank(rank, 9 if rank == 2 else 12) for rank in range(4)]
    profile = profile_of(tmp_path, ras_answer(stands), ras_answer(stands, at=LATER))
    (finding,) = answer(profile).findings
    assert (finding.cause, finding.ranks) == ("straggler", (2,))
    assert [fact.value for fact in finding.claim.facts] == [3.0]
    assert ranking(profile).verdict == "inconclusive"


def test_counts_that_grow_are_a_running_job(tmp_path: Path) -> None:
    before = [ras_rank(rank, 9 if rank == 2 else 12) for rank in range(4)]
    after = [ras_rank(rank, 19 if rank == 2 else 22) for rank in range(4)]
    assert answer(profile_of(tmp_path, ras_answer(after, at=LATER), ras_answer(before))).status == "clean"


def test_one_answer_does_not_show_who_is_behind(tmp_path: Path) -> None:
    check = answer(profile_of(tmp_path, ras_answer([ras_rank(rank, 12 - rank) for rank in range(4)])))
    assert check.status == "cannot_answer"
    assert "any running job" in check.reason


@pytest.mark.parametrize(
    ("lost", "error", "verdict", "text"),
    [
        ([ras_lost(3)], 0, "inconclusive", "Rank 3, on {n0}: missing"),
        ([ras_lost(3, dead=True)], 0, "problem", "Rank 3, on {n0}: considered dead"),
        ([], 6, "problem", "Rank 0: a communicator reports an error"),
    ],
)
def test_lost_dead_and_failed_ranks_are_named(
    tmp_path: Path, lost: list[dict[str, object]], error: int, verdict: str, text: str
) -> None:
    profile = profile_of(tmp_path, ras_answer([ras_rank(0, 5, error), ras_rank(1, 5), ras_rank(2, 5)], lost))
    check = answer(profile)
    assert check.status == "found"
    assert text in check.support[0].template
    assert ranking(profile).verdict == verdict


def test_an_operation_in_progress_is_no_error(tmp_path: Path) -> None:
    answers = [ras_answer([ras_rank(rank, 5, 7) for rank in range(3)], at=at) for at in ("a", "b")]
    assert answer(profile_of(tmp_path, *answers)).status == "clean"


def test_ranks_of_a_part_of_the_job_are_not_taken_for_those_of_the_job(tmp_path: Path) -> None:
    """Two communicators of two processes each, and none of all four: rank 1 of both is behind."""
    parts = [
        [ras_rank(0, 12), ras_rank(1, 9)],
        [{**ras_rank(2, 12), "rank": 0}, {**ras_rank(3, 10), "rank": 1}],
    ]
    texts = []
    for at in ("2026-03-01 10:00:00", LATER):
        first, second = (json.loads(ras_answer(ranks, at=at)) for ranks in parts)
        second["communicators"][0]["hash"] = "0x1"
        texts.append(json.dumps({**first, "communicators": [*first["communicators"], *second["communicators"]]}))
    profile = profile_of(tmp_path, *texts)
    check = answer(profile)
    assert check.findings == ()
    assert [(each.names[0], each.names[2]) for each in check.support] == [("1", "10.0.0.0"), ("1", "10.0.0.1")]
    assert ranking(profile).verdict == "inconclusive"
