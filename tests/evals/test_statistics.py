from __future__ import annotations

import pytest

from evals.pictures import calibration_svg
from evals.statistics import calibration, confusion, gains, mean, means
from evals.summary import summarise
from evals.tables import percent
from tests.evals.scored import result


def _first(cause: str, confidence: float) -> list[dict[str, object]]:
    return [{"cause": cause, "mechanism": None, "confidence": confidence, "impact_pct": 10.0, "ranks": [0]}]


def test_a_mean_has_an_interval_around_it_that_narrows_with_cases() -> None:
    few, many = mean([1.0, 0.0] * 5), mean([1.0, 0.0] * 100)
    assert few is not None
    assert many is not None
    assert few.mean == many.mean == 0.5
    assert few.low < 0.5 < few.high
    assert many.high - many.low < (few.high - few.low) / 2
    assert mean([]) is None


def test_a_score_is_averaged_over_the_cases_that_ask_for_it() -> None:
    found = means([result(scores={"top_1": 1.0}), result(scores={"top_1": 0.0, "family": 1.0}), result()])
    assert (found["top_1"].mean, found["top_1"].cases) == (0.5, 2)
    assert found["family"].cases == 1


def test_calibration_is_the_distance_of_stated_from_true_shares() -> None:
    sure = [result(scores={"top_1": right}, named=_first("slow_device", 0.95)) for right in (1.0, 1.0, 1.0, 0.0)]
    curve, error = calibration(sure)
    assert [(each.confidence, each.accuracy, each.cases) for each in curve] == [(0.95, 0.75, 4)]
    assert error == pytest.approx(0.2)
    assert calibration_svg(curve).count("<circle") == 1


def test_a_cause_named_on_a_healthy_run_counts_as_wrong_in_the_calibration() -> None:
    healthy = result(tags={"source": "synthetic", "kind": "healthy"}, named=_first("slow_device", 0.6))
    _, error = calibration([healthy])
    assert error == pytest.approx(0.6)


def test_the_confusion_tells_what_came_first_for_every_label() -> None:
    found = confusion(
        [
            result(expected=["slow_device"], named=_first("straggler", 0.9)),
            result(expected=["slow_device"], named=_first("slow_device", 0.9)),
            result(expected=["slow_device"]),
            result(expected=["slow_device"], status="skipped"),
        ]
    )
    assert found == {"slow_device": {"straggler": 1, "slow_device": 1, "(none)": 1}}


def test_gains_are_told_by_median_error_and_coverage() -> None:
    known = [
        {"predicted": 1.2, "low": 1.1, "high": 1.3, "measured": 1.2, "error_pct": error, "covered": covered}
        for error, covered in ((1.0, True), (2.0, False), (9.0, True))
    ]
    found = gains([result(gain=each) for each in known])
    assert found is not None
    assert found.median_error_pct == 2.0
    assert found.covered.mean == pytest.approx(2 / 3)
    assert gains([result()]) is None


def test_sources_are_never_pooled_and_what_was_skipped_counts_for_nothing() -> None:
    real = {"source": "real", "kind": "cause", "split": "dev"}
    made = {"source": "synthetic", "kind": "cause", "split": "test"}
    cases = [
        result("a", tags=real, scores={"top_1": 1.0}),
        result("b", tags=made, scores={"top_1": 0.0}, misses=["top_1"]),
        result("c", tags=real, status="skipped"),
    ]
    found = summarise(cases, [], "templates", "1")
    whole = {group.source: group for group in found.groups if not group.dimension}
    assert (whole["real"].cases, whole["real"].right, whole["real"].scores["top_1"].mean) == (1, 1, 1.0)
    assert (whole["synthetic"].cases, whole["synthetic"].right) == (1, 0)
    assert found.counts == {"cases": 3, "scored": 2, "skipped": 1}


def test_what_is_only_close_to_all_is_never_printed_as_all() -> None:
    assert percent(mean([1.0] * 300 + [0.999])) == "99.9 % [99.9, 100] of 301"
    assert percent(mean([1.0, 1.0])) == "100 % [100, 100] of 2"
    assert percent(None) == "-"
