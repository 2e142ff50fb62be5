"""``hermes-dx operators``, ``kernels`` and ``collectives``: every form holds the whole table."""

from __future__ import annotations

import argparse
import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from hermes_agent.cli import tables
from hermes_agent.cli.commands import collectives, kernels, operators
from hermes_agent.demo.data import demo_run
from hermes_agent.model.request import Request
from tests.hermes_agent.cli.execution import execute
from tests.synthetic import RankBuilder, profile_of
from tools.errors import UsageError
from tools.run.events import EventKind
from tools.sources.load import load_run
from tools.views.event_tables import kernels as kernel_table

DEMO = str(demo_run())
HOSTILE = "gemm\x1b[31m<float,\n4>" + "x" * 200


@pytest.mark.usefixtures("commands_cache")
def test_operators_have_the_own_time_of_a_plain_sweep_over_the_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(operators, DEMO, "--json", "--ranks", "0") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["schema"] == "hermes-dx/operators/1"
    (rank,) = load_run([demo_run()]).select([0]).ranks
    own = own_by_sweep(rank.events.frame, rank.steps[0].start_ns, rank.steps[-1].end_ns)
    found = {row["name"]: row["own_ms"] for row in record["rows"]}
    assert found == pytest.approx({name: ns / 1e6 for name, ns in own.items()})
    for row in record["rows"]:
        assert row["device_ms_per_step"] * len(rank.steps) == pytest.approx(row["device_ms"])


def own_by_sweep(frame: pd.DataFrame, begin: int, end: int) -> dict[str, int]:
    """Own time of operators by a stack per thread: each event takes its duration from the one that is open."""
    chosen = frame[frame["kind"] == int(EventKind.OPERATOR)]
    own: dict[str, int] = {}
    for _, thread in chosen.groupby("track"):
        open_: list[tuple[int, str, bool]] = []
        for start, stop, name in zip(thread["start_ns"], thread["end_ns"], thread["name"].astype(str), strict=True):
            while open_ and open_[-1][0] <= start:
                open_.pop()
            if open_ and open_[-1][2]:
                own[open_[-1][1]] -= stop - start
            inside = begin <= start < end
            if inside:
                own[name] = own.get(name, 0) + stop - start
            open_.append((stop, name, inside))
    return own


@pytest.mark.usefixtures("commands_cache")
def test_csv_parquet_and_json_hold_the_same_rows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "collectives.parquet"
    for form in (("--json",), ("--csv",), ("--parquet", str(file))):
        assert execute(collectives, DEMO, *form) == 0
    text = capsys.readouterr().out
    end = text.rindex("\n}\n") + 3
    rows = json.loads(text[:end])["rows"]
    read = list(csv.DictReader(io.StringIO(text[end:])))
    assert [row["id"] for row in rows] == [row["id"] for row in read] == list(pd.read_parquet(file)["id"])
    assert len(rows) == 30
    for row in rows:
        assert row["overlapped_ms"] + row["exposed_ms"] == pytest.approx(row["duration_ms"])


@pytest.mark.usefixtures("commands_cache")
def test_a_table_is_never_written_over_a_file_of_the_run(tmp_path: Path) -> None:
    run = shutil.copytree(demo_run(), tmp_path / "run")
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    for name in ("rank0.pt.trace.json.gz", "rank1.pt.trace.json.gz", "steps_rank0.jsonl"):
        with pytest.raises(UsageError, match="is a file of this run, which is never overwritten"):
            execute(operators, str(run), "--ranks", "0", "--parquet", str(run / name))
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before
    for _ in range(2):  # its own file may be replaced
        assert execute(operators, str(run), "--parquet", str(run / "operators.parquet")) == 0


def test_lines_fit_a_terminal_and_names_cannot_act_on_it(capsys: pytest.CaptureFixture[str]) -> None:
    rank = RankBuilder()
    rank.kernel(HOSTILE, 20, 30, call_us=5)
    rank.kernel("add", 60, 10, call_us=55)
    rank.step(0, 0, 100)
    table = kernel_table(profile_of(rank))
    assert list(table["total_ms"]) == [0.03, 0.01]
    assert list(table["share_pct"]) == [75.0, 25.0]
    for form in ("csv", ""):
        args = argparse.Namespace(json=False, csv=form == "csv", parquet=None, limit=1)
        tables.print_table(args, Request(()), kernels.SCHEMA, table, kernels.SHOWN)
        text = capsys.readouterr().out
        assert "\x1b" not in text
        if not form:
            assert max(map(len, text.splitlines()[:2])) <= 80
            assert text.splitlines()[-1].startswith("1 of 2 rows; --limit N shows more")


@pytest.mark.usefixtures("commands_cache")
def test_a_run_without_kernels_has_an_empty_table(capsys: pytest.CaptureFixture[str]) -> None:
    outputs: dict[str, Any] = {}
    for form in ("--json", "--limit=3"):
        assert execute(kernels, DEMO, form) == 0
        outputs[form] = capsys.readouterr().out
    assert json.loads(outputs["--json"])["rows"] == []
    assert outputs["--limit=3"] == "There are none in the recorded steps.\n"
