"""Advice put to the test on the bundled run and its fixed twin, and what is drafted from it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from case_library.library import load_cases, parse_case
from evals.suite.case_files import load_cases as evaluation_cases
from hermes_agent import confirm as confirmation
from hermes_agent.cli.main import main
from hermes_agent.config.settings import Settings
from hermes_agent.confirm import RunOf, confirm, drafts, store_drafts, stored_sentences
from hermes_agent.demo.data import demo_fixed_run, demo_run
from hermes_agent.model.events import ignore
from hermes_agent.model.request import Request
from hermes_agent.run_comparison import compared
from hermes_agent.session import Session
from tools.errors import InputError, NotComparableError, UsageError
from tools.knowledge.thresholds import Thresholds
from tools.views.profile import Profile


def side(path: Path, cache: Path) -> RunOf:
    session = Session(Request(paths=(path,), cache_dir=cache), Settings(cache_dir=cache))
    return RunOf(session.diagnose(ignore), session.profile(ignore), path)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunOf, RunOf]:
    cache = tmp_path_factory.mktemp("cache")
    return side(demo_run(), cache), side(demo_fixed_run(), cache)


def test_the_measured_gain_is_that_of_the_mean_steps_and_is_held_against_the_range(pair: tuple[RunOf, RunOf]) -> None:
    before, after = pair
    found = confirm(before, after, "a1")
    assert found.outcome == "confirmed"
    assert found.measured == pytest.approx(found.before_ms / found.after_ms)
    assert before.diagnosis.step_time_ms is not None
    assert before.diagnosis.step_time_ms.unprofiled is not None
    assert found.before_ms == pytest.approx(before.diagnosis.step_time_ms.unprofiled.mean)
    advice = before.diagnosis.advice[0]
    assert (found.predicted, found.interval) == (advice.predicted_speedup, advice.interval)
    assert found.interval is not None
    assert found.inside is (found.interval[0] <= found.measured <= found.interval[1])
    assert found.gone
    assert "inside the 80 % range" in found.sentences[1]


def test_a_change_that_made_the_step_longer_confirms_nothing(pair: tuple[RunOf, RunOf]) -> None:
    slow, fixed = pair
    diagnosis = fixed.diagnosis.model_copy(update={"advice": slow.diagnosis.advice, "causes": slow.diagnosis.causes})
    found = confirm(replace(fixed, diagnosis=diagnosis), slow, "A1")
    assert found.outcome == "slower"
    assert not found.gone
    with pytest.raises(UsageError, match="confirmed no cause"):
        drafts(found, fixed, ())


def with_range(run: RunOf, interval: tuple[float, float] | None) -> RunOf:
    """The run with another predicted range for every advice, or with none."""
    predicted = None if interval is None else sum(interval) / 2
    changed = {"interval": interval, "predicted_speedup": predicted}
    advice = [each.model_copy(update=changed) for each in run.diagnosis.advice]
    return replace(run, diagnosis=run.diagnosis.model_copy(update={"advice": advice}))


def with_causes_of(run: RunOf, other: RunOf, mechanism: str | None) -> RunOf:
    causes = [each.model_copy(update={"mechanism": mechanism}) for each in other.diagnosis.causes]
    return replace(run, diagnosis=run.diagnosis.model_copy(update={"causes": causes}))


def with_p95(run: RunOf, p95: float) -> RunOf:
    times = run.diagnosis.step_time_ms
    assert times is not None
    assert times.unprofiled is not None
    wide = times.model_copy(update={"unprofiled": times.unprofiled.model_copy(update={"p95": p95})})
    return replace(run, diagnosis=run.diagnosis.model_copy(update={"step_time_ms": wide}))


def test_a_shorter_step_with_the_cause_still_there_shows_no_reason(pair: tuple[RunOf, RunOf]) -> None:
    before, after = pair
    for mechanism in (before.diagnosis.causes[0].mechanism, "unexplained_wait", None):
        found = confirm(before, with_causes_of(after, before, mechanism), "A1")
        assert (found.outcome, found.inside, found.gone) == ("faster", True, False)
        text = " ".join(found.sentences)
        assert "does not show that" in text
        assert "supports" not in text
        with pytest.raises(UsageError, match="confirmed no cause"):
            drafts(found, before, ())


def test_a_gain_outside_of_the_range_shows_no_reason(pair: tuple[RunOf, RunOf]) -> None:
    before, after = pair
    found = confirm(with_range(before, (50.0, 60.0)), after, "A1")
    assert (found.outcome, found.inside, found.gone) == ("faster", False, True)


def test_without_a_range_the_gain_has_to_be_beyond_the_spread_of_the_steps(pair: tuple[RunOf, RunOf]) -> None:
    before, after = with_range(pair[0], None), pair[1]
    found = confirm(with_p95(before, 0.0), with_p95(after, 0.0), "A1")
    assert (found.outcome, found.inside) == ("confirmed", None)
    assert "no range was predicted" in str(drafts(found, before, ()).case.confidence_reason)
    assert confirm(before, with_p95(after, 1e6), "A1").outcome == "faster"


def test_what_counts_as_noise_is_a_threshold(pair: tuple[RunOf, RunOf]) -> None:
    before, after = pair
    profile = Profile(before.profile.run, Thresholds({"change_noise_pct": 99.0}))
    found = confirm(replace(before, profile=profile), after, "A1")
    assert found.outcome == "no_change"
    assert "within noise (99 %)" in " ".join(found.sentences)


def test_a_step_without_a_length_gives_no_gain(pair: tuple[RunOf, RunOf], monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = pair
    found = compared(before.profile, after.profile)
    step = found.comparison.step
    none = replace(step, after=replace(step.after, value=0.0))
    empty = replace(found, comparison=replace(found.comparison, step=none))
    monkeypatch.setattr(confirmation, "compared", lambda *_: empty)
    with pytest.raises(UsageError, match="no gain can be computed"):
        confirm(before, after, "A1")


def test_unknown_advice_and_the_same_run_are_refused_by_name(pair: tuple[RunOf, RunOf]) -> None:
    before, after = pair
    with pytest.raises(UsageError, match="there is no advice 'A9'; there is A1"):
        confirm(before, after, "A9")
    with pytest.raises(UsageError, match="is the run before the change"):
        confirm(before, before, "A1")


def test_runs_that_cannot_be_compared_are_refused_with_the_reason(pair: tuple[RunOf, RunOf], tmp_path: Path) -> None:
    before, _ = pair
    one_rank = Session(Request(paths=(demo_fixed_run(),), ranks=(0,)), Settings(cache_dir=tmp_path))
    other = RunOf(one_rank.diagnose(ignore), one_rank.profile(ignore), tmp_path)
    with pytest.raises(NotComparableError, match="ranks"):
        confirm(before, other, "A1")


def test_drafts_pass_the_schemas_of_the_library_and_of_the_evaluation(
    pair: tuple[RunOf, RunOf], tmp_path: Path
) -> None:
    before, after = pair
    library = load_cases()
    made = drafts(confirm(before, after, "A1"), before, library)
    assert made.faults == ()
    assert made.case.private
    paths = store_drafts(made, tmp_path / "drafts")
    assert parse_case(paths[0], paths[0].read_bytes()) == made.case
    (case,) = evaluation_cases(paths[1].parent)
    assert case.run.others == demo_run().name
    assert case.expected.any_of == ("slow_data_processing/heavy_transform",)
    assert case.measured is not None
    assert case.measured.before_ms > case.measured.after_ms
    with pytest.raises(InputError, match="exists and is not overwritten"):
        store_drafts(made, tmp_path / "drafts")
    paths[1].unlink()  # the case is still there: nothing is drafted, no half of a pair stays
    with pytest.raises(InputError, match=f"cases/{made.case.id}.yaml exists and is not overwritten"):
        store_drafts(made, tmp_path / "drafts")
    assert not paths[1].exists()
    assert paths[0].exists()
    (line, _) = stored_sentences(made, (tmp_path / "my drafts" / "a.yaml", paths[1]))
    assert f"`hermes-dx cases add --file '{tmp_path}/my drafts/a.yaml'`" in line


def test_the_command_prints_the_result_as_json_and_writes_both_drafts(
    tmp_path: Path, own_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "drafts"
    assert main(["confirm", str(demo_run()), "A1", str(demo_fixed_run()), "--drafts", str(folder), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["outcome"] == "confirmed"
    assert record["measured_speedup"] == pytest.approx(record["before_ms"] / record["after_ms"])
    assert sorted(path.name for path in folder.iterdir()) == ["cases", "evaluation"]
