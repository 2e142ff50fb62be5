"""The table of which check looks for which cause."""

from __future__ import annotations

from hermes_agent.questions.coverage import CHECKS_OF_CAUSE, CHECKS_OF_MECHANISM, checks_for
from tests.hermes_agent.questions import discussed
from tools.knowledge.taxonomy import causes


def test_the_table_names_causes_and_mechanisms_of_the_taxonomy() -> None:
    mechanisms = {mechanism for cause in causes().values() for mechanism in cause.mechanisms}
    assert set(CHECKS_OF_CAUSE) <= set(causes())
    assert set(CHECKS_OF_MECHANISM) <= mechanisms


def test_every_check_of_the_table_is_made_by_some_analyzer() -> None:
    runs = (discussed.slow_loader(), discussed.late_rank())
    made = {check.analyzer for run in runs for check in run.diagnosis.checks}
    assert {name for names in CHECKS_OF_CAUSE.values() for name in names} - made == set()
    assert {name for names in CHECKS_OF_MECHANISM.values() for name in names} - made == set()


def test_a_mechanism_without_a_check_of_its_own_is_not_covered_by_its_cause() -> None:
    assert checks_for("memory_pressure", "offload_stall") == ()
    assert checks_for("operator_dispatch", "gil_contention") == ("cpu.interpreter_lock",)
    assert checks_for("operator_dispatch", "small_operators") == ("cpu.small_operators",)
    assert checks_for("slow_data_processing", "too_few_workers") == ("io.data_loader",)
    assert checks_for("byte_alignment") == ()
