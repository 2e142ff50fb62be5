"""A check that raises leaves an open question, and the diagnosis keeps everything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.demo.data import demo_run
from hermes_agent.model.request import Request
from hermes_agent.workflow.diagnose import diagnose
from tools.analyzers.support.spec import CheckSpec
from tools.findings import Check
from tools.views.profile import Profile


@pytest.mark.parametrize(
    ("broken", "cause"),
    [
        ("step_time.level", "slow_data_processing"),
        ("step_time.fluctuation", "slow_data_processing"),
        ("communication.arrival_skew", "slow_data_processing"),
        ("cpu.profiling_overhead", "slow_data_processing"),
        ("io.data_loader", "straggler"),  # what the loader explained is then seen as the rank's lateness
    ],
)
def test_the_rest_of_the_answer_stays(broken: str, cause: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = CheckSpec.answer

    def raising(self: CheckSpec, profile: Profile) -> Check | None:
        if self.name == broken:
            raise IndexError("made up")
        return whole(self, profile)

    monkeypatch.setattr(CheckSpec, "answer", raising)
    result = diagnose(Request((demo_run(),), cache_dir=tmp_path), lambda _: None)
    (record,) = [check for check in result.checks if check.analyzer == broken]
    assert (record.status, "IndexError" in record.reason) == ("cannot_answer", True)
    assert (result.verdict, result.causes[0].cause) == ("problem", cause)
    assert result.breakdown
    assert result.step_time_ms is not None
    assert result.step_time_ms.median > 100.0
