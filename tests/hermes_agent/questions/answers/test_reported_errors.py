"""Questions for errors of drivers: answered from the lines of the output, else what was read and where to look."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.questions.intents import reply
from tests.hermes_agent.questions.discussed import discuss, slow_loader
from tests.tools.sources.job_log.logs import megatron
from tests.tools.sources.job_log.test_collective_reports import DESYNC
from tests.tools.sources.job_log.test_reported_errors import WAITED, XID, profile_of
from tools.sources.load import load_run
from tools.views.profile import Profile

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
    assert reply(found, "did a collective time out?").text.startswith("Yes: HCCL reports `EI0002`")
    assert reply(slow_loader(), "any HCCL errors?").text.startswith("Whether HCCL reported errors")


@pytest.mark.parametrize("question", ["which rank did not arrive?", "which rank is stuck?"])
def test_a_rank_that_hccl_names_is_not_said_to_be_unknown(tmp_path: Path, question: str) -> None:
    text = reply(discuss(profile_of(tmp_path, WAITED.format(rank=4))), question).text
    assert "did not arrive: " in text
    assert "does not name the rank" not in text
    assert "not the one that did not arrive" not in text


def test_exhausted_and_short_memory_are_the_answer(tmp_path: Path) -> None:
    error = "CUDA out of memory. Tried to allocate 62.00 MiB (GPU 0; 16.00 GiB total capacity; 8.00 MiB free)"
    text = reply(discuss(profile_of(tmp_path, error)), "why does it run out of memory?").text
    assert text.startswith("The job ran out of device memory")
    assert "not known" not in text
    flushed = tmp_path / "flushed"
    flushed.mkdir()
    warning = "[WARNING] [stage3.py:1:step] 2 pytorch allocator cache flushes since last step. this happens"
    text = reply(discuss(profile_of(flushed, warning, warning)), "why does it run out of memory?").text
    assert "4 flushes" in text


def test_a_rank_that_is_reported_to_hold_the_others_up_is_the_answer_on_communication(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text(DESYNC)
    text = reply(discuss(Profile(load_run([tmp_path]))), "why does NCCL time out?").text
    assert text.startswith("By PyTorch's report rank 3 finished collective `#9` and did not join `#10`")
    assert "Nothing found points to" not in text
