from __future__ import annotations

import pytest

from evals.results.calibration import calibration
from evals.results.charts import calibration_svg
from evals.results.means import mean, means
from evals.results.model_totals import model_totals
from evals.results.predicted_gains import gains, gains_by_cause, shared_gains
from evals.results.report import fault_rows, gains_line, headline, model_lines
from evals.results.summary import confusion, summarise
from evals.results.tables import percent
from evals.suite.outcome import CaseResult
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


def test_a_pair_without_a_prediction_counts_as_if_no_gain_had_been_predicted() -> None:
    predicted = {"predicted": 1.2, "low": 1.1, "high": 1.3, "measured": 1.4, "error_pct": 12.0, "covered": False}
    pairs = [result(gain={**predicted, "meets": True}, measured_saving_pct=28.6), result(measured_saving_pct=40.0)]
    found = gains(pairs)
    assert found is not None
    assert (found.cases, found.unpredicted) == (1, 1)
    assert (found.median_error_pct, found.median_error_all_pct) == (12.0, 26.0)
    assert (found.covered.mean, found.met.mean if found.met else None) == (0.0, 1.0)
    assert "(it claims 80 %)" in gains_line(found)
    assert "1 pairs without a prediction, with them 26.0 %" in gains_line(found)


def test_gains_are_listed_by_labelled_cause_with_their_bias() -> None:
    def pair(cause: str, signed: float | None) -> CaseResult:
        gain = {"predicted": 1.1, "low": 1.0, "high": 1.2, "measured": 1.1, "covered": True}
        known = None if signed is None else {**gain, "error_pct": abs(signed), "signed_pct": signed}
        return result(expected=[cause], gain=known, measured_saving_pct=9.1)

    pairs = [pair("memory_bound/elementwise_chain", signed) for signed in (-6.0, -2.0, 1.0, None)]
    chains, small = gains_by_cause([*pairs, pair("operator_dispatch", None)])
    assert (chains.cause, chains.pairs, chains.unpredicted) == ("memory_bound/elementwise_chain", 3, 1)
    assert (chains.median_error_pct, chains.bias_pct, chains.covered) == (2.0, -2.0, 3)
    assert (small.pairs, small.unpredicted, small.median_error_pct) == (0, 1, None)


def test_several_causes_are_held_together_against_what_fixing_all_of_them_saved() -> None:
    shared = {"promised_pct": 35.0, "listed_pct": 48.0, "measured_pct": 40.0, "most_pct": 42.0}
    found = shared_gains([result(shared=shared), result()])
    assert found is not None
    assert (found.cases, found.median_error_pct, found.most_promised_pct) == (1, 5.0, 48.0)
    assert shared_gains([result()]) is None


def test_pass_k_asks_that_every_attempt_at_a_case_passes() -> None:
    used = {"answer_by": "model", "calls": 4, "tokens": 100, "seconds": 2.0, "attempts": 2}
    found = model_totals([result(model={**used, "passes": passes}) for passes in (2, 1, 2, 0)])
    assert found is not None
    assert (found.pass_all.mean, found.pass_one.mean) == (0.5, 0.625)
    assert (found.calls, found.tokens, found.cost) == (4.0, 100.0, None)
    assert model_lines(found)[0].startswith("model: pass^2 50 %")
    assert model_totals([result()]) is None


def test_origins_are_never_pooled_and_what_was_skipped_counts_for_nothing() -> None:
    lab = {"source": "lab", "kind": "cause", "fault": "slow_disk"}
    cases = [
        result("a", tags={"source": "real", "kind": "cause"}, scores={"top_1": 1.0}),
        result("b", tags={**lab, "split": "dev"}, scores={"top_1": 1.0}),
        result("d", tags={**lab, "split": "test"}, scores={"top_1": 0.0}, misses=["top_1"]),
        result("e", tags={"source": "synthetic", "kind": "cause"}, scores={"top_1": 0.0}, misses=["top_1"]),
        result("c", tags={"source": "real", "kind": "cause"}, status="skipped"),
    ]
    found = summarise(cases, [], "templates", "1")
    whole = {(group.origin, group.split): group for group in found.groups if not group.dimension}
    assert (whole["lab", ""].cases, whole["lab", ""].right, whole["lab", ""].scores["top_1"].mean) == (2, 1, 0.5)
    assert whole["lab", "dev"].scores["top_1"].mean == 1.0
    assert whole["lab", "test"].scores["top_1"].mean == 0.0
    assert (whole["public traces", ""].cases, whole["generated runs", ""].right) == (1, 0)
    assert ("generated runs", "test") not in whole
    assert found.counts == {"cases": 5, "scored": 4, "skipped": 1}
    assert fault_rows(found, "lab") == [("slow_disk", "1 of 1", "1 of 1", "0 of 1", "0 of 1")]


def test_the_headline_is_the_worst_origin_with_its_counts_and_no_pool() -> None:
    lab, others = ({"source": source, "kind": "cause"} for source in ("lab", "others"))
    healthy = {"source": "lab", "kind": "healthy"}
    alone = {**others, "sources": "log", "run": "o0"}
    cases = [
        *(result(f"l{at}", tags=lab, scores={"top_1": 1.0}) for at in range(8)),
        *(result(f"o{at}", tags=others, scores={"top_1": right}) for at, right in enumerate((1.0, 0.0))),
        result("o0-log", tags=alone, scores={"top_1": 0.0}),
        *(result(f"h{at}", tags=healthy, scores={"healthy_false_positive": wrong}) for at, wrong in enumerate((0, 1))),
    ]
    first, _, healthy_line, _ = headline(summarise(cases, [], "templates", "1"))
    assert first == "**Right first cause, worst origin first: runs of others 1 of 2 (50 %), lab 8 of 8 (100 %).**"
    assert healthy_line == "**Healthy runs called a problem: lab 1 of 2 (50 %).**"


def test_what_is_only_close_to_all_is_never_printed_as_all() -> None:
    assert percent(mean([1.0] * 300 + [0.999])) == "99.9 % [99.9, 100] of 301"
    assert percent(mean([1.0, 1.0])) == "100 % [100, 100] of 2"
    assert percent(None) == "-"
