"""``hermes-dx reduce``."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from evals.benchmarks.many_ranks import ManyRanks, write
from hermes_agent.cli.commands import reduce
from tests.hermes_agent.cli.execution import execute
from tools.errors import InputError
from tools.summaries.reduce import part_of

RUN = ManyRanks(ranks=4, per_host=1, steps=1, layers=1, straggler=1)
pytestmark = pytest.mark.usefixtures("commands_cache")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four ranks, and a file that is none."""
    folder = tmp_path_factory.mktemp("run")
    write(RUN, folder)
    (folder / "rank9.json").write_text("nonsense")
    return folder


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 64])
def test_the_parts_cover_each_trace_once(parts: int) -> None:
    traces = [Path(f"rank{rank}.json") for rank in range(33)]
    chosen = [trace for number in range(1, parts + 1) for trace in part_of(traces, number, parts)]
    assert sorted(map(str, chosen)) == sorted(map(str, traces))
    sizes = {len(part_of(traces, number, parts)) for number in range(1, parts + 1)}
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "1/0", "-1/4", "1/4/2", "a/b"])
def test_a_part_that_is_none_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        execute(reduce, "RUN", f"--part={text}")
    assert "write I/N with I from 1 to N" in capsys.readouterr().err


def test_two_parts_of_a_job_array_and_then_the_whole(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0}, raising=False)  # one worker
    out = tmp_path / "summaries"
    assert execute(reduce, str(run), "--part", "1/2", "--out", str(out)) == 0
    first = capsys.readouterr().out
    assert first.splitlines()[0] == (
        "part 1 of 2: 3 of 5 traces; summaries: 2 made, 0 taken from before; 1 not readable"
    )
    assert re.search(r"^  .*rank9\.json: is no profiler trace", first, re.M)
    assert first.splitlines()[-1] == f"folder: {out}"
    assert execute(reduce, str(run), "--out", str(out), "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["schema"] == "hermes-dx/reduction/1"
    assert [Path(row["trace"]).name[:5] for row in record["summaries"]] == ["rank0", "rank1", "rank2", "rank3"]
    assert [row["made"] for row in record["summaries"]] == [False, True, False, True]
    assert {row["file"] for row in record["summaries"]} == {path.name for path in out.iterdir()}
    assert [Path(row["trace"]).name for row in record["not_readable"]] == ["rank9.json"]


def test_a_run_without_a_readable_trace_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text("nonsense")
    with pytest.raises(InputError, match="none of the traces can be read"):
        execute(reduce, str(tmp_path))


def test_a_cut_trace_is_named_also_where_its_summary_was_there(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut, out = tmp_path / "run", tmp_path / "summaries"
    shutil.copytree(run, cut)
    (cut / "rank9.json").unlink()
    trace = sorted(cut.iterdir())[1]
    trace.write_bytes(trace.read_bytes()[:-200])
    for made in (4, 0):
        assert execute(reduce, str(cut), "--out", str(out)) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == f"4 traces; summaries: {made} made, {4 - made} taken from before; 0 not readable"
        assert lines[1] == "1 trace is cut or damaged, and nothing is measured there; copy or record again:"
        assert lines[2].startswith(f"  {trace}: ")
        assert len(lines) == 4
    assert execute(reduce, str(cut), "--out", str(out), "--json") == 0
    (said,) = json.loads(capsys.readouterr().out)["cut"]
    assert said["trace"] == str(trace)
    assert said["reason"]
