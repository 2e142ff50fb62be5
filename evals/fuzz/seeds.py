"""Small sound inputs that the mutations begin with: one of every format, and slices of real traces where they are."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import re
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import Any

from evals.suite.run_places import ROOT, Places
from hermes_agent.monitor.format import FIELDS, PREAMBLE, RECORD, SCHEMA, STEPS_MAGIC, Description, Workload
from tools.run.recorded.records import SAMPLE_FIELDS

STEPS = 3
START_NS = 1_700_000_000_000_000_000
_TENSORS: Mapping[str, object] = {"sizes": [[4, 2]], "dtypes": ["Float"]}
SLICE_EVENTS = 12  # of each category of a real trace
PLANNERS_PAGE = ROOT / "docs" / "planners.md"
EXAMPLE = re.compile(r"```json\n(.*?)```", re.S)

Event = Mapping[str, object]


def _span(category: str, name: str, ts: float, dur: float, args: Mapping[str, object] | None = None) -> Event:
    place = {"pid": 0, "tid": 7} if category in ("kernel", "gpu_memcpy") else {"pid": 100, "tid": 100}
    return {"ph": "X", "cat": category, "name": name, **place, "ts": ts, "dur": dur, "args": args or {}}


def trace(rank: int = 0, device: bool = True) -> bytes:
    """A Kineto trace of three steps with operators, a collective, Python frames and, with a device, its work."""
    events: list[Event] = []
    for step in range(STEPS):
        at = 1000.0 * step
        dims = {
            "External id": step + 1,
            "Input Dims": [[2, 3], []],
            "Input type": ["float", ""],
            "Sequence number": step,
        }
        events += [
            _span("user_annotation", f"ProfilerStep#{step}", at, 990.0),
            _span("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at + 5, 100.5),
            _span("cpu_op", "aten::addmm", at + 110, 300.25, dims),
            _span(
                "python_function", "train.py(12): step", at + 1, 980, {"Python id": step + 1, "Python parent id": None}
            ),
            {"ph": "s", "id": step, "pid": 100, "tid": 100, "ts": at + 110, "cat": "fwdbwd", "name": "fwdbwd"},
            {
                "ph": "f",
                "id": step,
                "pid": 100,
                "tid": 100,
                "ts": at + 500,
                "cat": "fwdbwd",
                "name": "fwdbwd",
                "bp": "e",
            },
            _span("cpu_op", "record_param_comms", at + 600, 200, _collective(step)),
        ]
        if device:
            ids = {"correlation": 10 + step, "External id": step + 1}
            kernel = {"device": 0, "stream": 7, "grid": [80, 1, 1], "block": [128, 1, 1], "registers per thread": 32}
            events += [
                _span("cuda_runtime", "cudaLaunchKernel", at + 150, 6, ids),
                _span("kernel", "sgemm_128x64", at + 170, 400, {**ids, **kernel}),
                _span("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", at + 600, 50, {**ids, "bytes": 4096, **kernel}),
            ]
    events.append({"ph": "M", "name": "thread_name", "pid": 100, "tid": 100, "args": {"name": "thread 100 (python)"}})
    events.append({"ph": "i", "s": "t", "name": "[memory]", "pid": 100, "tid": 0, "ts": 9, "args": {"Bytes": 512}})
    events.append({"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 3000})
    members = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA A100", "totalGlobalMem": 2**35, "numSms": 108}]
        if device
        else [],
        "distributedInfo": {"backend": "nccl" if device else "gloo", "rank": rank, "world_size": 2},
        "baseTimeNanoseconds": START_NS,
        "traceEvents": events,
        "traceName": "t.json",
    }
    return json.dumps(members).encode()


def _collective(step: int) -> Mapping[str, object]:
    return {
        "Collective name": "allreduce",
        "In msg nelems": 1024,
        "Out msg nelems": 1024,
        "Group size": 2,
        "dtype": "Float",
        "Process Group Name": "0",
        "Process Group Ranks": "[0, 1]",
        "External id": 100 + step,
    }


def old_trace() -> bytes:
    """The array of events alone, as the first versions and other tools write it."""
    whole: dict[str, Any] = json.loads(trace())
    return json.dumps(whole["traceEvents"]).encode()


def real_traces() -> list[bytes]:
    """The first events of each category of real traces, as traces of their own; [] where there are none."""
    folder = Places.from_environment(os.environ).traces
    names = (
        "hta/amd_trace.json.gz",
        "hta/critical_path_alexnet.json.gz",
        "hta/cpu_only.json.gz",
        "hta/trace_filter.json.gz",
    )
    return [_slice(folder / name) for name in names if (folder / name).is_file()]


def _slice(path: Path) -> bytes:
    whole: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()), strict=False)
    chosen: dict[str, list[object]] = {}
    for event in whole["traceEvents"]:
        own = chosen.setdefault(str(event.get("cat", event.get("ph"))), [])
        own += [event] if len(own) < SLICE_EVENTS else []
    return json.dumps({**whole, "traceEvents": [event for own in chosen.values() for event in own]}).encode()


def step_log() -> bytes:
    """Lines of a step log."""
    lines = [{"step": step, "wall_ms": 95.25 + step % 3, "samples": 32, "loss": 0.5} for step in range(30)]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def counters() -> list[bytes]:
    """Samples of nvidia-smi as CSV and as a table, of sar, vmstat, adapters and interfaces."""
    query = "timestamp, index, utilization.gpu [%], power.draw [W], clocks_event_reasons.active\n" + "".join(
        f"2026/11/23 10:00:{second:02d}.500, {device}, 97 %, 250.5 W, 0x0000000000000020\n"
        for second in range(8)
        for device in range(2)
    )
    table = (
        "| NVIDIA-SMI 525.60.13    Driver Version: 525.60.13    CUDA Version: 12.0     |\n"
        "|   0  NVIDIA A100-SXM...  On   | 00000000:07:00.0 Off |                    0 |\n"
        "| N/A   34C    P0   270W / 400W |  71234MiB / 81920MiB |     97%      Default |\n"
    )
    machine = (
        "Linux 5.10.103 (node7) \t2026-11-23 \t_x86_64_\t(4 CPU)\n\n"
        "10:00:00        CPU     %user     %nice   %system   %iowait    %steal     %idle\n"
        "10:00:05        all      0.25      0.00      1.31     30.00      4.00     64.44\n\n"
        " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n"
        " 9  2      0 123456  12345 654321    0    4    10    20  100  900 60  5 20 10  5\n"
        "link mlx5_0/1 rx_write_requests 10 out_of_sequence 7 local_ack_timeout_err 2\n"
        "NIC statistics:\n     rx_prio3_pause: 100\n     rx_discards_phy: 3\n"
        "/proc/pressure/io:full avg10=35.00 avg60=10.00 avg300=9.00 total=123456\n"
    )
    xml = (
        '<nvidia_smi_log>\n\t<gpu id="00000000:07:00.0">\n\t\t<utilization>\n\t\t\t<gpu_util>97 %</gpu_util>\n'
        "\t\t\t<memory_util>41 %</memory_util>\n\t\t</utilization>\n\t</gpu>\n</nvidia_smi_log>\n"
    )
    return [query.encode(), table.encode(), machine.encode(), xml.encode()]


def device_documents() -> list[bytes]:
    """JSON of rocm-smi and of amd-smi."""
    cards = {"card0": {"GPU use (%)": "97", "sclk clock speed:": "(2100Mhz)"}, "system": {"Driver version": "6.7.0"}}
    power = {"socket_power": {"value": 350, "unit": "W"}}
    device = {"gpu": 0, "usage": {"gfx_activity": {"value": 88.5, "unit": "%"}, "umc_activity": "N/A"}, "power": power}
    return [json.dumps(cards).encode(), json.dumps({"gpu_data": [device]}, indent=1).encode()]


def ascend_tables() -> list[bytes]:
    """Tables of an Ascend profiler: steps, kernels and the collectives of a rank."""
    steps = (
        "Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,Preparing\n"
        "7,300.5,400.25,50.0,450.25,300.0,1000.75,0,1.0\n"
    )
    kernels = (
        "Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Block Dim,Input Shapes,aic_mac_ratio\n"
        '7,MatMul1,MatMulV2,AI_CORE,1700000000000000.100\t,12.5,20,"""2,3;3,4""",0.9\n'
    )
    times = {"Elapse Time(ms)": 5.0, "Transit Time(ms)": 1.0, "Wait Time(ms)": 3.0, "Idle Time(ms)": 1.0}
    moved = {"Transit Size(MB)": 8.0, "Transit Time(ms)": 1.0, "Size Distribution": {"2.0": [4, 1.0]}}
    said = {"Communication Time Info": times, "Communication Bandwidth Info": {"HCCS": moved}}
    collectives = {"step7": {"p2p": {}, "collective": {"hcom_allReduce__1_0_1@17": said}}}
    return [steps.encode(), kernels.encode(), json.dumps(collectives).encode()]


def nsys_export() -> bytes:
    """An export of Nsight Systems: a launched kernel, a copy and an NVTX range of one process."""
    process, second = 77 << 24, 1_000_000_000
    tables: Mapping[str, tuple[str, tuple[object, ...]]] = {
        "META_DATA_EXPORT": ("name, value", ("EXPORT_SCHEMA_VERSION", "3.25.0")),
        "StringIds": ("id, value", (1, "gemm")),
        "CUPTI_ACTIVITY_KIND_KERNEL": (
            "start, end, deviceId, streamId, correlationId, globalPid, demangledName, gridX, gridY, gridZ",
            (second + 30, second + 90, 0, 7, 5, process, 1, 8, 2, 1),
        ),
        "CUPTI_ACTIVITY_KIND_MEMCPY": (
            "start, end, deviceId, streamId, correlationId, globalPid, bytes, copyKind, srcKind, dstKind",
            (second, second + 20, 0, 7, 4, process, 4096, 1, 1, 2),
        ),
        "CUPTI_ACTIVITY_KIND_RUNTIME": (
            "start, end, globalTid, correlationId, nameId",
            (second + 10, second + 15, process + 77, 5, 1),
        ),
        "NVTX_EVENTS": (
            "start, end, eventType, text, globalTid, domainId",
            (second, second + 100, 59, "step 1", process + 77, 0),
        ),
    }
    return _database(tables)


def ascend_database() -> bytes:
    """A database of Ascend's profiler: one task with its name, and one account of a step."""
    tables: Mapping[str, tuple[str, tuple[object, ...]]] = {
        "STRING_IDS": ("id, value", (1, "MatMul")),
        "TASK": (
            "startNs, endNs, deviceId, connectionId, globalTaskId, taskType, streamId",
            (1_000, 9_000, 0, 3, 2, 1, 5),
        ),
        "COMPUTE_TASK_INFO": ("name, globalTaskId, opType, taskType, blockDim", (1, 2, 1, 1, 20)),
        "PYTORCH_API": ("startNs, endNs, globalTid, connectionId, name", (500, 900, 77 << 32, 3, 1)),
    }
    return _database(tables)


def _database(tables: Mapping[str, tuple[str, tuple[object, ...]]]) -> bytes:
    with closing(sqlite3.connect(":memory:")) as connection:
        for table, (columns, row) in tables.items():
            connection.execute(f"CREATE TABLE {table} ({columns})")
            connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        connection.commit()
        return connection.serialize()


def rocprof() -> bytes:
    """A recording of rocprofv3: a device with a kernel and a copy, and the calls that ask for them."""

    def record(kind: int, operation: int, call: int, start: int, end: int, **more: object) -> dict[str, object]:
        times = {"start_timestamp": start, "end_timestamp": end}
        return {"kind": kind, "operation": operation, "correlation_id": {"internal": call}, **times, **more}

    launched = {"agent_id": {"handle": 7}, "kernel_id": 3, "workgroup_size": {"x": 64, "y": 1, "z": 1}}
    ends = {"src_agent_id": {"handle": 6}, "dst_agent_id": {"handle": 7}, "bytes": 4096}
    names = [("HIP", ["none", "hipLaunchKernel", "hipMemcpyAsync"]), ("COPY", ["none", "MEMORY_COPY_HOST_TO_DEVICE"])]
    process = {
        "metadata": {"pid": 11, "node": {"hostname": "node7"}},
        "agents": [{"id": {"handle": 6}, "type": 1}, {"id": {"handle": 7}, "type": 2, "product_name": "MI300X"}],
        "strings": {"buffer_records": [{"kind": kind, "operations": own} for kind, own in names]},
        "kernel_symbols": [{"kernel_id": 3, "formatted_kernel_name": "gemm"}],
        "buffer_records": {
            "hip_api": [record(0, 1, 1, 10, 15, thread_id=11), record(0, 2, 2, 20, 25, thread_id=11)],
            "kernel_dispatch": [record(1, 2, 1, 30, 60, dispatch_info={**launched, "grid_size": {"x": 256, "y": 1}})],
            "memory_copy": [record(1, 1, 2, 60, 80, **ends)],
        },
    }
    return json.dumps({"rocprofiler-sdk-tool": [process]}).encode()


def xplane() -> bytes:
    """An XProf recording: a device with a kernel, a host thread that launches it, and the time of day."""

    def part(key: int, value: bytes) -> bytes:
        return bytes([key << 3 | 2, len(value)]) + value

    def named(key: int, *names: bytes) -> bytes:
        entries = (b"\x08%c" % at + part(2, b"\x08%c" % at + part(2, name)) for at, name in enumerate(names, 1))
        return b"".join(part(key, entry) for entry in entries)

    def plane(name: bytes, line: bytes, events: bytes, *names: bytes) -> bytes:
        lane = part(3, b"\x08\x07" + part(2, line) + b"\x18\x0a" + part(4, events))
        return part(1, part(2, name) + lane + named(4, *names) + named(5, b"correlation_id", b"step_num"))

    launched = b"\x08\x01\x10\x80\x08\x18\x80\x10" + part(4, b"\x08\x01\x20\x05")
    return b"".join(
        (
            plane(b"/device:GPU:0", b"Stream #7(Compute)", launched, b"gemm_fusion"),
            plane(b"/host:CPU", b"python", launched, b"cuLaunchKernel"),
            part(4, b"node7"),
        )
    )


def stacks() -> list[bytes]:
    """py-spy's recordings: speedscope, folded stacks, dumps as text and as JSON."""
    frames = [{"name": "main", "file": "train.py", "line": 7, "col": None}, {"name": "load", "file": "d.py", "line": 9}]
    sampled = {"type": "sampled", "name": 'Thread 0x7F "MainThread"', "unit": "seconds", "samples": [[0], [0, 1]]}
    speedscope = {"$schema": "https://www.speedscope.app/file-format-schema.json", "shared": {"frames": frames}}
    dumped = {"pid": 7, "thread_id": 7, "thread_name": "MainThread", "frames": [{"name": "load", "filename": "d.py"}]}
    folded = "main (train.py:7) 3\nmain (train.py:7);load (d.py:9) 12\n"
    text = (
        'Process 7: python train.py\n\nThread 7 (active+gil): "MainThread"\n    load (d.py:9)\n    main (train.py:7)\n'
    )
    whole = {**speedscope, "profiles": [{**sampled, "weights": [0.01, 0.01]}], "exporter": "py-spy@0.4.2"}
    return [json.dumps(whole).encode(), folded.encode(), text.encode(), json.dumps([dumped]).encode()]


def memory_snapshot() -> bytes:
    """A snapshot of PyTorch's allocator: two blocks of a segment, and how they came about."""
    import pickle

    frames = [{"name": "forward", "filename": "model.py", "line": 7}]
    blocks = [
        {"address": 1, "size": 512, "requested_size": 500, "state": "active_allocated", "frames": frames},
        {"address": 513, "size": 512, "requested_size": 0, "state": "inactive", "frames": []},
    ]
    events = [
        {"action": action, "addr": 1, "size": 512, "stream": 0, "time_us": at, "frames": frames}
        for at, action in enumerate(("segment_alloc", "alloc", "free_requested", "free_completed", "alloc"))
    ]
    segment = {"device": 0, "address": 1, "total_size": 1024, "blocks": blocks}
    return pickle.dumps({"segments": [segment], "device_traces": [events], "allocator_settings": {}}, protocol=4)


def collect_env() -> bytes:
    """What collect_env prints of a host."""
    return (
        b"PyTorch version: 2.3.0+cu121\nIs debug build: False\nIs CUDA available: True\n"
        b"GPU models and configuration:\nGPU 0: NVIDIA A100\n\nCPU(s):      128\n[pip3] numpy==1.26.4\n"
    )


def step_operations() -> bytes:
    """A table of the operations of two workers in two steps."""
    import pandas as pd

    rows = [
        {"dp_rank": dp, "stage": 0, "rank": dp, "step": step, "optype": f"{kind}-compute", "start_ts": 0.01 * place}
        | {"duration": 0.01 * (1 + dp), "seq_id": 0, "mc": 0, "gmc": 0}
        for dp in range(2)
        for step in range(2)
        for place, kind in enumerate(("forward", "backward"))
    ]
    file = BytesIO()
    pd.DataFrame(rows).to_parquet(file, index=False)
    return file.getvalue()


def flight_dumps() -> list[bytes]:
    """A dump of a flight recorder with a collective that has not ended and a send, pickled and as JSON."""
    common: dict[str, object] = {"pg_id": 0, "process_group": ("0", "default_pg"), "timeout_ms": 600_000}
    sizes = {f"{side}_{what}": each for side in ("input", "output") for what, each in _TENSORS.items()}
    calls = [
        ("nccl:all_reduce", "completed", 1, False),
        ("nccl:send 0->1", "started", 1, True),
        ("nccl:_all_gather_base", "scheduled", 2, False),
    ]
    entries = [
        {
            **common,
            **sizes,
            **{"record_id": at, "profiling_name": name, "state": state, "collective_seq_id": sequence},
            **{"time_created_ns": START_NS + at, "time_discovered_completed_ns": None, "is_p2p": p2p},
        }
        for at, (name, state, sequence, p2p) in enumerate(calls)
    ]
    last = {f"last_{name}_collective": at for name, at in (("enqueued", 2), ("started", -1), ("completed", 1))}
    groups = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    dump = {"version": "2.9", "pg_config": groups, "pg_status": {"0": last}, "entries": entries}
    return [pickle.dumps(dump, protocol=2), json.dumps(dump).encode()]


def inspector_lines() -> list[bytes]:
    """Lines of NCCL Inspector: all-reduces of two ranks."""
    about = {"inspector_output_format_version": "v4.0", "hostname": "node", "pid": 12}
    moved = {"coll": "AllReduce", "coll_msg_size_bytes": 4096, "coll_exec_time_us": 20.5, "coll_busbw_gbs": 0.2}
    lines = [
        {
            "header": {"id": "0x1f", "rank": rank, "n_ranks": 2, "nnodes": 1},
            "metadata": about,
            "coll_perf": {**moved, "coll_sn": sequence, "coll_timing_source": "kernel_gpu"},
        }
        for sequence in range(3)
        for rank in range(2)
    ]
    return ["".join(f"{json.dumps(line)}\n" for line in lines).encode()]


def ras_answers() -> list[bytes]:
    """An answer of NCCL RAS with a rank that is missing."""
    process = {"host": "10.0.0.1", "pid": 12, "cuda_dev": 0, "nvml_dev": 0}
    there = {"rank": 0, **process, "status": {"async_error": 0}, "collective_counts": {"AllReduce": 5}}
    gone = {"rank": 1, **process, "pid": 13, "status": {"unresponsive": True, "considered_dead": False}}
    communicator = {"hash": "0xae", "size": 2, "ranks": [there], "missing_ranks": [gone]}
    answer = {"nccl_version": "2.29.1", "timestamp": "2026-03-01 10:00:00", "communicators": [communicator]}
    return [json.dumps(answer).encode()]


def job_log() -> bytes:
    """The output of a training: steps of Megatron-LM, timers, a progress bar, NCCL, a table and a time-out."""
    steps = "".join(
        f" iteration {step}/ 100 | elapsed time per iteration (ms): {95.25 + step % 3} | loss scale: 1.0 |\n"
        "time (ms) | forward-compute: 30.5 | backward-compute: 60.25\n"
        for step in range(1, 31)
    )
    nccl = "".join(
        f"node:{rank}:9 [0] NCCL INFO {text}\n"
        for rank in (1, 2)
        for text in (
            "Using network Socket",
            "2 coll channels, 2 p2p channels",
            "Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0",
            f"comm 0xa{rank} rank {rank - 1} nranks 2 cudaDev 0 busId 17000 commId 0x5 - Init COMPLETE",
        )
    )
    table = "# out-of-place in-place\n 8388608 2097152 float sum -1 83.3 100.6 100.6 0 80.9 103.5 103.5 0\n"
    bar = "\r".join(f"{at}%| | {at}/9 [00:{at:02d}<00:00, 1.0s/it]" for at in range(9))
    hung = "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, OpType=SEND, Timeout(ms)=600000)"
    verl = "step:1 - x/y:1 - timing_s/gen:1.5 - timing_s/step:3.0\n" * 2
    summary = (
        "Comm. Op  Message Size  Count  Total Latency(ms)\nall_reduce\n  8.0 MB  2  6.5  3.2  1.0  1.0\n"
        'train/step,perf/step_time (ms)\n1,2.5\n2,2.5\n{"_step": 1, "_timestamp": 1.7e9}\n'
    )
    tables = f"{table}# Avg bus bandwidth : 102.0\n{summary}{verl}"
    return f"[rank0]: start\n{nccl}{steps}{bar}\n{tables}{hung}\n".encode()


def environment() -> bytes:
    """An env.json."""
    return json.dumps(
        {"schema": "hermes-dx/env/1", "variables": {"OMP_NUM_THREADS": "1", "NCCL_DEBUG": "INFO"}}
    ).encode()


def step_file() -> bytes:
    """A step file of the monitor with twenty records."""
    about = Description(0, 2, None, "node0", 7, START_NS, 16, Workload())
    head = json.dumps({"schema": SCHEMA, **asdict(about), "fields": FIELDS}).encode()
    usual = {"wall_us": 95_000, "own_us": 90_000, "thread_cpu_us": 80_000, "samples": 32, "fetches": 1}
    rows = []
    for number in range(20):
        row = {name: 0 for name, _ in FIELDS} | usual
        row |= {"sequence": number, "step": number, "end_unix_ns": START_NS + 95_000_000 * (number + 1)}
        rows.append(RECORD.pack(*row.values()))
    return PREAMBLE.pack(STEPS_MAGIC, len(head)) + head + b"".join(rows)


def event_lines() -> bytes:
    """An event file of the monitor with every kind of event."""
    sample = {"event": "system", "unix_ns": START_NS, "step": 3} | dict.fromkeys(SAMPLE_FIELDS, 5)
    lines = [
        {"event": "gc", "step": 2, "end_unix_ns": START_NS, "generation": 2, "pause_us": 1500, "collected": 3},
        sample,
        sample | {"unix_ns": START_NS + 10**9},
        {"event": "capture", "request": 1, "first_step": 5, "last_step": 7, "path": "r0.json", "bytes": 9},
        {"event": "capture_refused", "request": 2, "step": 9, "reason": "busy"},
        {"event": "environment", "unix_ns": START_NS, "python": "3.11.7", "torch": "2.8.0", "variables": {"A": "1"}},
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def anomaly_lines() -> bytes:
    """Anomalies of a node agent."""
    figures = {"usual_ms": 90.5, "seen_ms": 200, "excess_pct": 120.0}
    line = {
        "rank": 0,
        "unix_ns": START_NS,
        "kind": "slow",
        "step": 4,
        **figures,
        "foreign": [{"name": "x", "cpu_pct": 3}],
    }
    return json.dumps(line).encode() + b"\n"


def fault_label() -> bytes:
    """The label of a recorded fault."""
    label = {"verdict": "problem", "cause": "slow_data_processing", "mechanism": "heavy_transform", "ranks": [0]}
    return json.dumps({**label, "sources": ["trace"], "split": "dev", "also_right": [{"cause": "straggler"}]}).encode()


def others_labels() -> bytes:
    """A table of labels of runs that others recorded."""
    first = b"run_a: &base\n  verdict: problem\n  top1: [slow_link]\n  not_causes: [straggler]\n"
    return first + b"run_b:\n  verdict: healthy\n"


def case_files() -> list[bytes]:
    """Some cases of the library, under one name."""
    paths = sorted((ROOT / "case_library" / "cases").glob("*.yaml"))[::40]
    return [re.sub(rb"\Aid: .*", b"id: case", path.read_bytes()) for path in paths]


def planner_inputs() -> list[bytes]:
    """The inputs of the examples in the docs."""
    return [text.encode() for text in EXAMPLE.findall(PLANNERS_PAGE.read_text("utf-8"))]


SETTINGS = b'[llm]\nmodel = "m"\nmax_calls = 3\n[thresholds]\nconfidence = 0.5\n'
