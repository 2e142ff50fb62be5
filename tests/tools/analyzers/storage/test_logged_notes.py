"""Long steps at one distance of which the job's output says that it saves or evaluates in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.asked import ask
from tests.recorded_runs import records_of, step_rows
from tools.findings import Finding
from tools.knowledge.thresholds import Thresholds
from tools.run.model import Layout, Run
from tools.sources.job_log.reader import read_job_log
from tools.views.profile import Profile

STEPS, SETTLING, LONG_MS, USUAL_MS = 60, 6, 80.0, 50.0
LONG = range(9, STEPS, 10)  # as the monitor counts, from 0


def _asked(folder: Path, notes: list[str], ran: float = 0.0) -> list[Finding]:
    """A run with a long step in every ten, in which the thread computes for that share, and these lines of output."""
    walls = [LONG_MS if step in LONG else USUAL_MS for step in range(STEPS)]
    cpu = [USUAL_MS - 1.0 + (LONG_MS - USUAL_MS) * ran * (step in LONG) for step in range(STEPS)]
    path = folder / "train.log"
    path.write_text("\n".join(notes), encoding="utf-8")
    log = read_job_log(path).log
    assert log is not None
    records = records_of([step_rows(0, walls, thread_cpu_ms=cpu)])
    run = Run((), (), Layout(world_size=1), None, records=records, job_log=log)
    return list(ask(Profile(run, Thresholds({})), "storage.periodic_stall").findings)


SAVED = [f"saved checkpoint at step {step + 1}" for step in LONG]
EVALUATED = [f"validation at step {step + 1}: loss 0.5" for step in LONG]


def test_steps_that_the_output_names_as_saved_are_saves_with_the_cost_of_rarer_ones(tmp_path: Path) -> None:
    (finding,) = _asked(tmp_path, SAVED, ran=1.0)
    assert (finding.cause, finding.mechanism, finding.confidence) == ("checkpoint_stall", "synchronous_save", 0.85)
    counted = STEPS - SETTLING
    cost_ms = (LONG_MS - USUAL_MS) * 6 / counted
    assert finding.claim.facts[-1].value == pytest.approx(cost_ms)
    five, one = finding.details[-1].facts
    # excess / N = share of the mean step with them: (T + excess / N) share
    for fact, share in ((five, 0.05), (one, 0.01)):
        excess_ms = LONG_MS - USUAL_MS
        assert excess_ms / fact.value <= share * (USUAL_MS + excess_ms / fact.value)
        assert excess_ms / (fact.value - 1) > share * (USUAL_MS + excess_ms / (fact.value - 1))


def test_steps_that_the_output_names_as_evaluated_are_evaluations(tmp_path: Path) -> None:
    (finding,) = _asked(tmp_path, EVALUATED, ran=1.0)
    assert (finding.cause, finding.confidence) == ("evaluation_stall", 0.85)
    assert finding.steps == tuple(LONG)


def test_steps_that_the_output_names_as_both_have_two_causes_and_no_gain_of_one(tmp_path: Path) -> None:
    both = [line for pair in zip(EVALUATED, SAVED, strict=True) for line in pair]
    (finding,) = _asked(tmp_path, both, ran=1.0)
    assert "the model is evaluated and that its state is saved" in finding.claim.template
    assert finding.confidence == 0.45
    assert finding.hints["open"] == "long_steps", "a lead that names both, and no cause"
    assert finding.saving is not None
    assert finding.saving.least_ms == 0.0


@pytest.mark.parametrize(
    "notes",
    [
        [f"saved checkpoint at step {step}" for step in range(5, STEPS, 10)],  # in other steps
        SAVED[:3],  # in half of the long ones
        [f"step {step} val 0.5" for step in range(1, STEPS + 1)],  # every line repeats the last evaluation
        ["saved checkpoint at step 10", "saved checkpoint at step 20"],
    ],
)
def test_notes_on_other_steps_or_on_all_of_them_name_nothing(tmp_path: Path, notes: list[str]) -> None:
    (finding,) = _asked(tmp_path, notes, ran=1.0)
    assert (finding.cause, finding.confidence) == ("evaluation_stall", 0.45), "by what the thread does alone"
