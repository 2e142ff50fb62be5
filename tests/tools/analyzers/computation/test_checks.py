"""The computation checks as a whole, the comparison of devices, and runs without a device."""

from __future__ import annotations

import re

import pytest

from tests.asked import COMPUTATION, asking
from tests.synthetic import A100, V100, RankBuilder, profile_of
from tests.tools.analyzers.computation_runs import SGEMM, TF32_NARROW, check, one_kernel, only, saved_us
from tools.views.profile import Profile

analyze = asking(*COMPUTATION)


def test_every_question_is_asked_once_and_none_silently() -> None:
    for profile, asked in ((profile_of(one_kernel(SGEMM, 500)), 8), (profile_of(_host_run("float")), 9)):
        names = [each.name for each in analyze(profile)]
        assert len(names) == len(set(names)) == asked
        assert all(name.startswith("computation.") for name in names)


def test_the_answers_are_the_same_when_asked_again() -> None:
    first, second = (analyze(profile_of(one_kernel(SGEMM, 500))) for _ in range(2))
    assert [(each.name, each.status, each.reason) for each in first] == [
        (each.name, each.status, each.reason) for each in second
    ]


def _equal_ranks(*factors: float) -> Profile:
    ranks = [RankBuilder(number) for number in range(len(factors))]
    for rank, factor in zip(ranks, factors, strict=True):
        for call in range(5):
            rank.kernel(SGEMM, 200 * call, 100 * factor, blocks=800, threads=256)
        rank.step(0, 0, 1000)
    return profile_of(*ranks)


def test_one_rank_with_slower_kernels_is_found() -> None:
    finding = only(check(_equal_ranks(1.0, 1.0, 1.0, 1.15), "computation.slow_device"))
    assert (finding.cause, finding.ranks) == ("slow_device", (3,))
    assert finding.claim.facts[0].value == pytest.approx(15.0)
    assert saved_us(finding) == pytest.approx(5 * 15)


def test_ranks_within_five_percent_are_equal() -> None:
    assert check(_equal_ranks(1.0, 1.04, 0.99), "computation.slow_device").status == "clean"


def test_one_rank_has_nothing_to_be_compared_with() -> None:
    assert check(_equal_ranks(1.0), "computation.slow_device").status == "cannot_answer"


def test_different_device_models_are_not_compared() -> None:
    ranks = [RankBuilder(0, V100), RankBuilder(1, A100)]
    for rank in ranks:
        for call in range(5):
            rank.kernel(SGEMM, 200 * call, 100, blocks=800, threads=256)
        rank.step(0, 0, 1000)
    answer = check(profile_of(*ranks), "computation.slow_device")
    assert (answer.status, answer.reason) == ("cannot_answer", "the ranks run on different device models")


def _host_run(kind: str) -> RankBuilder:
    rank = RankBuilder(device=None)
    rank.operator("aten::mm", 100, 300, dims=[[8, 8], [8, 8]], types=[kind, kind])
    rank.step(0, 0, 1000)
    return rank


def test_without_a_device_its_questions_cannot_be_answered() -> None:
    answers = {each.name: each for each in analyze(profile_of(_host_run("float")))}
    assert answers.pop("computation.fp64").status == "clean"
    assert answers.pop("computation.memory_bound").status == "clean"
    assert "one rank" in answers.pop("computation.slow_device").reason
    assert "shapes" in answers.pop("computation.achieved_rate").reason
    assert {answer.status for answer in answers.values()} == {"cannot_answer"}
    assert {answer.reason for answer in answers.values()} == {"no device work is recorded"}


def test_kernels_outside_the_steps_answer_nothing() -> None:
    rank = RankBuilder()
    rank.kernel(SGEMM, 100, 50)
    rank.step(0, 200, 400)
    answers = analyze(profile_of(rank))
    assert len(answers) == 8
    assert {answer.status for answer in answers} == {"cannot_answer"}
    assert {answer.reason for answer in answers if answer.name != "computation.slow_device"} == {
        "no kernel ran inside the steps"
    }


def test_double_precision_on_the_host_is_found_by_recorded_types() -> None:
    finding = only(check(profile_of(_host_run("double")), "computation.fp64"))
    assert finding.claim.facts[0].value == pytest.approx(30.0)
    assert saved_us(finding) == pytest.approx(150)


def test_a_host_run_without_types_cannot_be_judged() -> None:
    rank = RankBuilder(device=None)
    rank.operator("aten::mm", 100, 300)
    rank.step(0, 0, 1000)
    assert check(profile_of(rank), "computation.fp64").status == "cannot_answer"


def test_no_template_holds_a_digit() -> None:
    profiles = (
        profile_of(one_kernel(SGEMM, 500, blocks=60)),
        profile_of(one_kernel(TF32_NARROW, 200, A100)),
        _equal_ranks(1.0, 1.0, 1.2),
    )
    for profile in profiles:
        for each in analyze(profile):
            sentences = [*each.support]
            for finding in each.findings:
                sentences += [finding.claim, *finding.details, *finding.against]
            for sentence in sentences:
                unnumbered = re.sub(r"rank \d+", "rank", sentence.template)
                filled = unnumbered.format(*("" for _ in sentence.facts), **{"n0": ""})
                assert not any(sign.isdigit() for sign in filled)
