"""Leads of runs without a trace."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.request import Request
from hermes_agent.workflow.diagnose import diagnose
from tests.recorded_runs import environment_of, records_of, step_rows, untraced_profile
from tools.judgement.lead import Lead
from tools.judgement.ranking import ranking


def _diagnosed(folder: Path, *ranks_ms: Sequence[float]) -> Diagnosis:
    folder.mkdir()
    for rank, walls in enumerate(ranks_ms):
        lines = (json.dumps({"step": step, "wall_ms": wall}) for step, wall in enumerate(walls))
        (folder / f"steps_rank{rank}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return diagnose(Request(paths=(folder,), cache_dir=folder.parent / "cache"), lambda _: None)


def test_a_log_of_even_steps_leads_to_the_whole_step_and_asks_for_a_trace(tmp_path: Path) -> None:
    found = _diagnosed(tmp_path / "run", [100.0 + step % 3 for step in range(60)])
    (lead,) = found.leads
    assert (found.verdict, lead.place.part, lead.place.steps, lead.place.ranks) == (
        "inconclusive",
        "step",
        "every step",
        [0],
    )
    assert lead.impact_ms_per_step == pytest.approx(101.0, abs=0.2)
    assert "hermes-dx monitor profile" in lead.decide_by
    assert "straggler" not in [each.cause for each in lead.candidates], "one rank waits for nobody"


def test_steps_of_very_different_length_are_not_laid_to_computation(tmp_path: Path) -> None:
    """3 of each 10 steps take 900 ms, the others 100: the p95 is nine times the median."""
    found = _diagnosed(tmp_path / "run", [900.0 if step * 7 % 10 < 3 else 100.0 + step % 3 for step in range(61)])
    whole = next(each for each in found.leads if each.place.part == "step" and each.place.steps == "every step")
    causes = [each.cause for each in whole.candidates]
    assert causes[0] == "slow_data_reading"
    assert {"compute_bound", "underutilization"}.isdisjoint(causes)
    assert "at the median" in whole.claim


def test_steps_that_get_longer_at_one_step_lead_with_what_that_adds_to_the_mean(tmp_path: Path) -> None:
    found = _diagnosed(tmp_path / "run", [(500.0 if step < 120 else 650.0) + step % 3 for step in range(200)])
    change, whole = found.leads
    assert (change.place.steps, whole.place.steps) == ("from step 120 on", "every step")
    # The first ten steps are the start: 80 of 190 steps take 150 ms longer.
    assert change.impact_ms_per_step == pytest.approx(150.0 * 80 / 190, rel=0.01)
    assert "slow_device" in [each.cause for each in change.candidates]
    assert "before and after the change" in change.decide_by


def test_steps_that_get_steadily_longer_lead_with_the_slope_and_what_it_adds(tmp_path: Path) -> None:
    """Growth of 1.5 ms a step under noise of 20 ms, the last tenth a little shorter: no change of level."""
    rng = np.random.default_rng(3)
    walls = 150.0 + 1.5 * np.arange(130) + rng.normal(0, 20.0, 130) - 40.0 * (np.arange(130) >= 117)
    growth, whole = _diagnosed(tmp_path / "run", walls.tolist()).leads
    slope, _ = np.polyfit(np.arange(10, 130), walls[10:], 1)
    assert ("steadily longer" in growth.claim, growth.place.steps) == (True, "towards the end")
    assert growth.impact_ms_per_step == pytest.approx(slope * 119 / 2, rel=0.15)
    assert growth.candidates[0].cause == "compute_bound"
    assert not {"slow_link", "straggler", "data_skew"} & {each.cause for each in growth.candidates}
    assert "nvidia-smi" not in growth.decide_by
    assert whole.place.steps == "every step"


def test_shrinking_even_and_jumping_steps_do_not_grow(tmp_path: Path) -> None:
    noise = np.random.default_rng(4).normal(0, 5.0, 120)
    place = np.arange(120)
    shapes = {"shrinking": 400.0 - place, "even": 100.0 + 0.0 * place, "jumping": 100.0 + 80.0 * (place >= 60)}
    for name, walls in shapes.items():
        leads = _diagnosed(tmp_path / name, (walls + noise).tolist()).leads
        assert not [each for each in leads if "steadily" in each.claim], name


def test_steps_that_are_long_until_one_step_name_what_ends_by_itself(tmp_path: Path) -> None:
    found = _diagnosed(tmp_path / "run", [(900.0 if step < 100 else 600.0) + step % 5 for step in range(200)])
    assert found.leads[0].place.steps == "until step 100"
    assert found.leads[0].impact_ms_per_step == pytest.approx(300.0 * 90 / 190, rel=0.01)
    assert "operator_compilation" in [each.cause for each in found.leads[0].candidates]


def test_a_small_change_few_steps_and_overlapping_levels_are_no_lead(tmp_path: Path) -> None:
    small = [500.0 + (30.0 if step >= 100 else 0.0) + step % 3 for step in range(200)]
    late = [500.0 + (200.0 if step >= 190 else 0.0) + step % 3 for step in range(200)]
    noisy = [500.0 + (60.0 if step >= 100 else 0.0) + 40.0 * (step * 7 % 11) for step in range(200)]
    for name, walls in (("small", small), ("late", late), ("noisy", noisy)):
        assert [each.place.steps for each in _diagnosed(tmp_path / name, walls).leads] == ["every step"], name


def test_a_rhythm_in_the_log_is_the_lead_with_the_steps_that_it_hits(tmp_path: Path) -> None:
    found = _diagnosed(tmp_path / "run", [400.0 if step % 6 == 5 else 60.0 for step in range(90)])
    (lead,) = found.leads
    assert (found.verdict, lead.place.part, lead.place.steps) == ("inconclusive", "step", "every 6th step")
    assert [each.cause for each in lead.candidates][:3] == [
        "checkpoint_stall",
        "evaluation_stall",
        "garbage_collection",
    ]
    assert (found.causes, found.advice) == ([], []), "only the length of the steps is known, nothing says of saving"
    assert "operator_compilation" in [each.cause for each in lead.candidates]
    assert "every 6th step takes 340 ms" in found.answer[0]
    assert "monitor.step()" in lead.decide_by
    assert f"what would settle it: {lead.decide_by}." in " ".join(found.answer)
    assert lead.impact_ms_per_step == pytest.approx(340.0 / 6, rel=0.05)


def test_steps_too_long_to_be_filled_by_launching_name_the_work_first(tmp_path: Path) -> None:
    """Launching fills no step of 100 s: that would be ten million operators."""
    short = _diagnosed(tmp_path / "short", [100.0 + step % 3 for step in range(60)])
    long = _diagnosed(tmp_path / "long", [100_000.0 + step % 3 for step in range(60)])
    assert short.leads[0].candidates[0].cause == "operator_dispatch"
    assert long.leads[0].candidates[0].cause == "compute_bound"
    assert "operator_dispatch" not in [each.cause for each in long.leads[0].candidates]


def _lead_of_threads(*on_core_ms: float) -> Lead:
    """The lead of ranks on a host whose threads run so long in each step of 100 ms and never wait for a core."""
    steps = [step_rows(rank, [100.0] * 60, thread_cpu_ms=own) for rank, own in enumerate(on_core_ms)]
    environments = [environment_of(rank) for rank in range(len(on_core_ms))]
    (lead,) = ranking(untraced_profile(records_of(steps, environments=environments))).leads
    return lead


def test_threads_blocked_on_every_rank_lead_to_transfers_with_the_least_of_them() -> None:
    lead = _lead_of_threads(40.0, 55.0)
    assert (lead.place.part, lead.place.ranks) == ("exposed_communication", (0, 1))
    assert lead.impact_ms == pytest.approx(45.0)
    assert [each.cause for each in lead.candidates][:2] == ["slow_link", "poor_overlap"]


def test_a_rank_that_is_hardly_blocked_while_the_other_is_may_be_waited_for() -> None:
    lead = _lead_of_threads(20.0, 95.0)
    assert (lead.place.part, lead.place.ranks) == ("exposed_communication", (1,))
    assert [fact.value for fact in lead.claim.facts] == pytest.approx([80.0, 100.0, 5.0])
    assert lead.claim.names == ("1", "0")
    assert lead.candidates[0].cause == "straggler"


def test_one_blocked_process_waits_for_no_rank_and_a_computing_one_loses_nothing_to_waiting() -> None:
    blocked, computing = _lead_of_threads(60.0), _lead_of_threads(97.0)
    assert (blocked.place.part, computing.place.part) == ("host", "compute")
    assert [blocked.impact_ms, computing.impact_ms] == pytest.approx([40.0, 97.0])
    assert "slow_link" not in [each.cause for each in (*blocked.candidates, *computing.candidates)]


CACHE_OFF = "`use_cache=True` is incompatible with gradient checkpointing. Setting `use_cache=False`.\n"


def _text_of(folder: Path, record: str) -> str:
    """Three of each ten steps take 900 ms, the others 100; every tenth line is followed by a record."""
    folder.mkdir()
    lines = "".join(
        f"step {step} loss 1.0 step time {900 if step * 7 % 10 < 3 else 100 + step % 3} ms\n"
        + (record if step % 10 == 0 else "")
        for step in range(1, 62)
    )
    (folder / "train.log").write_text(CACHE_OFF + lines, encoding="utf-8")
    found = diagnose(Request(paths=(folder / "train.log",), cache_dir=folder / "cache"), lambda _: None)
    checked = [sentence for check in found.checks for sentence in check.text]
    return " ".join([*(each.claim for each in found.leads), *checked])


def test_generated_texts_are_named_as_what_may_make_steps_differ(tmp_path: Path) -> None:
    text = _text_of(tmp_path / "run", "{'loss': 0.0, 'completion_length': 386.5, 'reward': 0.1}\n")
    assert "Steps generate text (line 12 states its length)" in text
    assert "Transformers turns `use_cache` off" in text


@pytest.mark.parametrize("record", ["", "{'loss': 0.0, 'max_completion_length': 512}\n", "{'rewards/chosen': 0.1}\n"])
def test_without_the_length_of_a_text_nothing_is_said_of_generating(tmp_path: Path, record: str) -> None:
    text = _text_of(tmp_path / "run", record)
    assert "generate" not in text
    assert "use_cache" not in text
