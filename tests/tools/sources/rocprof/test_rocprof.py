"""JSON of rocprofv3: kernels, copies, calls and marked ranges of a process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tools.errors import InputError
from tools.run.events import EventKind
from tools.sources.load import load_run
from tools.views.profile import Profile

OPERATIONS = [
    ("HIP_RUNTIME_API", ["NONE", "hipModuleLaunchKernel", "hipMemcpyAsync"]),
    ("MEMORY_COPY", ["MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_DEVICE"]),
    ("MARKER_CORE_RANGE_API", ["NONE", "roctxRangePushA"]),
]


def record(kind: int, operation: int, call: int, start: int, end: int, **more: object) -> dict[str, Any]:
    return {
        "size": 88,
        "kind": kind,
        "operation": operation,
        "thread_id": 40,
        "correlation_id": {"internal": call, "external": 0},
        "start_timestamp": 63_857_000_000_000 + 1000 * start,
        "end_timestamp": 63_857_000_000_000 + 1000 * end,
        **more,
    }


def kernel(call: int, start: int, end: int, kernel_id: int = 5, agent: int = 37946) -> dict[str, Any]:
    info = {
        "agent_id": {"handle": agent},
        "queue_id": {"handle": 18},
        "kernel_id": kernel_id,
        "group_segment_size": 512,
        "workgroup_size": {"x": 256, "y": 1, "z": 1},
        "grid_size": {"x": 1000, "y": 2, "z": 1},
    }
    return record(3, 2, call, start, end, dispatch_info=info, stream_id={"handle": 7})


def process(steps: int = 4, host: bool = True) -> dict[str, Any]:
    """Steps of 1,000 us, each with a copy and a kernel of 900 us that two calls ask for."""
    calls, kernels, copies, marks, messages = [], [], [], [], []
    for step in range(steps):
        at = 1000 * step
        calls += [record(0, 2, 10 * step + 1, at + 1, at + 5), record(0, 1, 10 * step + 2, at + 10, at + 15)]
        ends = {"src_agent_id": {"handle": 37944}, "dst_agent_id": {"handle": 37946}, "bytes": 4096}
        copies.append(record(1, 1, 10 * step + 1, at + 6, at + 16, **ends))
        kernels.append(kernel(10 * step + 2, at + 20, at + 920))
        marks.append(record(2, 1, 10 * step + 3, at, at + 990))
        messages.append({"key": 10 * step + 3, "value": f"step {step}"})
    return {
        "metadata": {"pid": 908, "node": {"hostname": "node7"}},
        "agents": [
            {"id": {"handle": 37944}, "type": 1, "product_name": "EPYC"},
            {
                "id": {"handle": 37946},
                "type": 2,
                "product_name": "AMD Instinct MI300X",
                "cu_count": 304,
                "logical_node_type_id": 0,
            },
        ],
        "strings": {
            "buffer_records": [{"kind": kind, "operations": own} for kind, own in OPERATIONS],
            "marker_api": messages if host else [],
        },
        "kernel_symbols": [{"kernel_id": 5, "kernel_name": "_Z4gemm.kd", "formatted_kernel_name": "gemm"}],
        "buffer_records": {
            "kernel_dispatch": kernels,
            "memory_copy": copies,
            "hip_api": calls if host else [],
            "hsa_api": [{"other": "fields"}],
            "marker_api": marks if host else [],
        },
    }


def written(path: Path, *processes: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"rocprofiler-sdk-tool": list(processes)}))
    return path


def test_kernels_copies_calls_and_ranges_are_joined(tmp_path: Path) -> None:
    run = load_run([written(tmp_path / "p.json", process())])
    profile = Profile(run)
    view = profile.rank(0)
    assert [source.format for source in run.sources] == ["rocprof"]
    assert view.names(view.kernels) == ["gemm"] * 4
    assert view.names(view.copies) == ["Memcpy HtoD (Host -> Device)"] * 4
    assert (view.kind == EventKind.RUNTIME).sum() == 8
    assert len(view.launches) == 8
    (device,) = view.rank.devices
    assert (device.name, device.multiprocessors) == ("AMD Instinct MI300X", 304)
    details = view.events.details.kernels
    assert set(details["blocks"]) == {8}  # 2,000 work items in groups of 256
    assert set(details["threads"]) == {256}
    assert set(view.events.details.copies["bytes"]) == {4096}
    assert [step.wall_ns for step in view.rank.steps][:3] == [1_000_000] * 3


def test_what_was_not_recorded_is_named(tmp_path: Path) -> None:
    run = load_run([written(tmp_path / "p.json", process(host=False))])
    assert "not recorded: calls of HIP (`--hip-trace`)" in run.sources[0].note
    assert run.ranks[0].step_origin == "window"


def test_each_process_is_a_rank_of_its_own(tmp_path: Path) -> None:
    run = load_run([written(tmp_path / "p.json", process(), process(steps=3))])
    assert [len(rank.steps) for rank in run.ranks] == [4, 3]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"rocprofiler-sdk-tool": [{"metadata": {"pid": 1', "is no whole recording of rocprofv3"),
        ('{"rocprofiler-sdk-tool": [{"metadata": {}}]}', "without a kernel, a copy or a call"),
        ('{"rocprofiler-sdk-tool": [{"buffer_records": {"hip_api": [5]}}]}', "is no whole recording"),
    ],
)
def test_files_without_events_are_refused(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(content)
    with pytest.raises(InputError, match=said) as refused:
        load_run([path])
    assert "rocprofv3" in str(refused.value)
