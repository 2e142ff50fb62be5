"""Rates over a step and over the output of a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.questions.intents import reply
from tests.hermes_agent.questions.discussed import discuss
from tests.tools.agent_tools.questions_run import questions_profile
from tests.tools.analyzers.test_job_output import profile_of
from tests.tools.sources.job_log.logs import megatron


def test_the_rate_of_a_device_is_its_operations_over_the_step() -> None:
    """Forward and backward of two layers, in steps of 10 ms."""
    operations = 2 * (2 * 256 * 512 * 1024 + 2 * 8 * 16 * 32)
    discussion = discuss(questions_profile())
    found = reply(discussion, "how many TFLOPs do we achieve?")
    rates = {each.metric: each.value for each in found.evidence}
    assert rates["achieved_tflops"] == pytest.approx(operations / 10e-3 / 1e12)
    assert found.text.startswith("Rank 0 computes ")


def test_tokens_are_not_known_from_samples_but_the_samples_are(tmp_path: Path) -> None:
    discussion = discuss(profile_of(tmp_path, megatron(*((step, 1000.0) for step in range(1, 41)))))
    found = reply(discussion, "tokens per second?")
    assert "tokens per second are not known" in found.text
