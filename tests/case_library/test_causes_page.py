"""The page of causes is the one that the declarations give, and each cause on it is whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from case_library.causes_page import KINDS, OTHER_TABLES, PATH, definition, look_alikes, looking, of_whole, page
from hermes_agent.model.request import Request
from hermes_agent.workflow.diagnose import diagnose
from tests.tools.sources.job_log.logs import megatron
from tools.analyzers.registry import CHECKS
from tools.knowledge.taxonomy import causes

REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_stored_page_is_up_to_date() -> None:
    stored = (REPOSITORY / PATH).read_text(encoding="utf-8")
    assert stored == page(), "python -m case_library.causes_page --write"


@pytest.mark.parametrize("cause", list(causes()))
def test_every_cause_has_a_definition_a_source_and_look_alikes_of_the_taxonomy(cause: str) -> None:
    assert definition(cause).endswith(".")
    assert looking(cause)
    assert look_alikes(cause)
    for text in look_alikes(cause):
        named = set(re.findall(r"`([a-z_]+)`", text.partition(":")[0]))
        assert named <= set(causes())
        assert cause not in named


def answered(log: Path) -> dict[str, str]:
    found = diagnose(Request((log,)), lambda _: None)
    return {check.analyzer: check.status for check in found.checks if check.status != "cannot_answer"}


def test_a_log_of_steps_answers_the_checks_that_are_said_to_answer_from_it(tmp_path: Path) -> None:
    """Step times alone, and step lines with a wait for data: of these, what reads data is not known."""
    log, waits = tmp_path / "job.out", tmp_path / "waits.out"
    log.write_text(megatron(*((step, 900.0 + (step % 20 == 0) * 900.0) for step in range(1, 201))))
    waits.write_text("".join(f"Epoch: [0] [{at:3d}/200] time: 0.5000 data: 0.4000\n" for at in range(200)))
    of_steps = {cause: [spec.name for spec in looking(cause).get("step times", [])] for cause in causes()}
    assert {cause: names for cause, names in of_steps.items() if names} == {
        "evaluation_stall": ["storage.periodic_stall"],
        "checkpoint_stall": ["storage.periodic_stall"],
        "slow_data_processing": ["io.data_loader"],
    }
    assert "storage.periodic_stall" in answered(log)
    assert "io.data_loader" not in answered(log)
    assert answered(waits)["io.data_loader"] == "found"


def test_sources_of_checks_are_those_that_their_declarations_say() -> None:
    assert {kind: [spec.name for spec in specs] for kind, specs in looking("pipeline_bubble").items()} == {
        "traces": ["pipeline.bubble"],
        "output": ["pipeline.schedule"],
    }
    assert set(looking("slow_device")) == {"traces", "samples", "collectives", "output"}
    assert not of_whole(looking("slow_device")["collectives"], causes()["slow_device"])
    assert set(looking("byte_alignment")) == {"NPU tables"}
    assert set(OTHER_TABLES) <= {spec.name for spec in CHECKS if spec.from_records == "tables"}
    assert set(looking("bandwidth_contention")) == {"traces with monitor"}
    used = {kind for cause in causes() for kind in looking(cause)}
    assert used == set(KINDS)


def test_every_cause_that_a_check_names_is_declared_by_one_of_its_module() -> None:
    modules: dict[str, set[str]] = {}
    for spec in CHECKS:
        modules.setdefault(spec.function.__module__, set()).update((*spec.causes, *spec.may_find))
    for module, declared in modules.items():
        text = (REPOSITORY / f"{module.replace('.', '/')}.py").read_text("utf-8")
        assert set(re.findall(r'cause="(\w+)"', text)) <= declared, module
