"""The tables of Ascend folders: known by content, in one unit, text and database alike, what is damaged left out."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tools.sources.ascend.ascend_files import (
    KERNEL_HEAD,
    collective,
    communication,
    kernel_line,
    step_csv,
    transport,
    write_folder,
    write_tables,
)
from tools.errors import InputError
from tools.run.recorded.ascend import COLUMNS, AscendTables
from tools.sources.ascend.read_tables import read_ascend
from tools.sources.ascend.recognise import is_table
from tools.sources.ascend.source import ASCEND_TABLES
from tools.sources.formats import Anchor, FolderFiles
from tools.sources.inventory import take_inventory
from tools.sources.load import load_run
from tools.sources.options import Limits

KERNELS = KERNEL_HEAD + kernel_line("MatMul1", "MatMulV2", "AI_CORE", 12.5, 0.9, 0.4)
COMMUNICATION = communication(
    hcom_allReduce__1_0_1=collective(
        5.0, 1.0, 3.0, HCCS=transport({"2.0": (4, 1.0)}, 8.0, 1.0), RDMA=transport({}, 0, 0)
    )
)
MATRIX = communication(allreduce={"0-1": {"Transport Type": "HCCS"} | transport({}, 8.0, 1.0)})
STEP_ROWS_OF_TEXT = step_csv(300.0, 400.0, 300.0).splitlines()[0] + "\n" + ",".join("a" * 10) + "\n"
STEP_TABLE = (
    "step, computing, communication_not_overlapped, overlapped, communication, free, stage, bubble,"
    " communication_not_overlapped_and_exclude_receive, preparing"
)


def tables_of(run: Path) -> AscendTables:
    found = load_run([run]).ascend
    assert found is not None
    return found


def test_tables_are_known_by_content_and_bear_any_name(tmp_path: Path) -> None:
    output = write_folder(tmp_path, 2)
    (output / "a.txt.csv").write_text(step_csv(300.0, 400.0, 300.0))
    (output / "b.csv").write_text(KERNELS)
    (output / "c.json").write_text(json.dumps(COMMUNICATION))
    (output / "d.json").write_text(json.dumps(MATRIX))
    tables = tables_of(tmp_path)
    (step,), (kernel,) = tables.steps.to_dict("records"), tables.kernels.to_dict("records")
    assert (step["rank"], step["step"], step["stage_ms"], step["free_ms"]) == (2, 7, 1.0, 0.3)
    assert (kernel["op_type"], kernel["duration_us"], kernel["mac_ratio"]) == ("MatMulV2", 12.5, 0.9)
    (one,), (moved,), (packet,) = (t.to_dict("records") for t in (tables.collectives, tables.transfers, tables.packets))
    assert (one["group"], one["elapse_ms"], one["idle_ms"]) == ("1752", 5.0, 1.0)
    assert (moved["transport"], moved["gb_per_s"]) == ("HCCS", 8.0)  # RDMA moved nothing
    assert (packet["packet_mb"], packet["count"]) == (2.0, 4)
    assert tables.links[["source", "target", "size_mb"]].to_numpy().tolist() == [[0, 1, 8.0]]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_tables_of_other_encodings_and_with_decimal_commas_are_read(tmp_path: Path, encoding: str, mark: str) -> None:
    text = step_csv(300.5, 400.0, 300.0)
    if mark != ",":
        text = text.replace(",", mark).replace(".", ",")
    (write_folder(tmp_path, 0) / "step_trace_time.csv").write_bytes(text.encode(encoding))
    assert tables_of(tmp_path).steps["computing_ms"].tolist() == [0.3005]


def test_a_table_without_a_single_number_says_so(tmp_path: Path) -> None:
    path = write_folder(tmp_path, 0) / "step_trace_time.csv"
    path.write_text(STEP_ROWS_OF_TEXT)
    (source,) = load_run([tmp_path]).sources
    assert "none of its 1 rows could be used" in source.note


def test_rows_of_an_account_without_numbers_of_steps_are_steps(tmp_path: Path) -> None:
    head, row = step_csv(300.0, 400.0, 300.0).replace("Step,", "Other,").splitlines()
    (write_folder(tmp_path, 0) / "step_trace_time.csv").write_text(f"{head}\n{row}\n{row}\n")
    assert tables_of(tmp_path).steps["step"].tolist() == [0, 1]


def test_a_table_that_lacks_a_column_is_refused_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "kernel_details.csv"
    path.write_text(KERNELS.replace(",Duration(us)", ",Time(us)"))
    with pytest.raises(InputError, match=r"looks like kernel_details .* Duration\(us\)"):
        load_run([path])


def test_they_are_no_traces_whatever_lies_above_them(tmp_path: Path) -> None:
    """cluster_analysis_output lies a level above the ranks' own output, which is read all the same."""
    (tmp_path / "cluster_analysis_output").mkdir()
    (tmp_path / "cluster_analysis_output/cluster_communication.json").write_text(
        json.dumps({"(0, 1)": {"step": {"hcom_broadcast@1": {"1": collective(5.0, 1.0, 3.0)}}}})
    )
    for rank in (0, 1):
        (write_folder(tmp_path, rank) / "step_trace_time.csv").write_text(step_csv(300.0 + rank, 400.0, 300.0))
    found = take_inventory([tmp_path], Limits())
    assert not found.traces
    assert len(found.of(ASCEND_TABLES)[0].files) == 3
    tables = tables_of(tmp_path)
    assert tables.steps["computing_ms"].tolist() == [0.3, 0.301]
    assert tables.collectives["rank"].tolist() == [1]


def test_rows_of_a_cluster_are_those_of_single_ranks(tmp_path: Path) -> None:
    head, row = step_csv(300.0, 400.0, 300.0).splitlines()
    rest = row.split(",", 1)[1]
    text = head.replace("Step,", "Step,Type,Index,") + f'\n,rank,0,{rest}\n,rank,9,{rest}\n,stage,"(0, 9)",{rest}\n'
    (tmp_path / "cluster.csv").write_text(text)
    assert tables_of(tmp_path / "cluster.csv").steps["rank"].tolist() == [0, 9]


def database(output: Path, computing_us: float) -> Path:
    rows: dict[str, list[tuple[object, ...]]] = {
        "StepTraceTime": [("7", computing_us, 400.0, 50.0, 450.0, 300.0, 1000.0, 0, 400.0, 1.0)]
    }
    return write_tables(output / "analysis.db", {"StepTraceTime": STEP_TABLE}, rows)


def test_text_and_database_agree_or_the_difference_is_noted(tmp_path: Path) -> None:
    output = write_folder(tmp_path, 0)
    database(output, 300.0)
    by_database = tables_of(tmp_path).steps
    (output / "step_trace_time.csv").write_text(step_csv(300.0, 400.0, 300.0))
    run = load_run([tmp_path])
    assert run.ascend is not None
    pd.testing.assert_frame_equal(by_database, run.ascend.steps)
    assert not any("other times" in note for note in run.notes)
    (output / "analysis.db").unlink()
    database(output, 350.0)
    run = load_run([tmp_path])
    assert run.ascend is not None
    assert run.ascend.steps["computing_ms"].tolist() == [0.3]
    assert "analysis.db: gives other times than the text next to it for computing; the text is used" in run.notes


def test_a_column_that_is_missing_is_unknown_and_not_zero(tmp_path: Path) -> None:
    head = KERNEL_HEAD.replace("aic_mac_ratio", "other_ratio").replace("Block Dim", "Blocks")
    (tmp_path / "kernels.csv").write_text(head + kernel_line("MatMul1", "MatMulV2", "AI_CORE", 12.5, 0.9))
    kernels = tables_of(tmp_path / "kernels.csv").kernels
    assert kernels[["mac_ratio", "block_dim"]].isna().all(axis=None)


def test_the_stages_of_the_layout_are_read(tmp_path: Path) -> None:
    for rank in range(4):
        output = write_folder(tmp_path, rank, ((0, 1), (2, 3)))
        (output / "step_trace_time.csv").write_text(step_csv(300.0, 400.0, 300.0))
    tables = tables_of(tmp_path)
    assert (tables.stages, tables.world_size) == (((0, 1), (2, 3)), 4)


def test_a_view_in_a_database_is_never_run(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "analysis.db"
    with sqlite3.connect(path) as db:
        db.execute(
            "CREATE VIEW StepTraceTime AS WITH RECURSIVE a(x) AS (SELECT 1 UNION ALL SELECT x FROM a) SELECT x FROM a"
        )
    db.close()
    assert not is_table(path)


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.csv").write_text(step_csv(300.0, 400.0, 300.0))
    output = write_folder(tmp_path / "run", 0)
    (output / "step_trace_time.csv").symlink_to(tmp_path / "elsewhere.csv")
    with pytest.raises(InputError):
        load_run([tmp_path / "run"])


WHOLE = {
    "steps.csv": step_csv(300.0, 400.0, 300.0).encode(),
    "kernels.csv": KERNELS.encode(),
    "communication.json": json.dumps(COMMUNICATION).encode(),
}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(sorted(WHOLE)), at=st.floats(0, 1), put=st.binary(max_size=4), taken=st.integers(0, 400))
def test_a_damaged_table_is_read_or_excluded_with_a_sentence(
    tmp_path: Path, name: str, at: float, put: bytes, taken: int
) -> None:
    data = WHOLE[name]
    place = int(at * len(data))
    path = tmp_path / name
    path.write_bytes(data[:place] + put + data[place + taken :])
    read = read_ascend([FolderFiles(ASCEND_TABLES, tmp_path, (path,))], Anchor())
    (source,) = read.sources
    if read.ascend is None:
        assert source.status == "excluded"
        assert name in source.note
        return
    for table, columns in COLUMNS.items():
        assert {column: str(dtype) for column, dtype in getattr(read.ascend, table).dtypes.items()} == columns
