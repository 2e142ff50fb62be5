from __future__ import annotations

import json
from pathlib import Path

import pytest

from evals.results.regression import against, read_results
from evals.results.summary import Results, summarise
from evals.suite.outcome import CaseResult
from tests.evals.scored import result
from tools.errors import InputError, UsageError


def _run(*cases: CaseResult) -> Results:
    return summarise(cases, [], "templates", "1")


def test_a_score_that_fell_is_worse_and_one_that_rose_is_not() -> None:
    before = _run(result("a", scores={"top_1": 1.0}), result("b", scores={"top_1": 0.0}, misses=["top_1"]))
    now = _run(result("a", scores={"top_1": 0.0}, misses=["top_1"]), result("b", scores={"top_1": 1.0}))
    found = against(before, now)
    assert found.worse == ("a: top_1 1.00 -> 0.00",)
    assert found.better == ("b",)
    assert found.compared == 2


def test_a_false_positive_that_appears_is_worse() -> None:
    before, now = (_run(result("a", scores={"healthy_false_positive": value})) for value in (0.0, 1.0))
    assert len(against(before, now).worse) == 1
    assert against(now, before).worse == ()


def test_the_labelled_cause_in_place_of_an_accepted_one_is_not_worse() -> None:
    before, now = (_run(result("a", scores={"top_1": 1.0, "also_right": value})) for value in (1.0, 0.0))
    assert against(before, now).worse == ()


def test_a_case_that_fails_now_is_worse_and_one_that_is_skipped_is_not_compared() -> None:
    before = _run(result("a", scores={"top_1": 1.0}), result("b", scores={"top_1": 1.0}))
    now = _run(result("a", status="failed", reason="gone"), result("b", status="skipped"))
    found = against(before, now)
    assert found.worse == ("a: failed now (gone)",)
    assert found.not_compared == ("b",)


def test_results_without_a_common_case_cannot_be_compared() -> None:
    with pytest.raises(UsageError, match="nothing to compare"):
        against(_run(result("a")), _run(result("b")))


def test_saved_results_are_read_back_as_they_were(tmp_path: Path) -> None:
    saved = _run(result("a", scores={"top_1": 1.0}, misses=["x"]))
    file = tmp_path / "results.json"
    file.write_text(saved.model_dump_json(by_alias=True), encoding="utf-8")
    assert read_results(file).cases == saved.cases


def test_results_that_an_older_version_saved_can_still_be_compared(tmp_path: Path) -> None:
    """Version 2 pooled runs otherwise and had neither standings nor sources; its cases are the same."""
    old = {"id": "a", "tags": {"source": "real", "kind": "cause"}, "status": "scored", "scores": {"top_1": 1.0}}
    file = tmp_path / "results.json"
    file.write_text(json.dumps({"schema": "hermes-dx/eval/2", "groups": [{"pool": "real runs"}], "cases": [old]}))
    now = _run(result("a", tags={"source": "real", "kind": "cause"}, scores={"top_1": 0.0}))
    assert against(read_results(file), now).worse == ("a: top_1 1.00 -> 0.00",)


@pytest.mark.parametrize("text", ["", "{}", '{"schema": "hermes-dx/eval/99"}'])
def test_a_file_that_holds_no_results_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    file = tmp_path / "results.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"results\.json"):
        read_results(file)
