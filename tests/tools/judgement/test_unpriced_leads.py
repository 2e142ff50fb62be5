"""What a job's output shows at a cost that is not known is a lead next to step times."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.request import Request
from hermes_agent.workflow.diagnose import diagnose
from tests.hermes_agent.questions.test_output_answers import EVEN, SOCKETS

FLUSHED = "[WARNING] [stage3.py:1850:step] 2 pytorch allocator cache flushes since last step. this happens when there"
LIMIT = (
    "W0822 15:22:22.123000 12345 torch/_dynamo/convert_frame.py:8] [0/8] torch._dynamo hit config.cache_size_limit (8)"
)


def diagnosed(folder: Path, *lines: str) -> Diagnosis:
    (folder / "train.log").write_text("\n".join(lines) + "\n")
    return diagnose(Request(paths=(folder,), cache_dir=folder.parent / "cache"), lambda _: None)


@pytest.mark.parametrize(
    ("lines", "part", "candidate", "said"),
    [
        (SOCKETS, "exposed_communication", ("network_configuration", "socket_fallback"), "over TCP sockets"),
        ([FLUSHED] * 10, "host", ("memory_pressure", "allocator_retry"), "its cache and tries again"),
        ([LIMIT], "host", ("operator_compilation", "dynamic_shape"), "limit of recompilations"),
    ],
)
def test_a_finding_without_a_cost_leads_before_the_step_as_a_whole_and_is_no_cause(
    tmp_path: Path, lines: list[str], part: str, candidate: tuple[str, str], said: str
) -> None:
    found = diagnosed(tmp_path, *lines, *EVEN)
    first, whole = found.leads
    assert (found.verdict, found.causes, first.place.part) == ("inconclusive", [], part)
    assert (first.candidates[0].cause, first.candidates[0].mechanism) == candidate
    assert (first.impact_ms_per_step, first.impact_pct) == (0.0, 0.0)
    assert said in first.claim
    assert sum(said in each for each in found.answer) == 1
    assert whole.place.part == "step"
    assert "hermes-dx monitor profile" in first.decide_by


def test_skipped_steps_lead_with_their_share_and_no_candidate(tmp_path: Path) -> None:
    text = " iteration {:8d}/ 1000 | elapsed time per iteration (ms): 1000.{} | loss scale: 8192.0 | "
    text += "number of skipped iterations: {:3d} | number of nan iterations:   0 |"
    first, _ = diagnosed(tmp_path, *(text.format(at, at % 3, at % 3 == 0) for at in range(1, 91))).leads
    assert "33.3 %" in first.claim
    assert "skipped for overflow" in first.claim
    assert (first.candidates, first.impact_ms_per_step) == ([], 0.0)
    assert "bfloat16" in first.decide_by


@pytest.mark.parametrize("timer", ["batch generator", "batch-generator", "get-batch"])
def test_a_large_timer_of_batches_is_a_wait_for_data_with_its_share(tmp_path: Path, timer: str) -> None:
    text = " iteration {:8d}/ 1000 | elapsed time per iteration (ms): 1000.0 | loss scale: 8192.0 |\n"
    text += "time (ms) | forward: 300.0 | backward: 400.0 | {}: {}"
    (lead,) = diagnosed(tmp_path, *(text.format(at, timer, 250.0) for at in range(1, 41))).leads
    assert lead.place.part == "data_wait"
    assert lead.impact_pct == pytest.approx(25.0)
    assert lead.impact_ms_per_step == pytest.approx(250.0)
    assert [each.cause for each in lead.candidates] == ["slow_data_reading", "slow_data_processing"]


def test_a_small_timer_of_batches_is_no_lead(tmp_path: Path) -> None:
    text = " iteration {:8d}/ 1000 | elapsed time per iteration (ms): 1000.0 | loss scale: 8192.0 |\n"
    text += "time (ms) | forward: 300.0 | backward: 400.0 | batch-generator: 4.0"
    (lead,) = diagnosed(tmp_path, *(text.format(at) for at in range(1, 41))).leads
    assert lead.place.part == "step"
