"""``hermes_agent.diagnose`` in a script or notebook."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hermes_agent
from hermes_agent import DiagnosedRun, InputError, UsageError, diagnose
from hermes_agent.api.page import page
from hermes_agent.config.settings import Settings
from hermes_agent.demo.data import demo_fixed_run, demo_run
from hermes_agent.model.diagnosis import Diagnosis
from tests.tools.sources.kineto_text import kernel, write_trace

PARTS = ["compute_ms", "exposed_communication_ms", "exposed_memcpy_ms", "data_wait_ms", "host_ms", "idle_ms"]


@pytest.fixture(scope="module")
def run(shared_cache: Path) -> DiagnosedRun:
    return diagnose(demo_run(), settings=Settings(cache_dir=shared_cache))


def test_importing_the_package_imports_nothing_else() -> None:
    text = "import sys; before = set(sys.modules); import hermes_agent; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, env=os.environ)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded - sys.stdlib_module_names <= {"hermes_agent"}


def test_every_name_that_the_package_offers_is_there_and_no_other() -> None:
    assert all(callable(getattr(hermes_agent, name)) for name in hermes_agent.__all__)
    assert set(hermes_agent.__all__) <= set(dir(hermes_agent))
    with pytest.raises(AttributeError, match="diagnoze"):
        _ = hermes_agent.diagnoze


def test_the_tables_are_the_records_of_the_contract(run: DiagnosedRun) -> None:
    record = json.loads(run.to_json())
    assert Diagnosis.model_validate(record) == run.diagnosis
    assert run.verdict == record["verdict"]
    assert list(run.causes["cause"]) == [each["cause"] for each in record["causes"]]
    assert run.evidence.loc["E7", "value"] == next(each["value"] for each in record["evidence"] if each["id"] == "E7")
    assert list(run.advice["for_"]) == [each["for"] for each in record["advice"]]
    assert len(run.checks) == len(record["checks"])
    assert len(run.leads) == len(record["leads"])
    assert run.to_markdown().startswith("# Problem\n")


def test_the_parts_of_each_ranks_mean_step_add_up_to_it(run: DiagnosedRun) -> None:
    assert list(run.breakdown.index) == [0, 1]
    assert (run.breakdown[PARTS].sum(axis=1) - run.breakdown["wall_ms"]).abs().max() < 1e-6
    assert (run.steps[PARTS].sum(axis=1) - run.steps["wall_ms"]).abs().max() < 1e-6


def test_the_events_of_a_rank_are_those_of_its_file_in_order(run: DiagnosedRun) -> None:
    events = run.events(rank=1)
    assert set(events["rank"]) == {1}
    assert (events["start_ns"].diff().dropna() >= 0).all()
    assert set(events.loc[events["step"] >= 0, "step"]) == set(run.steps.index)
    operators = run.events(1, "operator")
    counted = operators[operators["step"] >= 0]["name"].value_counts()
    table = run.operators
    listed = table[table["rank"] == 1].set_index("name")["calls"]
    assert {name: counted[name] for name in listed.index} == listed.to_dict()
    assert run.kernels.empty  # of two CPU processes
    with pytest.raises(UsageError, match="kinds are other, operator"):
        run.events(0, "dance")
    with pytest.raises(UsageError, match="rank"):
        run.events(rank=7)


def test_a_prediction_without_a_cause_is_the_advices(run: DiagnosedRun) -> None:
    without = run.whatif("slow_data_processing")
    advice = run.advice.iloc[0]
    assert without.step_ms == pytest.approx(advice["predicted_step_ms"])
    assert without.speedup == pytest.approx(advice["predicted_speedup"])
    step_ms = float(run.evidence["value"].loc["E1"])
    assert (step_ms / without.high_ms, step_ms / without.low_ms) == pytest.approx(advice["interval"])
    assert without.low_ms < without.step_ms < without.high_ms
    with pytest.raises(UsageError, match="garbage_collection was not found"):
        run.whatif("garbage_collection")
    with pytest.raises(UsageError, match="there is no cause 'magic'"):
        run.whatif("magic")
    with pytest.raises(UsageError, match="name the causes"):
        run.whatif()


def test_questions_figures_and_comparisons_are_those_of_the_command_line(run: DiagnosedRun, shared_cache: Path) -> None:
    answer = run.ask("why not the network?")
    assert answer.evidence
    assert run.show("E7").title.startswith("E7")
    with diagnose(demo_fixed_run(), settings=Settings(cache_dir=shared_cache)) as fixed:
        changed = fixed.compare(run)
    assert changed.comparison.step.after.value < changed.comparison.step.before.value
    assert list(run.recorded_steps["rank"].unique()) == [0, 1]


def test_nothing_is_printed_and_no_state_is_shared(run: DiagnosedRun, capfd: pytest.CaptureFixture[str]) -> None:
    again = diagnose(demo_run(), settings=run._session.settings)
    again.ask("Why is it slow?")
    assert capfd.readouterr() == ("", "")
    assert again.diagnosis == run.diagnosis
    assert again._session.turns != run._session.turns


def test_the_display_in_a_notebook_is_escaped_and_small(run: DiagnosedRun) -> None:
    assert "heavy data transforms on rank 1" in run._repr_html_().lower()
    cause = run.diagnosis.causes[0].model_copy(update={"where": "<script>alert(1)</script>"})
    hostile = run.diagnosis.model_copy(update={"causes": [cause] * 50, "headline": "<img src=x>\x1b[2J" * 10_000})
    text = page(hostile)
    assert "<script" not in text
    assert "<img" not in text
    assert "\x1b" not in text
    assert len(text) < 10_000


def test_a_run_without_a_trace_has_its_recorded_steps_alone(tmp_path: Path, index_only: Path) -> None:
    (tmp_path / "run").mkdir()
    shutil.copy(demo_run() / "steps_rank0.jsonl", tmp_path / "run")
    with diagnose(tmp_path / "run", settings=Settings(cache_dir=index_only)) as d:
        assert d.breakdown.empty
        steps = d.recorded_steps
        assert d.diagnosis.step_time_ms is not None
        assert steps["wall_ms"].mean() == pytest.approx(d.diagnosis.step_time_ms.mean)
        assert d.steps["wall_ms"].tolist() == pytest.approx(steps["wall_ms"].tolist(), abs=0.01)
        with pytest.raises(UsageError, match="no trace"):
            d.events(0)


@pytest.mark.parametrize("words", [(), ("",), (None,)])
def test_diagnosing_nothing_is_one_clear_sentence(words: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name what to diagnose"):
        diagnose(*words, settings=Settings(cache_dir=tmp_path))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"steps": 5}, "steps are the first and the last one"),
        ({"steps": (1, 2, 3)}, "steps are the first and the last one"),
        ({"steps": "10:20"}, "steps are the first and the last one"),
        ({"ranks": 0}, "ranks are the numbers of some"),
        ({"ranks": ["0"]}, "ranks are the numbers of some"),
        ({"baseline": 3}, "a run is a path or a URL"),
    ],
)
def test_arguments_of_another_kind_are_one_clear_sentence(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        diagnose(demo_run(), settings=Settings(cache_dir=None), **arguments)


def test_numbers_of_numpy_choose_steps_and_ranks(shared_cache: Path) -> None:
    chosen = np.arange(40, 42), np.array([1])
    with diagnose(demo_run(), settings=Settings(cache_dir=shared_cache), steps=chosen[0], ranks=chosen[1]) as d:  # type: ignore[arg-type]
        assert d.diagnosis.run.steps == [40, 41]
        assert d.diagnosis.run.ranks == [1]


def test_what_is_no_run_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: there is no such file or folder"):
        diagnose(tmp_path / "nowhere", settings=Settings(cache_dir=None))
    trace = write_trace(tmp_path / "rank0.json", [kernel("k", 1000 * n, 800, n) for n in range(1, 20)])
    with pytest.raises(InputError, match="no host thread"):
        diagnose(trace, settings=Settings(cache_dir=None))
