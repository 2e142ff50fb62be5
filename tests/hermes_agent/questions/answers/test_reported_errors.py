"""Questions for errors of drivers: answered from the lines of the output, else what was read and where to look."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.questions.intents import reply
from tests.hermes_agent.questions.discussed import discuss, slow_loader
from tests.tools.sources.job_log.logs import megatron
from tests.tools.sources.job_log.test_reported_errors import WAITED, XID, profile_of

STEPS = megatron(*[(step, 1000.0) for step in range(1, 4)]).splitlines()


@pytest.mark.parametrize("question", ["any Xid?", "were there Xid errors", "any errors in the log?"])
def test_xid_lines_are_the_answer(tmp_path: Path, question: str) -> None:
    found = discuss(profile_of(tmp_path, *STEPS, XID.format(at=9, bus="3B", code=79)))
    assert "The driver reports `Xid 79` of the device at PCI `0000:3b:00`" in reply(found, question).text
    clean = tmp_path / "clean"
    clean.mkdir()
    assert reply(discuss(profile_of(clean, *STEPS)), question).text.split()[0] in ("No", "Among")
    assert "in none of the sources" in reply(slow_loader(), "any Xid?").text


def test_errors_of_hccl_are_the_answer(tmp_path: Path) -> None:
    found = discuss(profile_of(tmp_path, *STEPS, WAITED))
    assert "HCCL reports `EI0002`" in reply(found, "any HCCL errors?").text
    assert reply(slow_loader(), "any HCCL errors?").text.startswith("Whether HCCL reported errors")
