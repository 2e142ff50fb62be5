"""``hermes-dx`` as people and programs call it: streams, exit codes, sentences for what went wrong."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_agent.cli.main import main
from hermes_agent.demo.data import demo_fixed_run, demo_run
from hermes_agent.model.diagnosis import Diagnosis
from tools.errors import ExitCode

pytestmark = pytest.mark.usefixtures("commands_cache")


def test_json_on_standard_output_is_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(demo_run()), "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert written["schema"] == "hermes-dx/diagnosis/1"
    assert {"run", "verdict", "headline", "step_time_ms", "breakdown", "causes", "advice", "checks", "evidence"} <= set(
        written
    )
    assert written["advice"][0]["for"] == "slow_data_processing"
    assert Diagnosis.model_validate(written).verdict == "problem"


def test_the_second_call_gives_the_same_answer_without_reading_the_run_again(
    tmp_path: Path, index_only: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMES_DX_CACHE_DIR", str(index_only))
    command = [sys.executable, "-c", WARM, str(demo_run())]
    first, second = (
        subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path) for _ in range(2)
    )
    assert second.stdout == first.stdout
    assert "pandas" in first.stderr.split()
    loaded = second.stderr.split()
    assert [name for name in ("pandas", "langgraph", "chromadb", "numpy", "openai", "textual") if name in loaded] == []


WARM = """
import sys
from hermes_agent.cli.main import main
from tools.errors import ExitCode
code = main(["diagnose", sys.argv[1]])
print(" ".join(sys.modules), file=sys.stderr)
sys.exit(code)
"""


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom hermes_agent.cli.main import build_parser\nbuild_parser().format_help()\nprint(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    heavy = {"pandas", "numpy", "langgraph", "chromadb", "openai", "textual", "pydantic", "rich", "yaml", "msgspec"}
    assert heavy & set(done.stdout.split()) == set()


def test_markdown_has_a_table_of_the_evidence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(demo_run()), "--md", "--no-cache"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("# Problem\n")
    assert "| E1 | step_time_ms |" in out


def test_a_trimmed_trace_for_perfetto_holds_the_parts_and_the_cause(tmp_path: Path) -> None:
    target = tmp_path / "annotated.json.gz"
    assert main(["diagnose", str(demo_run()), "--perfetto", str(target)]) == 0
    events = json.loads(gzip.decompress(target.read_bytes()))["traceEvents"]
    own = {event["name"] for event in events if event.get("cat") == "hermes"}
    assert {"data wait", "exposed communication"} <= own
    assert any(name.startswith("Heavy data transforms") for name in own)
    slices = [event for event in events if event["ph"] == "X"]
    assert all(event["dur"] >= 0 for event in slices)


def test_every_slice_of_the_hermes_track_names_evidence_of_the_diagnosis(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "annotated.json"
    assert main(["diagnose", str(demo_run()), "--json", "--perfetto", str(target)]) == 0
    diagnosis = json.loads(capsys.readouterr().out)
    known = {row["id"]: row for row in diagnosis["evidence"]}
    cited: dict[str, set[str]] = {}
    for event in json.loads(target.read_text())["traceEvents"]:
        if event.get("cat") == "hermes":
            cited.setdefault(event["name"].split(" ")[0], set()).update(event["args"]["evidence"].split(", "))
    assert cited["step"] == set(diagnosis["step_time_ms"]["evidence"])
    assert cited["Heavy"] == set(diagnosis["causes"][0]["evidence"])
    assert {known[name]["arguments"]["part"] for name in cited["data"]} == {"data_wait"}
    assert all(names <= known.keys() for names in cited.values())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no such file"),
        (b"", "empty"),
        (b"hello, this is no trace", "no"),
        (b'{"traceEvents": []}', "holds no training run"),
        (b"\x1f\x8b\x08\x00broken", "gz"),
    ],
)
def test_what_cannot_be_read_is_one_sentence_and_exit_code_3(
    content: bytes | None, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.json"
    if content is not None:
        path.write_bytes(content)
    assert main(["diagnose", str(path)]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("hermes-dx: ")
    assert captured.err.count("\n") == 1
    assert str(path) in captured.err
    assert words in captured.err


def test_steps_that_the_run_does_not_have_are_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(demo_run()), "--steps", "500:600"]) == 2
    assert "the run has steps 39 to 43" in capsys.readouterr().err


def test_some_steps_of_some_ranks_can_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(demo_run()), "--steps", "40:41", "--ranks", "1", "--json"]) == 0
    written = json.loads(capsys.readouterr().out)
    assert (written["run"]["ranks"], written["run"]["steps"]) == ([1], [40, 41])


def test_a_baseline_of_another_machine_is_refused_with_the_reasons(
    traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, baseline = traces / "hta/trace_diff_test.json.gz", traces / "hta/trace_diff_control.json.gz"
    assert main(["diagnose", str(run), "--baseline", str(baseline)]) == ExitCode.NOT_COMPARABLE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "cannot be compared" in captured.err
    for reason in ("V100", "A100", "world size"):
        assert reason in captured.err


def test_a_baseline_of_the_same_job_is_told_in_cited_sentences(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(demo_run()), "--baseline", str(demo_fixed_run())]) == 0
    out = capsys.readouterr().out
    assert "Against the baseline: The average unprofiled step" in out


def test_strict_makes_an_inconclusive_verdict_exit_code_4(traces: Path) -> None:
    assert main(["diagnose", str(traces / "hta/cpu_only.json.gz"), "--strict"]) == 4
    assert main(["diagnose", str(traces / "hta/cpu_only.json.gz")]) == 0


def test_the_demo_names_the_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--no-chat", "-v"]) == 0
    out = capsys.readouterr().out
    assert "PROBLEM: Top bottleneck: heavy data transforms" in out
    assert "on rank 1" in out
    assert "[E1]" in out
