"""Every version's words for an event are understood, and its attributes land in their columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.tools.sources.kineto_text import JsonEvent, kernel, launch, span, write_trace
from tools.run.events import EventKind, EventTable
from tools.sources.load import load_run
from tools.sources.options import LoadOptions

ALONE = LoadOptions(workers=1)


def table(tmp_path: Path, events: list[JsonEvent], **members: object) -> EventTable:
    return load_run([write_trace(tmp_path / "t.json", events, **members)], ALONE).ranks[0].events


@pytest.mark.parametrize(
    ("cat", "name", "kind"),
    [
        ("Operator", "aten::mm", EventKind.OPERATOR),
        ("Operator", "ProfilerStep#5", EventKind.ANNOTATION),
        ("Operator", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", EventKind.ANNOTATION),
        ("Operator", "Optimizer.step#SGD.step", EventKind.ANNOTATION),
        ("cpu_op", "aten::mm", EventKind.OPERATOR),
        ("user_annotation", "nccl:all_reduce", EventKind.ANNOTATION),
        ("Kernel", "gemm", EventKind.KERNEL),
        ("kernel", "gemm", EventKind.KERNEL),
        ("mtia_ccp_events", "pe_exe", EventKind.KERNEL),
        ("mtia_ccp_events", "event_wait", EventKind.SYNC),
        ("Memcpy", "Memcpy HtoD", EventKind.MEMCPY),
        ("gpu_memcpy", "Memcpy HtoD", EventKind.MEMCPY),
        ("Memset", "Memset", EventKind.MEMSET),
        ("gpu_memset", "Memset", EventKind.MEMSET),
        ("Runtime", "cudaLaunchKernel", EventKind.RUNTIME),
        ("cuda_runtime", "hipLaunchKernel", EventKind.RUNTIME),
        ("cuda_driver", "cuLaunchKernel", EventKind.RUNTIME),
        ("xpu_runtime", "urEnqueueKernelLaunch", EventKind.RUNTIME),
        ("python_function", "train.py(1): main", EventKind.PYTHON),
        ("cuda_sync", "Stream Sync", EventKind.SYNC),
        ("gpu_user_annotation", "ProfilerStep#5", EventKind.DEVICE_ANNOTATION),
        ("Trace", "PyTorch Profiler (0)", EventKind.OTHER),
        ("something new", "x", EventKind.OTHER),
    ],
)
def test_categories_of_all_versions_give_the_kind(tmp_path: Path, cat: str, name: str, kind: EventKind) -> None:
    frame = table(tmp_path, [span(name, 10, 5, cat)]).frame

    assert frame["kind"].tolist() == [kind]


def test_memory_instants_with_and_without_a_category_are_rows(tmp_path: Path) -> None:
    old = {"ph": "i", "s": "t", "name": "[memory]", "pid": 100, "tid": 100, "ts": 12}
    new = old | {"cat": "cpu_instant_event", "ts": 13}
    events = [
        span("op", 10, 5),
        old | {"args": {"Device Type": 0, "Device Id": -1, "Bytes": 4}},
        new | {"args": {"Device Type": 1, "Device Id": 2, "Bytes": -8, "Total Allocated": 50, "Total Reserved": 90}},
    ]

    found = table(tmp_path, events)

    assert found.frame["kind"].tolist() == [EventKind.OPERATOR, EventKind.INSTANT, EventKind.INSTANT]
    assert found.details.memory.to_dict("list") == {
        "row": [1, 2],
        "bytes": [4, -8],
        "total_allocated": [-1, 50],
        "total_reserved": [-1, 90],
        "device_type": [0, 1],
        "device": [-1, 2],
    }


def test_a_kernels_sizes_are_kept_and_missing_ones_are_nan(tmp_path: Path) -> None:
    sizes: JsonEvent = {"grid": [4, 2, 1], "block": [128, 1, 1], "registers per thread": 40, "shared memory": 1024}
    more: JsonEvent = {"warps per SM": 2.5, "est. achieved occupancy %": 50}

    kernels = table(tmp_path, [kernel("a", 1, 1, 5, **sizes, **more), kernel("b", 3, 1, 6)]).details.kernels

    assert kernels.iloc[0].tolist() == [0, 8, 128, 40, 1024, 2.5, 50]
    assert kernels.iloc[1][["row", "blocks", "threads"]].tolist() == [1, -1, -1]
    assert kernels.iloc[1][["registers", "shared_bytes", "warps_per_sm", "occupancy_pct"]].isna().all()


def test_operators_keep_shapes_sequence_and_stack(tmp_path: Path) -> None:
    args = {
        "Input Dims": [[2, 3], []],
        "Input type": ["float", "Scalar"],
        "Sequence number": 8,
        "Fwd thread id": 1,
        "Call stack": "a.py(1): f",
        "External id": 77,
    }
    found = table(tmp_path, [span("plain", 1, 1), span("aten::mm", 2, 1, args=args)])

    (operator,) = found.details.operators.to_dict("records")
    assert json.loads(operator["dims"]) == [[2, 3], []]
    assert json.loads(operator["types"]) == ["float", "Scalar"]
    assert (operator["row"], operator["sequence"], operator["forward_thread"]) == (1, 8, 1)
    assert operator["stack"] == "a.py(1): f"
    assert found.frame["external"].tolist() == [-1, 77]


def test_collectives_are_described_on_host_and_device(tmp_path: Path) -> None:
    args: JsonEvent = {
        "Collective name": "allreduce",
        "In msg nelems": 10,
        "Out msg nelems": 20,
        "Group size": 4,
        "dtype": "Float",
        "Process Group Name": "3",
        "Process Group Description": "default_pg",
        "Process Group Ranks": "[0, 1, 2, 3]",
    }
    found = table(tmp_path, [span("record_param_comms", 1, 1, args=args), kernel("ncclKernel", 3, 1, 5, **args)])

    collectives = found.details.collectives
    assert collectives["row"].tolist() == [0, 1]
    assert collectives.drop(columns="row").iloc[1].tolist() == ["allreduce", "3", 4, "[0, 1, 2, 3]", "Float", 10, 20]


def test_waits_copies_and_python_frames_have_their_tables(tmp_path: Path) -> None:
    wait = {"cuda_sync_kind": "Stream Wait Event", "stream": 7, "wait_on_stream": 20}
    wait |= {"wait_on_cuda_event_record_corr_id": 9, "wait_on_cuda_event_id": 3, "device": 0}
    events = [
        span("Memcpy DtoH", 1, 1, "gpu_memcpy", pid=0, tid=7, args={"device": 0, "stream": 7, "bytes": 4096}),
        span("Memcpy DtoD", 2, 1, "gpu_memcpy", pid=0, tid=7, args={"device": 0, "stream": 7}),
        span("Stream Wait Event", 3, 1, "cuda_sync", pid=0, tid=7, args=wait),
        span("train.py(3): main", 4, 9, "python_function", args={"Python id": 1, "Python parent id": None}),
        span("model.py(7): forward", 5, 2, "python_function", args={"Python id": 2, "Python parent id": 1}),
    ]

    details = table(tmp_path, events).details

    assert details.copies.to_dict("list") == {"row": [0, 1], "bytes": [4096, -1]}
    assert details.syncs.iloc[0].tolist() == [2, "Stream Wait Event", 7, 20, 9, 3]
    assert details.python.to_dict("list") == {"row": [3, 4], "python_id": [1, 2], "parent_id": [-1, 1]}


def test_tracks_tell_threads_from_streams_even_with_the_same_numbers(tmp_path: Path) -> None:
    events = [
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "args": {"name": "stream 7 "}},
        span("host", 1, 1, pid=0, tid=7),
        span("Kernel", 2, 1, "Kernel", pid=0, tid="stream 7", args={"device": 0, "stream": 7}),
        kernel("k", 3, 1, 1, stream=7),
        span("old", 4, 1, pid=25738, tid="25738"),
        span("new", 5, 1, pid=25738, tid=25738),
    ]

    found = table(tmp_path, events)

    tracks = found.tracks.iloc[found.frame["track"]].reset_index(drop=True)
    assert tracks["device"].tolist() == [-1, 0, 0, -1, -1]
    assert tracks["stream"].tolist() == [-1, 7, 7, -1, -1]
    assert found.frame["track"][3] == found.frame["track"][4]
    assert len(found.tracks) == 4
    assert tracks["label"].tolist() == ["stream 7", "", "stream 7", "", ""]


def test_forward_and_backward_operators_are_paired(tmp_path: Path) -> None:
    def arrow(phase: str, ts: float, tid: int) -> JsonEvent:
        return {"ph": phase, "cat": "fwdbwd", "name": "fwdbwd", "id": 1, "pid": 100, "tid": tid, "ts": ts}

    numbered: JsonEvent = {"args": {"Sequence number": 4}}
    events = [
        span("aten::linear", 10, 9, **numbered),
        span("aten::addmm", 10, 5, **numbered),
        span("evaluate_function: AddmmBackward0", 50, 9, tid=101, **numbered),
        span("AddmmBackward0", 51, 7, tid=101, **numbered),
        arrow("s", 10, 100),
        arrow("f", 51, 101),
    ]

    found = table(tmp_path, events)

    (pair,) = found.details.forward_backward.to_dict("records")
    names = found.frame["name"].astype(str)
    assert (names[pair["forward_row"]], names[pair["backward_row"]]) == ("aten::linear", "AddmmBackward0")


def test_an_external_id_that_repeats_the_correlation_links_no_operator(tmp_path: Path) -> None:
    args = {"device": 0, "stream": 7, "correlation": 40}
    events = [
        span("op", 1, 5, args={"External id": 40}),
        span("unlinked", 2, 1, "kernel", pid=0, tid=7, args=args | {"External id": 40}),
        span("linked", 3, 1, "kernel", pid=0, tid=7, args=args | {"External id": 12}),
        span("old", 4, 1, "Kernel", pid=0, tid=7, args=args | {"external id": 13}),
    ]

    assert table(tmp_path, events).frame["external"].tolist() == [40, -1, 12, 13]


def test_times_are_whole_nanoseconds_from_the_earliest_event(tmp_path: Path) -> None:
    path = write_trace(
        tmp_path / "t.json",
        [span("late", 4458676522709.059, 1.001), span("early", 4458676522690.655, 156.777)],
        baseTimeNanoseconds=1711964646000000000,
    )

    run = load_run([path], ALONE)

    frame = run.ranks[0].events.frame
    assert frame["start_ns"].tolist() == [0, 18_404]
    assert frame["end_ns"].tolist() == [156_777, 19_405]
    assert run.origin_unix_ns == 1711964646000000000 + 4458676522690655


def test_without_a_base_the_time_of_day_is_known_only_for_times_since_1970(tmp_path: Path) -> None:
    since_1970 = write_trace(tmp_path / "a.json", [span("op", 1694128201422525, 1)])
    since_boot = write_trace(tmp_path / "b.json", [span("op", 4203669604595.407, 1)])

    assert load_run([since_1970], ALONE).origin_unix_ns == 1694128201422525000
    assert load_run([since_boot], ALONE).origin_unix_ns is None


def test_devices_are_read_from_a_list_and_from_text(tmp_path: Path) -> None:
    card = {"id": 1, "name": "A100", "totalGlobalMem": 42, "computeMajor": 8, "computeMinor": 0, "numSms": 108}
    for number, value in enumerate(([card], json.dumps([card]), json.dumps(card))):
        path = write_trace(tmp_path / f"{number}.json", [span("op", 1, 1)], deviceProperties=value)
        (device,) = load_run([path], ALONE).ranks[0].devices
        assert (device.index, device.name, device.memory_bytes) == (1, "A100", 42)
        assert (device.compute_capability, device.multiprocessors) == ("8.0", 108)


def test_launches_and_kernels_share_the_correlation(tmp_path: Path) -> None:
    frame = table(tmp_path, [launch(1, 1, 33), kernel("k", 5, 1, 33)]).frame

    assert frame["correlation"].tolist() == [33, 33]
