from __future__ import annotations

import pytest

from evals.scorers import scores
from evals.scorers.gains import gain
from evals.scorers.misses import misses
from evals.scorers.registry import score
from evals.suite.case_schema import Measured
from tests.evals.scored import case, diagnosis, outcome

LOADER = ("slow_data_processing", 0.9, 30.0)
STRAGGLER = ("straggler", 0.8, 20.0)
DEVICE = ("slow_device", 0.7, 10.0)


def test_the_first_cause_counts_only_where_it_is_first() -> None:
    of = case(expected={"any_of": ["slow_data_processing/too_few_workers"]})
    assert scores.top_1(outcome(of, diagnosis("problem", LOADER, STRAGGLER))) == 1.0
    assert scores.top_1(outcome(of, diagnosis("problem", STRAGGLER, LOADER))) == 0.0
    assert scores.top_3(outcome(of, diagnosis("problem", STRAGGLER, DEVICE, LOADER))) == 1.0
    assert scores.top_1(outcome(of, diagnosis("healthy"))) == 0.0
    assert scores.top_1(outcome(case(), diagnosis("problem", LOADER))) is None


def test_a_right_first_cause_is_not_stood_for_when_the_verdict_is_inconclusive() -> None:
    of = case(expected={"any_of": ["slow_data_processing"]})
    assert scores.diagnosed(outcome(of, diagnosis("inconclusive", LOADER))) == 0.0
    assert scores.diagnosed(outcome(of, diagnosis("problem", LOADER))) == 1.0


def test_of_two_causes_half_is_half() -> None:
    of = case(expected={"all_of": ["slow_data_processing", "slow_device"]})
    assert scores.top_3(outcome(of, diagnosis("problem", LOADER, STRAGGLER))) == 0.5
    assert scores.set_f1(outcome(of, diagnosis("problem", LOADER))) == pytest.approx(2 / 3)


def test_a_consequence_that_may_be_named_costs_nothing_and_a_wrong_cause_does() -> None:
    of = case(expected={"any_of": ["slow_data_processing"], "also_allowed": ["straggler"]})
    assert scores.set_f1(outcome(of, diagnosis("problem", LOADER, STRAGGLER))) == 1.0
    assert scores.set_f1(outcome(of, diagnosis("problem", LOADER, DEVICE))) == pytest.approx(2 / 3)


def test_noted_causes_are_not_asserted() -> None:
    of = case(expected={"any_of": ["slow_data_processing"], "not_causes": ["slow_device"]})
    noted = ("slow_device", 0.9, 2.0)
    assert scores.no_forbidden_cause(outcome(of, diagnosis("problem", LOADER, noted))) == 1.0
    assert scores.no_forbidden_cause(outcome(of, diagnosis("problem", LOADER, DEVICE))) == 0.0


def test_the_scope_is_the_share_of_ranks_that_agree() -> None:
    of = case(expected={"any_of": ["slow_device"], "ranks": [1, 2]})
    assert scores.rank_scope(outcome(of, diagnosis("problem", DEVICE, ranks=(2, 3)))) == pytest.approx(1 / 3)
    assert scores.rank_scope(outcome(of, diagnosis("problem", LOADER, ranks=(1, 2)))) == 0.0


def test_a_problem_claimed_on_a_healthy_run_is_a_false_positive() -> None:
    of = case("healthy", expected={"verdict": ["healthy"]})
    assert scores.healthy_false_positive(outcome(of, diagnosis("problem", LOADER))) == 1.0
    assert scores.healthy_false_positive(outcome(of, diagnosis("inconclusive"))) == 0.0
    assert misses(outcome(of, diagnosis("problem", LOADER)), score(outcome(of, diagnosis("problem", LOADER))))


def test_abstention_is_asked_only_where_nothing_else_is_right() -> None:
    only = case("missing_data", expected={"verdict": ["inconclusive"]})
    assert scores.abstention(outcome(only, diagnosis("problem", LOADER))) == 0.0
    assert scores.abstention(outcome(only, diagnosis("inconclusive"))) == 1.0
    either = case("missing_data", expected={"verdict": ["inconclusive", "healthy"]})
    assert scores.abstention(outcome(either, diagnosis("inconclusive"))) is None


def test_a_refusal_has_to_be_the_expected_one() -> None:
    of = case("incomparable", expected={"error": "not_comparable"})
    assert scores.refusal(outcome(of, None, refused="no", refusal="not_comparable")) == 1.0
    assert scores.refusal(outcome(of, None, refused="no", refusal="unreadable")) == 0.0
    assert scores.refusal(outcome(of, diagnosis("healthy"))) == 0.0


def _evidence(value: float) -> dict[str, object]:
    return {
        "id": "E1", "metric": "part_pct", "arguments": {"part": "idle"}, "value": value, "unit": "%", "ranks": [0],
        "steps": [], "window_ns": None, "source": {"path": "", "selector": ""},
    }  # fmt: skip


def test_a_citation_that_does_not_exist_and_a_figure_that_is_not_its_evidence_are_seen() -> None:
    right = diagnosis("problem", headline="Idle is 12.5 % [E1].", evidence=[_evidence(12.5)])
    wrong = diagnosis("problem", headline="Idle is 13.5 % [E1]. Busy is 4 % [E9].", evidence=[_evidence(12.5)])
    assert scores.citation_existence(outcome(case(), right)) == scores.citation_support(outcome(case(), right)) == 1.0
    assert scores.numeric_fidelity(outcome(case(), right)) == 1.0
    assert scores.citation_existence(outcome(case(), wrong)) == 0.5
    assert scores.citation_support(outcome(case(), wrong)) == 0.0
    assert scores.numeric_fidelity(outcome(case(), wrong)) == 0.0


def test_an_expected_figure_has_to_have_its_arguments_and_its_value() -> None:
    found = diagnosis("problem", evidence=[_evidence(12.5)])
    fact = {"metric": "part_pct", "value": 12.6, "arguments": {"part": "idle"}}
    assert scores.expected_facts(outcome(case(facts=[fact]), found)) == 1.0
    assert scores.expected_facts(outcome(case(facts=[{**fact, "value": 13.0}]), found)) == 0.0
    assert scores.expected_facts(outcome(case(facts=[{**fact, "arguments": {"part": "host"}}]), found)) == 0.0


def test_the_gain_is_held_against_what_was_measured_in_percent_of_the_step() -> None:
    advice = {
        "id": "A1", "for": "slow_data_processing", "optimization": "", "how": "", "effort": 1, "risk": "",
        "verify": "", "predicted_step_ms": 80.0, "predicted_speedup": 1.25, "interval": (1.1, 1.25),
    }  # fmt: skip
    of = case(expected={"any_of": ["slow_data_processing"]})
    found = diagnosis("problem", LOADER, advice=[advice])
    scored = gain(outcome(of, found, measured=Measured(before_ms=100, after_ms=70)))
    assert scored is not None
    assert scored.error_pct == pytest.approx(10.0)
    assert scored.measured == pytest.approx(100 / 70)
    assert not scored.covered
    assert gain(outcome(of, found)) is None


def test_text_that_must_not_appear_is_found_in_any_sentence() -> None:
    of = case(must_not_say=["network is fine"])
    assert scores.no_forbidden_text(outcome(of, diagnosis("problem", answer=["The Network is fine."]))) == 0.0
    assert scores.no_forbidden_text(outcome(of, diagnosis("problem", answer=["All well."]))) == 1.0


def test_a_case_for_which_every_verdict_is_right_says_nothing_about_verdicts() -> None:
    open_case = case("unlabelled", expected={"verdict": ["problem", "healthy", "inconclusive"]})
    refused = outcome(open_case, None, refused="broken file", refusal="unreadable")
    assert scores.verdict(outcome(open_case, diagnosis("healthy"))) is None
    assert misses(refused, score(refused)) == ["refused: broken file"]
    assert scores.verdict(outcome(case(expected={"verdict": ["healthy"]}), diagnosis("problem"))) == 0.0


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("DataLoader", "The step waits for its data loader.", 1.0),
        ("DataLoader", "The step waits for the data-loader.", 1.0),
        ("DataLoader", "The step waits for the dataloader.", 1.0),
        ("DataLoader", "The loader of the data waits.", 0.0),
        ("TORCH_DISTRIBUTED_DEBUG", "unset `torch_distributed_debug`", 1.0),
        ("element-wise", "Elementwise kernels take long.", 1.0),
        ("bf16", "Compute in BF16.", 1.0),
        ("pin", "It piles up in memory.", 0.0),
        ("rank 1", "It is rank 1.", 1.0),
        ("rank 1", "It is rank 12.", 0.0),
    ],
)
def test_a_name_counts_in_every_spelling_and_no_other_name_does(name: str, text: str, named: float) -> None:
    of = case(expected={"verdict": ["problem"], "names": [name]})
    assert scores.names(outcome(of, diagnosis("problem", headline=text))) == named


def test_of_two_names_half_is_half() -> None:
    of = case(expected={"verdict": ["problem"], "names": ["DataLoader", "worker"]})
    assert scores.names(outcome(of, diagnosis("problem", headline="The data loader is slow."))) == 0.5
