"""The timeline of a rank from trace_view.json and from its database: known figures, and the same from both."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tools.sources.ascend.ascend_files import (
    COMPUTE_US,
    EXPOSED_US,
    STEP_US,
    trace_view,
    write_database,
    write_folder,
    write_trace_view,
)
from tools.analyzers.registry import check_of
from tools.errors import InputError
from tools.metrics.registry import measure
from tools.run.events import EventKind
from tools.sources.ascend.database import read_database
from tools.sources.ascend.processes import inputs_of, task_kind
from tools.sources.load import load_run
from tools.sources.options import LoadOptions
from tools.views.communication.collectives import collectives
from tools.views.profile import Profile

Clocks = Sequence[tuple[float, float]]


def profile_of(run: Path, rank: int = 0, database: bool = False, clocks: Clocks = ()) -> Profile:
    output = write_folder(run, rank)
    (write_database(output, rank, clocks) if database else write_trace_view(output, clocks))
    return Profile(load_run([run]))


@pytest.mark.parametrize("database", [False, True])
def test_a_step_consists_of_kernels_and_whole_collectives_and_no_waits_of_streams(
    tmp_path: Path, database: bool
) -> None:
    """Compute 100 to 400, the all-reduce 350 to 800 exposed from 400, the copy 50 to 100; the rest is the host's."""
    profile = profile_of(tmp_path, 3, database)
    (step,) = profile.breakdown.to_dict("records")
    assert profile.rank_numbers == (3,)
    assert step["wall_ns"] == STEP_US * 1000
    assert step["compute_ns"] == COMPUTE_US * 1000
    assert step["exposed_communication_ns"] == EXPOSED_US * 1000
    assert step["exposed_memcpy_ns"] == 50_000
    assert step["overlapped_communication_ns"] == 50_000


@pytest.mark.parametrize("database", [False, True])
def test_a_collective_has_its_kind_and_its_bytes(tmp_path: Path, database: bool) -> None:
    (row,) = collectives(profile_of(tmp_path, 0, database)).to_dict("records")
    assert (row["kind"], row["bytes"], row["step"]) == ("all_reduce", 4000, 7)


@pytest.mark.parametrize("database", [False, True])
def test_kernels_are_joined_with_the_calls_that_launch_them(tmp_path: Path, database: bool) -> None:
    view = profile_of(tmp_path, 0, database).ranks[0]
    links = view.launches
    assert view.names(links["launch_row"].to_numpy()) == ["Node@launch", "Node@launch"]
    assert (links["start_ns"] - links["call_start_ns"]).tolist() == [10_000, 10_000]


@pytest.mark.parametrize("database", [False, True])
def test_shapes_and_types_read_as_other_profilers_write_them(tmp_path: Path, database: bool) -> None:
    operators = profile_of(tmp_path, 0, database).ranks[0].events.details.operators
    said = operators[operators["dims"].astype(str) != ""].iloc[0]
    assert json.loads(str(said["dims"])) == [[2, 3], []]
    assert json.loads(str(said["types"])) == ["float", "None"]


@pytest.mark.parametrize("database", [False, True])
@pytest.mark.parametrize(("low", "status"), [(1500, "found"), (1790, "clean")])
def test_a_clock_that_falls_while_kernels_compute_is_a_low_clock(
    tmp_path: Path, database: bool, low: int, status: str
) -> None:
    """Kernels compute from 100 to 400 us: 100 us at 1,800 MHz, 200 us at the lower clock; then the device rests."""
    clocks = [(10, 1800), (200, low), (700, 800)]
    profile = profile_of(tmp_path, 0, database, clocks)
    mean = measure(profile, "core_clock_mhz", rank=0)
    assert mean.value == pytest.approx((1800 * 100 + low * 200) / 300)
    assert measure(profile, "highest_core_clock_mhz").value == 1800
    check = check_of(profile, "computation.core_clock")
    assert check is not None
    assert check.status == status
    if status == "found":
        (finding,) = check.findings
        assert (finding.cause, finding.mechanism, finding.ranks) == ("slow_device", "down_clock", (0,))
        assert finding.saving is not None
        assert finding.saving.saved_ms == pytest.approx(0.5 * 0.3 * (1.0 - mean.value / 1800))


@pytest.mark.parametrize("mhz", ["x", -5, None, float("inf")])
def test_a_damaged_reading_of_the_clock_is_no_clock(tmp_path: Path, mhz: object) -> None:
    profile = profile_of(tmp_path, clocks=[(10, mhz)])  # type: ignore[list-item]
    assert check_of(profile, "computation.core_clock") is None


def test_settings_of_the_folder_are_of_the_rank(tmp_path: Path) -> None:
    (rank,) = profile_of(tmp_path, 5).run.ranks
    assert (rank.rank, rank.rank_origin) == (5, "recorded")
    assert rank.metadata["ASCEND_LAUNCH_BLOCKING"] == "1"
    assert rank.metadata["profiler_level"] == "Level1"
    assert "HCCL_ALGO" not in rank.metadata  # it is recorded as empty: not set


def test_a_trace_that_stops_without_its_last_bracket_is_cut(tmp_path: Path) -> None:
    """An interrupted export lacks the end: which streams are missing is not known, so nothing is measured on it."""
    text = json.dumps(trace_view())
    (write_folder(tmp_path, 0) / "trace_view.json").write_text(text[:-1])
    run = load_run([tmp_path])
    assert not run.ranks
    assert [cut.rank for cut in run.cut] == [0]


def test_a_database_without_the_tables_of_level_1_says_so(tmp_path: Path) -> None:

    path = write_database(write_folder(tmp_path, 0), 0)
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE COMPUTE_TASK_INFO")
        db.execute("ALTER TABLE CANN_API RENAME TO OTHER_API")
    db.close()
    run = load_run([tmp_path])
    (source,) = run.sources
    assert source.status == "partial"
    assert "needs level 1" in source.note
    assert "launches are not known" in source.note
    (step,) = Profile(run).breakdown.to_dict("records")
    assert step["compute_ns"] == COMPUTE_US * 1000  # by the types of the tasks


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.floats(0, 1), put=st.binary(max_size=8), taken=st.integers(0, 9000))
def test_a_damaged_database_is_read_or_refused_with_a_sentence(
    tmp_path: Path, at: float, put: bytes, taken: int
) -> None:
    sound = tmp_path / "sound"
    if not sound.is_dir():
        sound.mkdir()
        write_database(sound, 0)
    data = (sound / "ascend_pytorch_profiler_0.db").read_bytes()
    place = int(at * len(data))
    path = tmp_path / "damaged.db"
    path.write_bytes(data[:place] + put + data[place + taken :])
    try:
        frame = read_database(path, "", LoadOptions()).table.frame
    except InputError as error:
        said = str(error)
    else:
        said = path.name
        assert (frame["end_ns"] >= frame["start_ns"]).all()
        assert set(frame["kind"]) <= set(map(int, EventKind))
    assert path.name in said


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("EVENT_WAIT", EventKind.OTHER),
        ("Notify Wait", EventKind.OTHER),
        ("PLACE_HOLDER_SQE", EventKind.OTHER),
        ("MEMCPY_ASYNC", EventKind.MEMCPY),
        ("LabelSmoothing", EventKind.KERNEL),
        ("aclnnMatmul_MatMulV3", EventKind.KERNEL),
        ("MemSet", EventKind.KERNEL),
    ],
)
def test_tasks_that_compute_are_separated_from_those_that_wait(name: str, kind: EventKind) -> None:
    assert task_kind(name) == kind


def test_text_that_is_no_list_of_shapes_stays_as_it_is() -> None:
    assert inputs_of('"a;b"', numbers=True) == '"a;b"'
    assert inputs_of("[[1, 2]]", numbers=True) == "[[1, 2]]"
