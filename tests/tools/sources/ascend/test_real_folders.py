"""Recorded Ascend folders, where they are at hand: the figures that other tools give for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real_runs import real_profile
from tools.metrics.registry import measure
from tools.whatif.critical_path import critical_path


@pytest.fixture(scope="module")
def folder(traces: Path) -> Path:
    return traces / "ascend"


def of_first(path: Path) -> dict[str, float]:
    return {str(key): float(value) for key, value in real_profile(path).breakdown.iloc[0].items()}


def test_text_of_level_1_has_the_figures_of_the_profilers_own_account(folder: Path) -> None:
    """msprof-analyze's advisor on rank 0: 8.874 ms compute, 101.963 exposed communication, 25.744 free of 136.581."""
    profile = real_profile(folder / "cnn_text_level1")
    tables = profile.run.ascend
    assert tables is not None
    own = tables.steps.set_index("rank").loc[0]
    stated = [own[f"{name}_ms"] for name in ("computing", "exposed_communication", "free", "stage")]
    assert stated == pytest.approx([8.874, 101.963, 25.744, 136.581], abs=5e-4)
    measured = of_first(folder / "cnn_text_level1")
    assert measured["compute_ns"] / 1e6 == pytest.approx(8.874, abs=5e-4)
    assert measured["exposed_communication_ns"] / 1e6 == pytest.approx(101.963, abs=5e-4)


def test_the_timeline_of_a_database_agrees_with_its_own_account(folder: Path) -> None:
    for rank in (0, 1):
        profile = real_profile(folder / "cnn_db_level1")
        tables = profile.run.ascend
        assert tables is not None
        own = tables.steps.set_index("rank").loc[rank]
        measured = profile.breakdown.set_index("rank").loc[rank]
        assert measured["compute_ns"] / 1e6 == pytest.approx(own["computing_ms"], abs=5e-4)
        assert measured["exposed_communication_ns"] / 1e6 == pytest.approx(own["exposed_communication_ms"], abs=5e-4)
    assert profile.run.ranks[0].devices[0].name == "Ascend910B"


def test_device_memory_is_that_of_memory_record(folder: Path) -> None:
    """The largest values of PTA+GE in rank 0's memory_record.csv: 1261.04 and 1526.75, in units of 2^20 bytes."""
    profile = real_profile(folder / "cnn_text_level1")
    peaks = [measure(profile, "memory_peak_mib", rank=0, what=what).value for what in ("allocated", "reserved")]
    assert peaks == pytest.approx([1261.043, 1526.75], abs=1e-3)


@pytest.mark.parametrize("name", ["cnn_text_level1", "cnn_db_level1"])
def test_the_critical_path_agrees_with_the_breakdown(folder: Path, name: str) -> None:
    """A thread that blocks in aclrtSynchronizeStream is not busy: the path goes on through what it waits for."""
    profile = real_profile(folder / name)
    path = critical_path(profile)
    own = profile.breakdown.set_index("rank").loc[path.rank]
    exposed_ms, wall_ms = own["exposed_communication_ns"] / 1e6, own["wall_ns"] / 1e6
    assert path.ms()["communication"] == pytest.approx(exposed_ms, rel=0.05)
    assert sum(path.ms().values()) == pytest.approx(wall_ms, rel=0.01)


def test_text_and_database_of_one_run_agree_and_give_the_stages(folder: Path) -> None:
    """The ranks of qwen3_pp2 hold step_trace_time.csv and analysis.db."""
    run = real_profile(folder / "qwen3_pp2_text_level2").run
    assert run.ascend is not None
    assert not any("other times" in note for note in run.notes)
    assert run.ascend.stages == ((0, 1), (2, 3))
    assert run.ascend.steps["computing_ms"].tolist() == pytest.approx([231.290, 230.904, 400.448, 401.132], abs=5e-4)


def test_a_table_alone_is_read(folder: Path) -> None:
    run = real_profile(folder / "kernel_details_591.csv").run
    assert run.ascend is not None
    assert len(run.ascend.kernels) == 591
