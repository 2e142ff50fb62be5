"""What the answer says of a job's own output."""

from __future__ import annotations

from pathlib import Path

from hermes_agent.model.request import Request
from hermes_agent.workflow.diagnose import diagnose
from tests.tools.sources.job_log.logs import megatron
from tests.tools.sources.job_log.test_communication import NCCL, WATCHDOG


def test_a_hang_is_the_first_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text(WATCHDOG)
    found = diagnose(Request((tmp_path,)), lambda event: None)
    assert found.verdict == "inconclusive"
    assert found.headline == "Rank 7 waited 600013 ms [E1] for `ALLTOALL` (sequence number `4486`), which timed out."
    assert found.evidence[0].source.path.endswith("job.out")
    assert found.evidence[0].source.selector == "collective timeout, line 1"


def test_sockets_are_said_and_the_steps_stay_measured(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text(NCCL + megatron(*((step, 100.0 + step % 3) for step in range(1, 41))))
    found = diagnose(Request((tmp_path,)), lambda event: None)
    assert "NCCL connects ranks over TCP sockets: 1 connection" in " ".join(found.answer)
    assert found.step_time_ms is not None
    assert found.step_time_ms.unprofiled is not None
    assert found.step_time_ms.unprofiled.source == "job log"
