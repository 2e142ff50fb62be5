"""The page of causes is the one that the declarations give, and each cause on it is whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from case_library.causes_page import KINDS, OF_SAMPLED_STEPS, OTHER_TABLES, PATH, definition, look_alikes, looking, page
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


def test_a_log_of_steps_answers_the_checks_that_are_said_to_answer_from_it(tmp_path: Path) -> None:
    log = tmp_path / "job.out"
    log.write_text(megatron(*((step, 900.0 + (step % 20 == 0) * 900.0) for step in range(1, 201))))
    found = diagnose(Request((log,)), lambda _: None)
    answered = {check.analyzer for check in found.checks if check.status != "cannot_answer"}
    from_steps = {spec.name for cause in causes() for spec in looking(cause).get("step times", [])}
    assert from_steps == {"storage.periodic_stall"}
    assert from_steps <= answered
    assert not OF_SAMPLED_STEPS & answered


def test_sources_of_checks_are_those_that_their_declarations_say() -> None:
    assert {kind: [spec.name for spec in specs] for kind, specs in looking("pipeline_bubble").items()} == {
        "traces": ["pipeline.bubble"],
        "output": ["pipeline.schedule"],
    }
    assert set(looking("slow_device")) == {"traces", "samples"}
    assert set(looking("byte_alignment")) == {"NPU tables"}
    assert set(OTHER_TABLES) <= {spec.name for spec in CHECKS if spec.from_records == "tables"}
    assert set(looking("bandwidth_contention")) == {"traces with monitor"}
    used = {kind for cause in causes() for kind in looking(cause)}
    assert used == set(KINDS)
