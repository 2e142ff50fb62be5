"""Exports of Nsight Systems become traces: a rank for each process, events and names as the PyTorch profiler has."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from tests.tools.sources.nsys.export import (
    CALL,
    COPY,
    GRAPH,
    KERNEL,
    RANGE,
    SYNC,
    UNIX_NS,
    US,
    Export,
    process,
    training,
)
from tools.errors import InputError
from tools.run.events import EventKind
from tools.run.model import Rank, Run
from tools.sources import sqlite_file
from tools.sources.load import load_run
from tools.sources.nsys.device_rows import Ranks, read_device_work
from tools.sources.nsys.host_rows import read_host_events
from tools.sources.nsys.names import call_name, copy_name, range_of
from tools.sources.nsys.session import Strings
from tools.sources.options import LoadOptions
from tools.sources.sqlite_file import open_database
from tools.views.profile import Profile
from tools.views.steps.coarse import by_torch


def loaded(path: Path) -> Run:
    return load_run([path])


def texts(rank: Rank, kind: EventKind) -> list[str]:
    return rank.events.of_kind(kind)["name"].astype(str).tolist()


def test_every_process_is_a_rank_with_its_own_device_and_clock(tmp_path: Path) -> None:
    run = loaded(training().write(tmp_path / "node.sqlite"))
    assert run.rank_numbers == (0, 1)
    assert [rank.devices[0].index for rank in run.ranks] == [0, 1]
    assert run.ranks[0].devices[0].name == "NVIDIA H100 80GB HBM3"
    assert run.ranks[0].devices[0].multiprocessors == 132
    assert run.origin_unix_ns == UNIX_NS
    (source,) = run.sources
    assert (source.format, source.ranks, source.status) == ("nsys", (0, 1), "complete")


def test_steps_are_the_ranges_that_repeat(tmp_path: Path) -> None:
    rank = loaded(training().write(tmp_path / "node.sqlite")).ranks[0]
    assert rank.step_origin == "annotation"
    assert [(step.number, step.wall_ns) for step in rank.steps] == [(at, 1000 * US) for at in range(4)]


def test_events_have_the_names_and_attributes_of_the_other_formats(tmp_path: Path) -> None:
    rank = loaded(training(steps=2).write(tmp_path / "node.sqlite")).ranks[0]
    assert set(texts(rank, EventKind.RUNTIME)) == {"cudaLaunchKernel", "cudaMemcpyAsync"}
    assert texts(rank, EventKind.MEMCPY) == ["Memcpy HtoD (Pageable -> Device)"] * 2
    assert texts(rank, EventKind.OPERATOR) == ["aten::mm"] * 2
    details = rank.events.details
    assert details.operators["dims"].tolist() == ["[[2, 3], [3, 4]]"] * 2
    assert details.operators["sequence"].tolist() == [0, 1]
    assert details.copies["bytes"].tolist() == [4096, 4096]
    kernels = details.kernels
    assert (kernels["blocks"] == 16).all()
    assert (kernels["threads"] == 128).all()
    assert (kernels["shared_bytes"] == 64).all()
    assert np.isnan(kernels["occupancy_pct"]).all()
    tracks = rank.events.tracks
    assert sorted(tracks.loc[tracks["device"] >= 0, "stream"]) == [7, 20]
    assert tracks.loc[tracks["device"] < 0, "label"].tolist() == ["trainer"]


def test_the_step_adds_up_as_worked_out_by_hand(tmp_path: Path) -> None:
    """700 us of compute, 100 us of the all-reduce under it and 100 alone, 20 of copy; 180 us of nothing."""
    profile = Profile(loaded(training().write(tmp_path / "node.sqlite")))
    frame = profile.ranks[0].breakdown
    us = {
        name: frame[name].iloc[1:3].mean() / US
        for name in ("compute_ns", "exposed_communication_ns", "exposed_memcpy_ns")
    }
    assert us == pytest.approx({"compute_ns": 700, "exposed_communication_ns": 100, "exposed_memcpy_ns": 20})


def test_an_export_of_one_process_gets_its_rank_from_the_name(tmp_path: Path) -> None:
    for rank in (3, 5):
        export = training(ranks=1)
        export.add("META_DATA_EXPORT", name="EXPORT_HOST", value=str(rank))
        export.write(tmp_path / f"job_rank{rank}.sqlite")
    assert load_run([tmp_path]).rank_numbers == (3, 5)


def test_compressed_exports_and_those_of_any_name_are_read(tmp_path: Path) -> None:
    plain = training().write(tmp_path / "plain")
    packed = tmp_path / "packed.sqlite.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    events = [len(rank.events) for rank in loaded(plain).ranks]
    assert [len(rank.events) for rank in loaded(packed).ranks] == events


def test_all_ranks_come_back_from_the_cache(tmp_path: Path) -> None:
    path, options = training().write(tmp_path / "a.sqlite"), LoadOptions(cache_dir=tmp_path / "cache", workers=1)
    first, again = load_run([path], options), load_run([path], options)
    assert [len(rank.events) for rank in again.ranks] == [len(rank.events) for rank in first.ranks]
    for each in (tmp_path / "cache").glob("*.run"):
        each.unlink()
        break
    assert load_run([path], options).rank_numbers == (0, 1)


def test_ranges_that_were_never_popped_last_until_the_next_begins(tmp_path: Path) -> None:
    export = Export()
    for step in range(3):
        export.range(500, f"iteration{step}", 100 * step, 1000)
        export.range(500, "forward", 100 * step + 10, 100 * step + 60)
        export.launched(500, 0, 100 * step + 20, 100 * step + 25, 100 * step + 55, "gemm")
    run = loaded(export.write(tmp_path / "a.sqlite"))
    assert [(step.number, step.wall_ns // US) for step in run.ranks[0].steps] == [(0, 100), (1, 100), (2, 60)]
    assert "never popped" in run.sources[0].note


def test_a_synchronisation_is_on_the_device_of_its_context(tmp_path: Path) -> None:
    export = training(ranks=2)
    place = {"deviceId": 0, "contextId": 2, "streamId": 7, "globalPid": process(501)}
    export.add(SYNC, start=5 * US, end=9 * US, **place, syncType=2, eventId=4)
    rank = loaded(export.write(tmp_path / "a.sqlite")).rank(1)
    tracks = rank.events.tracks
    assert set(tracks.loc[tracks["device"] >= 0, "device"]) == {1}
    assert rank.events.details.syncs["sync_kind"].tolist() == ["Stream Wait Event"]


def test_graphs_recorded_as_a_whole_are_work_of_unknown_content(tmp_path: Path) -> None:
    export = training(ranks=1)
    place = {"deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": process(500)}
    export.add(GRAPH, start=4000 * US, end=4200 * US, **place, correlationId=99, graphId=6)
    (source,) = loaded(export.write(tmp_path / "a.sqlite")).sources
    assert source.status == "partial"
    assert "--cuda-graph-trace=node" in source.note


def test_what_the_export_lacks_is_said_and_not_taken_as_zero(tmp_path: Path) -> None:
    lacking = ["CUPTI_ACTIVITY_KIND_RUNTIME", RANGE, "TARGET_INFO_GPU"]
    run = loaded(training().write(tmp_path / "a.sqlite", without=lacking))
    assert "no CUDA call" in run.sources[0].note
    assert "no NVTX range" in run.sources[0].note
    assert run.ranks[0].devices == ()
    assert run.ranks[0].step_origin == "window"


def test_an_export_without_device_work_is_refused_with_what_to_record(tmp_path: Path) -> None:
    path = training().write(tmp_path / "a.sqlite", without=[KERNEL, COPY])
    with pytest.raises(InputError, match=r"a\.sqlite: holds no device work.*--trace=cuda"):
        loaded(path)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    path = training().write(tmp_path / "a.sqlite", columns={KERNEL: ["streamId"]})
    with pytest.raises(InputError, match=r"CUPTI_ACTIVITY_KIND_KERNEL has no column streamId"):
        loaded(path)


def test_without_processes_in_the_kernels_the_file_is_one_rank(tmp_path: Path) -> None:
    path = training(ranks=1).write(tmp_path / "a.sqlite", columns={KERNEL: ["globalPid"], COPY: ["globalPid"]})
    run = loaded(path)
    assert run.rank_numbers == (0,)
    assert len(run.ranks[0].steps) == 4


def test_other_databases_are_no_exports(tmp_path: Path) -> None:
    path = Export().write(tmp_path / "a.sqlite", without=["META_DATA_EXPORT", "TARGET_INFO_SESSION_START_TIME"])
    with pytest.raises(InputError, match=r"a\.sqlite"):
        loaded(path)


def test_an_export_cut_at_any_byte_is_refused_with_one_sentence(tmp_path: Path) -> None:
    whole = training(steps=1).write(tmp_path / "whole.sqlite").read_bytes()
    cut = tmp_path / "cut.sqlite"
    for size in range(0, len(whole), 997):
        cut.write_bytes(whole[:size])
        with pytest.raises(InputError, match=r"cut\.sqlite"):
            loaded(cut)


def test_changed_bytes_never_break_the_reader(tmp_path: Path) -> None:
    whole = training(steps=1).write(tmp_path / "whole.sqlite").read_bytes()
    changed = tmp_path / "changed.sqlite"
    random = np.random.default_rng(7)
    results: list[str] = []
    for _ in range(30):
        data = bytearray(whole)
        for at in random.integers(100, len(data), 20).tolist():
            data[at] = int(random.integers(256))
        changed.write_bytes(data)
        try:
            results.append(f"changed.sqlite: {len(loaded(changed).ranks)} ranks")
        except InputError as error:
            results.append(str(error))
    assert all("changed.sqlite" in each for each in results)
    assert any("ranks" in each for each in results)


@pytest.mark.parametrize(
    ("recorded", "name"),
    [
        ("cudaLaunchKernel_v7000", "cudaLaunchKernel"),
        ("cudaMemcpyAsync_ptsz_v7000", "cudaMemcpyAsync"),
        ("cuGetProcAddress_v2", "cuGetProcAddress_v2"),
        ("cudaGetDeviceProperties_v2_v12000", "cudaGetDeviceProperties_v2"),
    ],
)
def test_calls_lose_the_version_of_the_library(recorded: str, name: str) -> None:
    assert call_name(recorded) == name


@pytest.mark.parametrize(
    ("text", "domain", "kind", "name"),
    [
        ("aten::view, op_id = 314290", "", EventKind.OPERATOR, "aten::view"),
        ("AddmmBackward0, seq = 12, op_id = 3", "", EventKind.OPERATOR, "AddmmBackward0"),
        ("detach, op_id = 3", "", EventKind.OPERATOR, "detach"),
        ("train step, op_id = 3", "", EventKind.ANNOTATION, "train step"),
        ("iteration10", "", EventKind.ANNOTATION, "iteration10"),
        ("cublasCreate_v2", "cuBLAS", EventKind.OPERATOR, "cublasCreate_v2"),
        ("ncclAllReduce", "NCCL", EventKind.OPERATOR, "ncclAllReduce"),
    ],
)
def test_ranges_are_operators_or_marks_of_the_program(text: str, domain: str, kind: EventKind, name: str) -> None:
    said = range_of(text, domain)
    assert (said.kind, said.name) == (kind, name)


def test_copies_name_their_direction_and_memories() -> None:
    assert copy_name(1, 1, 2) == "Memcpy HtoD (Pinned -> Device)"
    assert copy_name(8, -1, -1) == "Memcpy DtoD"


@pytest.mark.parametrize(
    ("name", "ranks", "kernels", "busy_ms"),
    # Counted and united with plain SQL and Python over the same files.
    [("h100_2gpu_1s.sqlite", 2, 1721, 22.385163), ("healthy_1pct.sqlite", 1, 400, 400.0)],
)
def test_kernels_of_real_exports(traces: Path, name: str, ranks: int, kernels: int, busy_ms: float) -> None:
    run = loaded(traces / "nsys" / name)
    assert len(run.ranks) == ranks
    work = run.ranks[0].events.of_kind(EventKind.KERNEL)
    assert len(work) == kernels
    compute = Profile(run).ranks[0].breakdown["compute_ns"].sum()
    assert compute / 1e6 == pytest.approx(busy_ms, abs=0.01)


def test_iterations_of_a_real_export_of_an_older_version(traces: Path) -> None:
    run = loaded(traces / "nsys" / "torch_ex_schema3_16.sqlite.gz")
    (rank,) = run.ranks
    assert [step.number for step in rank.steps] == list(range(10, 20))
    assert all(16.5e6 < step.wall_ns < 17.5e6 for step in rank.steps)
    assert rank.devices[0].name == "NVIDIA RTX A4500"


def test_an_export_of_more_events_than_memory_holds_is_refused_or_read_without_system_calls(tmp_path: Path) -> None:
    """Four steps of one rank: 12 kernels and copies with as many calls, and ranges; then 50 calls of the system."""
    export = training(ranks=1)
    for at in range(50):
        export.add(
            "OSRT_API", start=at * US, end=at * US + 500, globalTid=process(500) + 500, nameId=export.text("poll")
        )
    with open_database(export.write(tmp_path / "a.sqlite")) as database:
        strings, ranks = Strings(database), Ranks()
        read_device_work(database, strings, ranks)
        device = ranks.read
        ranks.most = device
        with pytest.raises(InputError, match=f"more than {device} events .* record fewer steps"):
            read_host_events(database, strings, ranks)
    with open_database(tmp_path / "a.sqlite") as database:
        strings, ranks = Strings(database), Ranks()
        read_device_work(database, strings, ranks)
        ranks.most = device + sum(len(export.rows[table]) for table in (CALL, RANGE))
        assert read_host_events(database, strings, ranks).dropped == 50


def test_advice_names_the_profiler_whose_options_it_holds(tmp_path: Path) -> None:
    profile = Profile(loaded(training().write(tmp_path / "node.sqlite")))
    assert by_torch(profile, "the same steps with with_stack=True") == (
        "a PyTorch profiler trace of the same steps with with_stack=True"
    )
    assert by_torch(profile, "many more steps") == "many more steps"


def test_an_export_that_takes_too_long_is_refused_with_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = training(ranks=1).write(tmp_path / "a.sqlite")
    monkeypatch.setattr(sqlite_file, "STEPS", 1)
    monkeypatch.setattr(sqlite_file, "MOST_SECONDS", 0.0)
    with (
        pytest.raises(
            InputError, match=r"a\.sqlite: reading it takes longer than 0 s of a processor; record fewer steps"
        ),
        open_database(path) as database,
    ):
        database.table("StringIds", "id")
