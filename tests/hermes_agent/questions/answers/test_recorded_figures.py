"""Questions about communication, answered by the account of the steps that an Ascend profiler writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.intents import reply
from tests.hermes_agent.questions.discussed import discuss, unsupported
from tests.tools.sources.ascend.ascend_files import KERNEL_HEAD, kernel_line, step_csv, write_folder
from tools.sources.load import load_run
from tools.views.profile import Profile

EXPOSED_US = {0: 4000.0, 1: 2000.0}


@pytest.fixture(scope="module")
def tabled(tmp_path_factory: pytest.TempPathFactory) -> Discussion:
    """Two ranks with tables and no timeline: steps of 8 ms, 4 and 2 of it communication that nothing overlaps."""
    run = tmp_path_factory.mktemp("ascend")
    for rank, exposed_us in EXPOSED_US.items():
        text = step_csv(7000.0 - exposed_us, exposed_us, 1000.0, overlapped_us=300.0)
        (write_folder(run, rank) / "step_trace_time.csv").write_text(text)
    return discuss(Profile(load_run([run])))


@pytest.mark.parametrize(
    "text", ["how much time is communication?", "what share of the time is communication?", "communication time"]
)
def test_communication_is_answered_by_rank_from_the_tables(tabled: Discussion, text: str) -> None:
    answer = reply(tabled, text)
    rows = [line for line in answer.text.splitlines() if line.startswith("- Rank")]
    assert len(rows) == len(EXPOSED_US)
    found = {
        (each.metric, each.arguments["rank"]): each.value
        for each in answer.evidence
        if each.arguments.get("part") == "exposed_communication"
    }
    assert found[("account_ms", 0)] == pytest.approx(4.0)
    assert found[("account_ms", 1)] == pytest.approx(2.0)
    assert found[("account_pct", 0)] == pytest.approx(100.0 * 4 / 8)
    assert unsupported(answer.text, tabled) == []


def test_communication_of_one_rank_leaves_the_others_out(tabled: Discussion) -> None:
    text = reply(tabled, "how much time does rank 1 spend in communication?").text
    assert "Rank 1" in text
    assert "Rank 0" not in text


def test_why_communication_is_long_is_not_answered_by_its_time(tabled: Discussion) -> None:
    assert reply(tabled, "why is communication time so long?").intent != "recorded"


def test_communication_that_is_not_overlapped_is_answered_by_rank_from_the_tables(tabled: Discussion) -> None:
    text = reply(tabled, "which rank has the most communication that is not overlapped").text
    assert text.startswith("Exposed communication on rank 0: 4.00 ms")


def test_two_ranks_of_tables_are_compared_by_what_is_asked(tabled: Discussion) -> None:
    answer = reply(tabled, "how much free time has rank 1 compared to rank 0")
    found = {each.arguments["rank"]: each.value for each in answer.evidence if each.metric == "account_ms"}
    assert found == pytest.approx({0: 1.0, 1: 1.0})
    assert unsupported(answer.text, tabled) == []


KERNELS = (
    KERNEL_HEAD
    + kernel_line("MatMul1", "MatMulV2", "AI_CORE", 500.0, 0.9, 0.3)
    + kernel_line("NonZero1", "NonZero", "AI_CPU", 400.0)
    + kernel_line("trans_TransData_0", "TransData", "AI_VECTOR_CORE", 100.0, 0.0, 0.0, 0.1, 0.1)
)


@pytest.mark.parametrize(
    ("text", "stated", "ms"),
    [
        ("which operators run on the AI CPU?", "most of it in `NonZero`", 0.4),
        ("are formats converted back and forth?", "most of it in `TransData`", 0.1),
        ("which operators are memory-bound?", "`MatMulV2` runs", 0.5),
    ],
)
def test_kernels_are_answered_from_the_tables(tmp_path: Path, text: str, stated: str, ms: float) -> None:
    output = write_folder(tmp_path, 0)
    (output / "step_trace_time.csv").write_text(step_csv(1000.0, 0.0, 1000.0))
    (output / "kernel_details.csv").write_text(KERNELS)
    discussion = discuss(Profile(load_run([tmp_path])))
    answer = reply(discussion, text)
    assert stated in answer.text
    assert pytest.approx(ms) in [each.value for each in answer.evidence if each.unit == "ms"]
    assert unsupported(answer.text, discussion) == []


def test_a_table_without_cores_says_what_an_answer_on_the_ai_cpu_needs(tmp_path: Path) -> None:
    output = write_folder(tmp_path, 0)
    (output / "step_trace_time.csv").write_text(step_csv(1000.0, 0.0, 1000.0))
    (output / "kernel_details.csv").write_text(KERNELS.replace("Accelerator Core", "Other"))
    text = reply(discuss(Profile(load_run([tmp_path]))), "which operators run on the AI CPU?").text
    assert "What it needs: a profile of level 1 or 2" in text
