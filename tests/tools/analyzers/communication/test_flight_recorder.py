"""What the dumps of a flight recorder answer: the ranks to look at, a verdict where a time-out is shown, else none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from evals.fuzz.seeds import trace
from hermes_agent.report.opening import opening
from tests.flight_dumps import START_NS, Made, done, dump, write
from tools.analyzers.registry import check_of
from tools.findings import Check
from tools.judgement.hypotheses import propose
from tools.judgement.ranking import ranking
from tools.judgement.verdict import Judgement, Verdict, with_unfinished
from tools.sources.load import load_run
from tools.views.profile import Profile

WAITING = Made(state="scheduled")
WATCHDOG = (
    "[rank0]:[E916 05:30:28.858931807 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=6, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600013 milliseconds\n"
)
STATUS = (
    "[rank0]:[E916 05:30:29.1 ProcessGroupNCCL.cpp:1834] [PG ID 0 PG GUID 0(group_0) Rank 0] Exception (either an "
    "error or timeout) detected by watchdog at work: 6, last enqueued NCCL work: 6, last completed NCCL work: 5.\n"
)


def profile_of(folder: Path, calls: Mapping[int, Sequence[Made]], world: int) -> Profile:
    dumps = {rank: dump(each, {"0": range(world)}) for rank, each in calls.items()}
    return Profile(load_run([write(folder, dumps)]))


def trace_of(world: int) -> bytes:
    """A trace of rank 0 that states the size of the job, recorded when the dumps were."""
    stated = json.loads(trace())
    stated["distributedInfo"]["world_size"] = world
    stated["baseTimeNanoseconds"] = START_NS
    return json.dumps(stated).encode()


def answer(profile: Profile) -> Check:
    found = check_of(profile, "communication.flight_recorder")
    assert found is not None
    return found


def test_the_missing_rank_is_a_straggler_with_the_calls_that_it_lacks(tmp_path: Path) -> None:
    calls = {rank: [*done(5), WAITING, WAITING] for rank in (0, 1, 3)} | {2: done(5)}
    profile = profile_of(tmp_path, calls, 4)
    (finding,) = answer(profile).findings
    assert (finding.cause, finding.ranks) == ("straggler", (2,))
    assert finding.claim.names == ("all_reduce", "6", "group_0 0")
    assert [fact.value for fact in finding.claim.facts] == [3.0]
    (behind,) = finding.details[0].facts
    assert (behind.value, behind.ranks) == (2.0, (2,))
    assert behind.selector == "3 dumps"
    assert any("running job" in each.template for each in finding.against)
    judged = ranking(profile)
    assert judged.verdict == "inconclusive"
    assert "py-spy" in judged.needs


def test_with_a_time_out_in_the_output_the_verdict_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(WATCHDOG)
    profile = profile_of(tmp_path, {0: [*done(5), WAITING], 1: done(5)}, 2)
    (finding,) = answer(profile).findings
    assert finding.confidence > 0.8
    assert not any("running job" in each.template for each in finding.against)
    assert ranking(profile).verdict == "problem"


@pytest.mark.parametrize(
    ("line", "same"),
    [
        (WATCHDOG, True),
        (WATCHDOG.replace("E916 05", "E916 19"), True),  # of another time zone
        (WATCHDOG.replace("E916", "E419"), False),
        (WATCHDOG.replace("SeqNum=6", "SeqNum=4486"), False),
        (WATCHDOG.replace("ALLREDUCE", "ALLTOALL"), False),
        (WATCHDOG.replace("ALLREDUCE", "COALESCED"), True),
        (WATCHDOG + STATUS, True),
        (WATCHDOG + STATUS.replace("(group_0)", "(tp)").replace("GUID 0", "GUID 7"), False),
        (WATCHDOG + STATUS.replace("(group_0)", "(tp)").replace("work: 6", "work: 3"), True),  # of a group that goes on
    ],
)
def test_a_time_out_counts_only_where_its_collective_waits_in_the_dumps(tmp_path: Path, line: str, same: bool) -> None:
    (tmp_path / "job.log").write_text(line)
    profile = profile_of(tmp_path, {0: [*done(5), WAITING], 1: done(5)}, 2)
    (finding,) = answer(profile).findings
    assert (finding.confidence > 0.8) is same
    assert any("another collective" in each.template for each in finding.against) is not same
    judged = ranking(profile)
    assert judged.verdict == ("problem" if same else "inconclusive")
    assert ("none of those that wait in the dumps" in judged.why) is not same


def test_a_rank_on_which_nothing_ends_points_at_its_device(tmp_path: Path) -> None:
    calls = {rank: [*done(5), WAITING] for rank in (0, 1)} | {2: [*done(3), WAITING, WAITING, WAITING]}
    (finding,) = answer(profile_of(tmp_path, calls, 3)).findings
    assert (finding.cause, finding.mechanism, finding.ranks) == ("slow_device", "faulty_device", (2,))
    assert [fact.value for fact in finding.details[0].facts] == [2.0]


def test_calls_that_do_not_match_are_a_problem_without_a_cause_of_slowness(tmp_path: Path) -> None:
    calls = {rank: [*done(2), WAITING] for rank in (0, 1, 3)} | {2: [*done(2), Made("broadcast", "scheduled")]}
    profile = profile_of(tmp_path, calls, 4)
    check = answer(profile)
    assert check.findings == ()
    assert "Look at rank 2 first." in check.support[0].template
    assert check.support[0].names == ("group_0", "3", "broadcast", "all_reduce")
    assert ranking(profile).verdict == "problem"


@pytest.mark.parametrize(
    ("calls", "world", "reason"),
    [
        ({0: [*done(40), WAITING], 1: [*done(19), WAITING]}, 2, "different moments: rank 0"),
        ({0: [*done(5), WAITING], 1: [*done(5), WAITING]}, 3, "no dump shows what rank 2 called"),
        ({0: done(5), 1: done(5)}, 3, "in no dump a collective waits, and rank 2 left none"),
    ],
)
def test_where_the_dumps_do_not_show_it_nobody_is_blamed(
    tmp_path: Path, calls: dict[int, list[Made]], world: int, reason: str
) -> None:
    profile = profile_of(tmp_path, calls, world)
    check = answer(profile)
    assert check.status == "cannot_answer"
    assert reason in check.reason
    assert ranking(profile).verdict == "inconclusive"


def test_dumps_of_all_ranks_in_which_all_has_ended_are_clean_and_not_healthy(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, {rank: done(5) for rank in range(2)}, 2)
    assert answer(profile).status == "clean"
    assert ranking(profile).verdict == "inconclusive"


def test_a_collective_that_all_have_entered_is_described_and_nobody_is_blamed(tmp_path: Path) -> None:
    calls = {0: [*done(4), Made(state="started")], 1: [*done(4), WAITING]}
    check = answer(profile_of(tmp_path, calls, 2))
    assert check.status == "found"
    assert check.findings == ()
    assert "runs on rank 0 and has not started on rank 1" in check.support[1].template


def test_dumps_next_to_a_trace_of_another_rank_are_shown_and_cost_no_step(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_bytes(trace_of(3))
    profile = profile_of(tmp_path, {0: [*done(5), WAITING], 1: [*done(5), WAITING], 2: done(5)}, 3)
    assert profile.run.rank_numbers == (0,)
    (finding,) = answer(profile).findings
    assert finding.ranks == (2,)
    judged = ranking(profile)
    assert judged.verdict == "problem"  # of the steps: a dump alone does not show for how long ranks wait
    assert judged.steps_verdict is None
    assert [each.finding.ranks for each in judged.below if each.check == "communication.flight_recorder"] == [(2,)]


def test_a_hang_next_to_a_trace_is_the_problem_and_the_first_lead(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_bytes(trace_of(3))
    (tmp_path / "job.log").write_text(WATCHDOG)
    profile = profile_of(tmp_path, {0: [*done(5), WAITING], 1: [*done(5), WAITING], 2: done(5)}, 3)
    judged = ranking(profile)
    assert (judged.verdict, judged.steps_verdict) == ("problem", "problem")
    assert "who holds it up" in judged.why
    first = judged.leads[0]
    assert (first.place.ranks, first.impact_ms, first.candidates[0].cause) == ((2,), 0.0, "straggler")
    assert "py-spy" in first.decide_by
    assert judged.causes  # of the steps stay listed
    said = opening(profile, judged)
    assert said[0].template.startswith("Rank 2 has not called {n0}")
    assert any(each.template.startswith("Top bottleneck") for each in said)
    assert not [each for each in propose(profile, judged, (), ()) if each.lead == 1]  # no part of a step shows why


@pytest.mark.parametrize(
    ("of_steps", "timed_out", "named", "verdict"),
    [
        ("healthy", False, True, "inconclusive"),
        ("healthy", False, False, "healthy"),  # a running job waits too
        ("inconclusive", False, True, "inconclusive"),
        ("healthy", True, False, "inconclusive"),
        ("problem", True, False, "problem"),
        ("healthy", True, True, "problem"),
    ],
)
def test_a_hang_rules_out_healthy(
    tmp_path: Path, of_steps: Verdict, timed_out: bool, named: bool, verdict: Verdict
) -> None:
    if timed_out:
        (tmp_path / "job.log").write_text(WATCHDOG)
    waiting = Made(state="started")
    calls = {0: [*done(5), waiting], 1: done(5) if named else [*done(5), waiting]}
    profile = profile_of(tmp_path, calls, 2)
    judged = Judgement(of_steps, "of the steps")
    after = with_unfinished(profile, judged)
    assert after.verdict == verdict
    assert (after is judged) is (verdict == of_steps)


def test_a_time_out_next_to_a_trace_is_not_called_healthy(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_bytes(trace_of(3))
    (tmp_path / "job.log").write_text(WATCHDOG)
    after = with_unfinished(Profile(load_run([tmp_path])), Judgement("healthy", "of the steps"))
    assert (after.verdict, "timed out" in after.why) == ("inconclusive", True)
