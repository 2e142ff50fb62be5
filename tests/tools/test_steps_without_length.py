"""Step marks that a trace records without any length are no steps, and every check answers on the others."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import pytest

from tests.tools.sources.kineto_text import JsonEvent, kernel, launch, span, write_trace
from tools.analyzers.registry import CHECKS, check_of
from tools.judgement.ranking import rank_causes
from tools.sources.load import load_run
from tools.sources.options import LoadOptions
from tools.views.profile import Profile


def events(lengths_us: tuple[int, ...]) -> list[JsonEvent]:
    """Steps of these lengths, one after the other; those with a length hold an operator and a kernel."""
    found, at = [], 0
    for number, length in enumerate(lengths_us):
        found.append(span(f"ProfilerStep#{number}", at, length, "user_annotation"))
        if length:
            found += [span("aten::mm", at + 10, 200), launch(at + 20, 5, number + 1)]
            found.append(kernel("sgemm", at + 300, 100, number + 1))
        at += length
    return found


@pytest.mark.parametrize(
    ("lengths_us", "numbers"),
    [
        ((0, 1000, 1000), [1, 2]),
        ((1000, 0, 1000), [0, 2]),
        ((1000, 1000, 0), [0, 1]),
        ((0, 0, 1000), [2]),
    ],
)
def test_only_marks_with_a_length_are_steps(tmp_path: Path, lengths_us: tuple[int, ...], numbers: list[int]) -> None:
    run = load_run([write_trace(tmp_path / "t.json", events(lengths_us))], LoadOptions(workers=1))
    profile = Profile(run)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checks = [check for spec in CHECKS if (check := check_of(profile, spec.name)) is not None]
        ranked = rank_causes(profile, checks)

    assert [step.number for step in run.ranks[0].steps] == numbers
    facts = [fact for check in checks for sentence in check.support for fact in sentence.facts]
    assert all(math.isfinite(fact.value) for fact in facts)
    assert all(math.isfinite(each.impact_ms) and math.isfinite(each.impact_pct) for each in ranked.causes)


def test_where_no_mark_has_a_length_the_recording_is_one_window(tmp_path: Path) -> None:
    marks = [span(f"ProfilerStep#{number}", 10 * number, 0, "user_annotation") for number in range(3)]
    run = load_run([write_trace(tmp_path / "t.json", [*marks, span("aten::mm", 5, 200)])], LoadOptions(workers=1))

    [step] = run.ranks[0].steps
    assert run.ranks[0].step_origin == "window"
    assert step.wall_ns == 205_000  # from the first mark to the end of the work


def test_kernels_without_any_length_and_of_absurd_devices_stop_no_check(tmp_path: Path) -> None:
    found = events((1000, 1000, 1000))
    kernels = [each for each in found if each.get("cat") == "kernel"]
    for each in kernels:
        each["dur"] = 0
    kernels[0]["args"]["device"] = 2**40
    profile = Profile(load_run([write_trace(tmp_path / "t.json", found)], LoadOptions(workers=1)))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checks = [check for spec in CHECKS if (check := check_of(profile, spec.name)) is not None]

    assert "computation.precision" in {check.name for check in checks}
    assert all(math.isfinite(each.impact_ms) for each in rank_causes(profile, checks).causes)
