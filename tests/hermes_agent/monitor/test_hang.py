from __future__ import annotations

from hermes_agent.watch.agent import HangWatch
from hermes_agent.watch.anomaly import NO_RANK, Anomaly, AnomalyKind
from hermes_agent.watch.series import WatchThresholds


def after(steps: dict[int, int], seconds: float, usual_ms: float | None = 100.0) -> list[Anomaly]:
    """What is noticed when these were the last steps for so long."""
    watch = HangWatch(WatchThresholds(hang_times=20, hang_least_s=3.0))
    assert watch.look(steps, usual_ms, 10.0) == []
    return watch.look(steps, usual_ms, 10.0 + seconds)


def test_nothing_is_said_before_many_times_the_usual_step() -> None:
    assert after({0: 5, 1: 5}, 2.9) == []
    assert after({0: 5, 1: 5}, 19.0, usual_ms=1000.0) == []
    assert len(after({0: 5, 1: 5}, 20.0, usual_ms=1000.0)) == 1


def test_without_a_usual_step_nothing_is_said() -> None:
    assert after({0: 5}, 1000.0, usual_ms=None) == []


def test_one_rank_behind_the_others_is_the_suspect() -> None:
    (seen,) = after({0: 118, 1: 117, 2: 118}, 4.0)
    assert seen.deviation.kind is AnomalyKind.HANG
    assert seen.rank == 1
    assert seen.claim == (
        "no step has ended for 4 s while the processes live, step 118 is open, usually it takes 100.0 ms; "
        "rank 1 has not ended it, all others have"
    )


def test_ranks_at_the_same_step_are_not_blamed() -> None:
    (seen,) = after({0: 118, 1: 118}, 4.0)
    assert seen.rank == NO_RANK
    assert "which one holds them up is not known" in seen.claim


def test_several_ranks_behind_are_named_and_none_is_blamed() -> None:
    (seen,) = after({0: 118, 1: 117, 2: 117}, 4.0)
    assert seen.rank == NO_RANK
    assert "ranks 1, 2 are behind" in seen.claim


def test_a_standstill_is_told_once_and_again_after_a_step() -> None:
    watch = HangWatch(WatchThresholds(hang_times=20, hang_least_s=3.0))
    seen = [len(watch.look({0: step}, 100.0, now)) for now, step in ((0, 1), (4, 1), (8, 1), (9, 2), (13, 2))]
    assert seen == [0, 1, 0, 0, 1]
