"""Questions to what NCCL and nccl-tests wrote into the job's output."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.intents import reply
from hermes_agent.questions.kinds import NOT_MEASURABLE
from tests.hermes_agent.questions.discussed import discuss, unsupported
from tests.tools.analyzers.test_job_output import profile_of
from tests.tools.sources.job_log.logs import megatron
from tests.tools.sources.job_log.test_communication import TEST

VERSION = "node1:1:2 [0] NCCL INFO NCCL version 2.27.7+cuda13.0\n"


def bench(folder: Path) -> Discussion:
    return discuss(profile_of(folder, VERSION + TEST))


def values(discussion: Discussion, question: str) -> list[tuple[str, float]]:
    found = reply(discussion, question)
    assert unsupported(found.text, discussion) == []
    return [(each.metric, each.value) for each in found.evidence]


def test_the_bandwidth_of_one_size_is_that_of_its_rows(tmp_path: Path) -> None:
    """16 MB is counted as nccl-tests counts it: 16,777,216 bytes; both placements, their time in ms."""
    assert values(bench(tmp_path), "bus bandwidth at 16 MB?") == [
        ("library_bandwidth_at", 130.79),
        ("library_time_ms", pytest.approx(0.1283)),
        ("library_bandwidth_at", 132.13),
        ("library_time_ms", pytest.approx(0.127)),
    ]


def test_a_latency_is_a_time_first(tmp_path: Path) -> None:
    assert "Out of place: time 0.083 ms" in reply(bench(tmp_path), "latency for 8MB messages").text


def test_a_size_that_was_not_run_is_not_answered_by_another(tmp_path: Path) -> None:
    found = reply(bench(tmp_path), "bus bandwidth at 64 MB?")
    assert found.intent == NOT_MEASURABLE
    assert "8388608 to 16777216 bytes, not with 67108864" in found.text
    assert found.evidence == ()


def test_the_peak_is_the_most_of_all_rows(tmp_path: Path) -> None:
    assert ("library_bandwidth", 132.13) in values(bench(tmp_path), "what's the peak busbw?")


def test_version_and_network_are_named_with_their_lines(tmp_path: Path) -> None:
    discussion = bench(tmp_path)
    assert "`2.27.7+cuda13.0` (line 1 of" in reply(discussion, "which nccl version?").text
    assert "`IB` (line 3 of" in reply(discussion, "does nccl use infiniband or sockets?").text
    assert reply(discussion, "how many nodes?").text == "NCCL's own output names 1 host: `node1`."


def test_steps_per_hour_are_an_hour_over_the_mean_step(tmp_path: Path) -> None:
    """Forty steps of 1 s."""
    discussion = discuss(profile_of(tmp_path, megatron(*((step, 1000.0) for step in range(1, 41)))))
    for text in ("how many iterations per hour?", "Wie viele Schritte pro Stunde?", "每小时多少步？"):
        assert dict(values(discussion, text))["series_steps_per_h"] == pytest.approx(3600.0)
