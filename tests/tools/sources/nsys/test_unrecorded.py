"""What an export does not hold is unknown to every check that would need it, with the option that records it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.sources.nsys.export import CALL, COPY, KERNEL, Export, training
from tools.analyzers.registry import check_of
from tools.findings import Check
from tools.sources.load import load_run
from tools.views.device.unrecorded import FEWEST_LAUNCHES
from tools.views.profile import Profile

STEPS = FEWEST_LAUNCHES


def checked(tmp_path: Path, export: Export, name: str, without: tuple[str, ...] = ()) -> Check:
    found = check_of(Profile(load_run([export.write(tmp_path / "a.sqlite", without=without)])), name)
    assert found is not None
    return found


def emptied(table: str) -> Export:
    export = training(ranks=1, steps=STEPS)
    export.rows[table] = []
    return export


@pytest.mark.parametrize("name", ["io.upload", "memory.offload", "storage.traced_save"])
@pytest.mark.parametrize("absent", [True, False])
def test_copies_that_calls_ask_for_and_no_table_holds_are_unknown(tmp_path: Path, name: str, absent: bool) -> None:
    export = training(ranks=1, steps=STEPS) if absent else emptied(COPY)
    check = checked(tmp_path, export, name, (COPY,) if absent else ())
    assert check.status == "cannot_answer"
    assert "--trace=cuda" in check.needs


def test_where_no_call_asks_for_a_copy_none_ran(tmp_path: Path) -> None:
    export = emptied(COPY)
    memcpy = export.text("cudaMemcpyAsync_v3020")
    export.rows[CALL] = [row for row in export.rows[CALL] if row["nameId"] != memcpy]
    assert checked(tmp_path, export, "io.upload").status == "clean"


@pytest.mark.parametrize(
    "name", ["cpu.device_idle", "cpu.queued_idle", "cpu.small_operators", "io.data_loader", "parallel.critical_path"]
)
@pytest.mark.parametrize("absent", [True, False])
def test_a_device_without_its_kernels_is_not_idle(tmp_path: Path, name: str, absent: bool) -> None:
    export = training(ranks=1, steps=STEPS) if absent else emptied(KERNEL)
    check = checked(tmp_path, export, name, (KERNEL,) if absent else ())
    assert (check.status, check.reason) == (
        "cannot_answer",
        "no kernel is recorded, although the host launches some",
    )


@pytest.mark.parametrize("name", ["cpu.host_pauses", "storage.traced_save"])
def test_a_host_without_its_calls_does_not_pause(tmp_path: Path, name: str) -> None:
    check = checked(tmp_path, training(ranks=1, steps=STEPS), name, (CALL,))
    assert check.status == "cannot_answer"
    assert "--trace=cuda" in check.needs


@pytest.mark.parametrize(("table", "what"), [(KERNEL, "kernel"), (COPY, "copy")])
def test_tables_that_are_absent_or_empty_stand_in_the_note(tmp_path: Path, table: str, what: str) -> None:
    (source,) = load_run([emptied(table).write(tmp_path / "a.sqlite")]).sources
    assert f"no {what} of a device ({table} is empty)" in source.note
    (source,) = load_run([training().write(tmp_path / "b.sqlite", without=[table])]).sources
    assert f"no {what} of a device ({table} is absent)" in source.note
