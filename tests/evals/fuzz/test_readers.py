"""Every reader takes damaged inputs: a small part of ``make fuzz``, and what fuzzing has found."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from evals.fuzz import oracle, seeds
from evals.fuzz.campaign import PARTS, execute, fuzz
from evals.fuzz.mutations import Mutator
from evals.fuzz.oracle import judged
from evals.fuzz.targets import TARGETS, Target
from evals.suite.labels import LONGEST_FAULT, others_cases, recorded_cases
from tools.errors import InputError

BY_NAME = {each.name: each for each in TARGETS}
CHEAP = [each for each in TARGETS if not each.name.startswith(("kineto", "monitor", "diagnosis"))]


@pytest.mark.parametrize("target", TARGETS, ids=lambda each: each.name)
def test_every_seed_is_read(target: Target, tmp_path: Path) -> None:
    found = [execute(target, tmp_path / str(at), data) for at, data in enumerate(target.seeds())]

    assert found
    assert [each.kind for each in found] == ["result"] * len(found)


@pytest.mark.parametrize("target", TARGETS, ids=lambda each: each.name)
def test_a_damaged_input_gives_a_result_or_one_sentence(target: Target) -> None:
    counts = fuzz(target, 40 if target in CHEAP else 6, seed=1, cuts=False)

    assert [verdict.detail for verdict, _ in counts.failures] == []
    assert counts.executions == len(target.seeds()) + (40 if target in CHEAP else 6)


def test_an_input_is_also_cut_at_every_200th() -> None:
    target = BY_NAME["environment"]

    counts = fuzz(target, 3, seed=1)

    assert counts.executions == len(target.seeds()) * (1 + PARTS) + 3
    assert counts.kinds["failure"] == 0


def test_a_seed_gives_the_same_inputs_again() -> None:
    def inputs(seed: int) -> list[bytes]:
        mutator = Mutator([seeds.trace()], Random(seed))
        return [make() for make in (mutator.text, mutator.binary, mutator.packed) for _ in range(20)]

    assert inputs(3) == inputs(3)
    assert inputs(3) != inputs(4)
    assert sum(each == seeds.trace() for each in inputs(3)) <= 2


def _raise(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("act", "detail"),
    [
        (lambda: _raise(IndexError("no such row")), "no such row"),
        (lambda: _raise(InputError("it is wrong")), "does not name a.json"),
        (lambda: _raise(InputError("a.json: it is wrong\nin two lines")), "not printable"),
        (lambda: _raise(InputError("a.json: " + "x" * 5000)), "characters long"),
        (lambda: warnings.warn("divided by zero", RuntimeWarning, stacklevel=1), "RuntimeWarning"),
        (lambda: print("progress"), "printed on the terminal"),
        (lambda: bytearray(300 << 20), "MiB of memory"),
    ],
)
def test_whatever_breaks_the_rule_is_a_failure(act: Callable[[], object], detail: str) -> None:
    verdict = judged(act, "a.json")

    assert verdict.failed
    assert detail in verdict.detail


def test_a_reader_that_does_not_come_back_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle, "HANGING_CPU_S", 0.2)

    def hang() -> None:
        while True:
            pass

    assert "did not end" in judged(hang, "").detail


def test_a_sentence_that_names_the_file_and_an_error_of_the_contract_are_allowed() -> None:
    assert judged(lambda: _raise(InputError("a.json: it is wrong")), "a.json").kind == "sentence"
    assert judged(lambda: _raise(ValueError("any")), "", (ValueError,)).kind == "sentence"
    assert judged(lambda: None, "").kind == "result"


def test_a_table_of_labels_that_is_wrong_ends_in_one_line(tmp_path: Path) -> None:
    endless = "1" * 400 + ": {verdict: problem, top1: [straggler]}\n"  # as the name of a folder
    for content in (endless, "a: 5\n", "a: {verdict: problem, top1: [no_such_cause]}\n", "a: [\n", "- 1\n"):
        (tmp_path / "labels.yaml").write_text(content)
        with pytest.raises(InputError, match=r"labels\.yaml is no table of labels") as caught:
            others_cases(tmp_path)
        assert str(caught.value).isprintable()


def test_a_label_with_an_endless_cause_ends_in_a_short_line(tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "label.json").write_text('{"verdict": "problem", "cause": "%s"}' % ("A" * 5000))

    with pytest.raises(InputError) as caught:
        recorded_cases([tmp_path], "lab")

    assert len(str(caught.value)) < LONGEST_FAULT + 300
