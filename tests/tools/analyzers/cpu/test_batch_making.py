"""Python code on the training thread that makes a batch, or does something else between the steps."""

from __future__ import annotations

import numpy as np
import pytest

from tests.asked import ask
from tests.synthetic import RankBuilder, profile_of
from tools.judgement.ranking import ranking
from tools.run.events import EventKind
from tools.views.host.batch_making import makes_batch
from tools.views.profile import Profile

STEP_US = 100_000.0
PYTHON_US = 20_000.0


def trained(before: str = "", after: str = "", made: bool = True, stacks: bool = True, last_us: float = 0.0) -> Profile:
    """Four steps: Python code, tensors of its values, 60 ms of training, and Python code again.

    ``last_us`` is a pause between the tensors and the forward pass.
    """
    rank = RankBuilder(device=None)
    for number in range(4):
        begin = at = number * STEP_US
        rank.step(number, begin, begin + STEP_US)
        if before:
            if stacks:
                rank.event(EventKind.PYTHON, before, at, PYTHON_US)
            at += PYTHON_US
        rank.operator("aten::lift_fresh" if made else "aten::add", at + 10.0, 10.0)
        at += 20.0 + last_us
        rank.operator("aten::linear", at + 10.0, 30_000.0)
        rank.operator("autograd::engine::evaluate_function: AddmmBackward0", at + 30_020.0, 25_000.0)
        rank.annotation("Optimizer.step#SGD.step", at + 55_040.0, 5_000.0)
        rank.operator("aten::add_", at + 55_050.0, 4_980.0)
        at += 60_050.0
        if after:
            if stacks:
                rank.event(EventKind.PYTHON, after, at, PYTHON_US)
            at += PYTHON_US
        rank.operator("aten::sum", at, begin + STEP_US - at)
    return profile_of(rank)


def cause_of(profile: Profile) -> tuple[str, str | None]:
    (finding,) = ask(profile, "cpu.host_pauses").findings
    return finding.cause, finding.mechanism


def test_a_function_whose_values_become_the_tensors_of_the_forward_pass_makes_the_batch() -> None:
    profile = trained(before="clicks.py(50): rows")
    assert cause_of(profile) == ("slow_data_processing", "heavy_transform")
    assert ranking(profile).causes[0].impact_ms == pytest.approx(20.0, rel=0.05)


def test_a_function_without_tensors_of_its_values_is_python_code_of_the_program() -> None:
    assert cause_of(trained(before="clicks.py(50): rows", made=False)) == ("operator_dispatch", None)


def test_a_function_at_the_end_of_the_step_makes_no_batch_where_another_comes_before_the_forward_pass() -> None:
    assert cause_of(trained(after="metrics.py(9): report", last_us=15_000.0)) == ("operator_dispatch", None)


def test_where_something_else_follows_before_the_forward_pass_no_batch_is_made() -> None:
    moments = np.array([[0, PYTHON_US * 1e3]], dtype=np.int64)
    assert makes_batch(trained(before="rows", stacks=False), 0, moments)
    assert not makes_batch(trained(before="rows", stacks=False, last_us=15_000.0), 0, moments)


def test_code_after_the_forward_pass_makes_no_batch() -> None:
    profile = trained(before="rows", stacks=False)
    behind = int((PYTHON_US + 30_030.0) * 1e3)
    assert not makes_batch(profile, 0, np.array([[behind, behind + 5_000]], dtype=np.int64))


def test_no_moments_make_no_batch() -> None:
    assert not makes_batch(trained(), 0, np.empty((0, 2), dtype=np.int64))


def test_a_pause_before_the_tensors_of_a_batch_is_a_lead_on_data_processing() -> None:
    (lead,) = ranking(trained(before="rows", stacks=False)).leads
    assert lead.candidates[0].cause == "slow_data_processing"


def test_frames_that_share_the_pauses_name_none_of_them() -> None:
    rank = RankBuilder(device=None)
    for number in range(3):
        begin = number * STEP_US
        rank.step(number, begin, begin + STEP_US)
        rank.operator("aten::linear", begin, 80_000.0)
        for place in range(4):
            rank.event(EventKind.PYTHON, f"hooks.py({place}): hook{place}", begin + 80_000.0 + place * 5_000.0, 5_000.0)
    answer = ask(profile_of(rank), "cpu.host_pauses")
    assert answer.status == "cannot_answer"
    assert "no Python function fills most" in answer.reason
