from __future__ import annotations

from hermes_agent.watch.anomaly import Anomaly, AnomalyKind, Deviation, Suspect
from hermes_agent.watch.suspicions import Present, Suspicions


def change(seen_ms: float, at: int = 100) -> Anomaly:
    return Anomaly(
        Deviation(AnomalyKind.CHANGE, at, at, 40.0, seen_ms), None, "the ranks' own time does not explain it"
    )


def of_rank(rank: int, excess_ms: float, at: int = 100) -> Anomaly:
    seen = Deviation(AnomalyKind.RANK_CHANGE, at, at, 18.0, 18.0 + excess_ms)
    return Anomaly(seen, Suspect(rank, "data wait", excess_ms))


def test_a_named_rank_goes_before_a_larger_change_of_nobody_and_the_costliest_rank_first() -> None:
    suspicions = Suspicions()
    for each in (change(80.0), of_rank(1, 6.0), of_rank(2, 9.0)):
        suspicions.add(each)
    present = Present(130, 80.0, {0: -9.0, 1: 6.0, 2: 9.0})
    first = suspicions.strongest(present)
    assert first is not None
    assert first.rank == 2
    suspicions.settle(first)
    second = suspicions.strongest(present)
    assert second is not None
    assert second.rank == 1


def test_a_change_of_nobody_is_captured_only_when_it_lasts() -> None:
    suspicions = Suspicions()
    suspicions.add(change(80.0))
    assert suspicions.strongest(Present(119, 80.0, {})) is None
    assert suspicions.strongest(Present(120, 80.0, {})) is not None


def test_a_small_change_of_nobody_is_not_worth_a_capture() -> None:
    suspicions = Suspicions()
    suspicions.add(change(43.0))
    assert suspicions.strongest(Present(140, 43.0, {})) is None


def test_a_capture_of_a_rank_holds_for_all_that_it_had_lost_then() -> None:
    suspicions, present = Suspicions(), Present(130, 60.0, {0: -20.0, 1: 20.0})
    begun_early = Anomaly(Deviation(AnomalyKind.CHANGE, 90, 104, 40.0, 46.0), Suspect(1, "data wait", 19.0))
    suspicions.add(begun_early)
    assert suspicions.strongest(present) is begun_early
    suspicions.settle(begun_early)
    suspicions.add(of_rank(1, 20.0))
    assert suspicions.strongest(present) is None


def test_what_is_over_for_twenty_steps_is_not_captured_any_more() -> None:
    suspicions = Suspicions()
    suspicions.add(change(80.0))
    suspicions.add(of_rank(1, 6.0))
    for step in (125, 145):
        assert suspicions.strongest(Present(step, 59.0, {0: -2.9, 1: 2.9})) is None
    assert suspicions.strongest(Present(150, 80.0, {0: -6.0, 1: 6.0})) is None


def test_what_noise_hides_for_some_steps_is_captured_after_them() -> None:
    suspicions = Suspicions()
    suspicions.add(of_rank(1, 6.0))
    for step in (125, 144):
        assert suspicions.strongest(Present(step, 59.0, {0: -2.9, 1: 2.9})) is None
    assert suspicions.strongest(Present(150, 80.0, {0: -6.0, 1: 6.0})) is not None


def test_waiting_for_a_core_and_spikes_call_for_no_capture() -> None:
    suspicions = Suspicions()
    suspicions.add(Anomaly(Deviation(AnomalyKind.CHANGE, 1, 1, 40.0, 80.0), None, "waits", contention=True))
    suspicions.add(Anomaly(Deviation(AnomalyKind.SPIKE, 1, 1, 40.0, 80.0), None))
    assert suspicions.strongest(Present(130, 80.0, {})) is None


def test_a_captured_fault_is_not_captured_again_unless_it_gets_worse_or_the_capture_failed() -> None:
    suspicions, present = Suspicions(), Present(130, 80.0, {0: -9.0, 1: 9.0})
    first = of_rank(1, 6.0)
    suspicions.add(first)
    suspicions.settle(first)
    suspicions.add(of_rank(1, 8.0))
    assert suspicions.strongest(present) is None
    suspicions.add(of_rank(1, 9.0))
    assert suspicions.strongest(present) is not None
    suspicions.settle(of_rank(1, 9.0))
    assert suspicions.strongest(present) is None
    suspicions.reopen(first)
    assert suspicions.strongest(present) is first
    suspicions.settle(first)
    suspicions.add(Anomaly(Deviation(AnomalyKind.RECOVERY, 140, 140, 46.0, 40.0), None))
    suspicions.add(of_rank(1, 6.0))
    assert suspicions.strongest(present) is not None
