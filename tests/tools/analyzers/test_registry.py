"""The list of checks, and what is derived from it."""

from __future__ import annotations

from pathlib import Path

from tools.analyzers.page import PATH, page
from tools.analyzers.registry import CHECKS, checks_for, unwatched_causes
from tools.knowledge.taxonomy import causes

ROOT = Path(__file__).parents[3]


def test_specs_name_causes_and_mechanisms_of_the_taxonomy() -> None:
    for spec in CHECKS:
        mechanisms = {mechanism for cause in spec.causes for mechanism in causes()[cause].mechanisms}
        assert set(spec.mechanisms) <= mechanisms, spec.name
    assert len({spec.name for spec in CHECKS}) == len({spec.title for spec in CHECKS}) == len(CHECKS)


def test_a_mechanism_without_a_check_of_its_own_is_not_covered_by_its_cause() -> None:
    assert checks_for("environment_configuration", "power_governor") == ()
    assert checks_for("memory_pressure", "offload_stall") == ("memory.offload",)
    assert checks_for("operator_dispatch", "gil_contention") == ("cpu.interpreter_lock",)
    assert checks_for("operator_dispatch", "small_operators") == ("cpu.small_operators",)
    assert checks_for("slow_data_processing", "too_few_workers") == ("io.data_loader",)
    slow = ("computation.slow_device", "computation.straggler_report", "computation.core_clock", "computation.clocks")
    assert checks_for("slow_device", "thermal") == checks_for("slow_device", "down_clock") == slow
    assert checks_for("byte_alignment") == ("communication.packets",)
    assert "byte_alignment" not in unwatched_causes()


def test_the_page_of_checks_is_up_to_date() -> None:
    assert (ROOT / PATH).read_text(encoding="utf-8") == page()
