"""Ascend profiler folders with known figures: text, and the same run as a database.

One step of 1,000 us on rank 0: kernels 100 to 300 (AI_VECTOR_CORE) and 300 to 400 us, a copy 50 to 100, an all-reduce
350 to 800 that waits on a stream 350 to 790; the queue's launches 10 us before each kernel.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ORIGIN_US = 1_700_000_000_000_000
CANN, PYTHON, HARDWARE, HCCL = 20, 10, 30, 40
KERNELS = (("Conv2D1", 100, 300), ("trans_TransData_0", 300, 400))
COMPUTE_US, EXPOSED_US, STEP_US = 300.0, 400.0, 1000.0


def event(
    pid: int, tid: int, name: str, start_us: float, end_us: float, cat: str = "", **args: object
) -> dict[str, Any]:
    ts = f"{ORIGIN_US + start_us:.3f}"
    found = {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": end_us - start_us, "args": args}
    return found | ({"cat": cat} if cat else {})


def trace_view(clocks: Sequence[tuple[float, float]] = ()) -> list[dict[str, Any]]:
    """The events of trace_view.json: a bare list, times as texts, categories on the host alone.

    ``clocks``: readings of the cores' clock, time in us and MHz.
    """
    layers = (
        (PYTHON, "Python"),
        (CANN, "CANN"),
        (HARDWARE, "Ascend Hardware"),
        (HCCL, "HCCL"),
        (50, "Overlap Analysis"),
    )
    lanes = (
        (HARDWARE, 2, "Stream 2"),
        (HARDWARE, 4, "Stream 4"),
        (HCCL, 0, "Group 0 Communication"),
        (HCCL, 1, "Plane 0"),
    )
    events = [
        event(PYTHON, 1, "ProfilerStep#7", 0, STEP_US, "cpu_op"),
        event(
            PYTHON, 1, "aten::conv2d", 80, 95, "cpu_op", **{"Input Dims": "2,3;\r\n", "Input type": "float;\r\nNone"}
        ),
        event(PYTHON, 1, "Enqueue", 81, 82, "enqueue", correlation_id=1),
        *(event(HARDWARE, 2, name, start, end, connection_id=at) for at, (name, start, end) in enumerate(KERNELS)),
        *(event(CANN, 2, "Node@launch", s - 10, s - 5, connection_id=at) for at, (_, s, _) in enumerate(KERNELS)),
        event(HARDWARE, 2, "MEMCPY_ASYNC", 50, 100, connection_id=9),
        event(HARDWARE, 4, "EVENT_WAIT", 0, 790),
        event(HARDWARE, 4, "Notify Wait", 350, 790),
        event(HCCL, 0, "hcom_allReduce__586_0_1", 350, 800, count=1000, data_type="FP32", alg_type="MESH-RING"),
        event(HCCL, 1, "Notify_Wait", 350, 790),
        event(50, 0, "Computing", 100, 400),
    ]
    events += [
        {"ph": "C", "pid": 60, "tid": 0, "name": "AI Core Freq", "ts": f"{ORIGIN_US + at:.3f}", "args": {"MHz": mhz}}
        for at, mhz in clocks
    ]
    named = [{"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}} for pid, name in layers]
    labelled = [{"ph": "M", "name": "thread_name", "pid": p, "tid": t, "args": {"name": n}} for p, t, n in lanes]
    return events + named + labelled


INFO = {
    "config": {
        "common_config": {"record_shapes": True, "with_stack": False},
        "experimental_config": {"_profiler_level": "Level1", "_aic_metrics": "ACL_AICORE_PIPE_UTILIZATION"},
    },
    "cann_version": "8.3.RC1",
}


def write_folder(run: Path, rank: int, stages: tuple[tuple[int, ...], ...] = ()) -> Path:
    """The folder of a rank with what describes it; returns the place of its output."""
    folder = run / f"host_{rank}_ascend_pt"
    output = folder / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True)
    (folder / f"profiler_info_{rank}.json").write_text(json.dumps(INFO | {"rank_id": rank}))
    about: dict[str, Any] = {"ENV_VARIABLES": {"ASCEND_LAUNCH_BLOCKING": "1", "HCCL_ALGO": ""}}
    if stages:
        ranks = [stage[0] for stage in stages]
        about["distributed_args"] = {"rank": rank, "world_size": sum(map(len, stages))}
        about["parallel_group_info"] = {"g": {"group_name": "pp", "group_rank": 0, "global_ranks": ranks}}
        about["parallel_group_info"] |= {
            f"g{at}": {"group_name": "pp", "group_rank": 0, "global_ranks": list(pair)}
            for at, pair in enumerate(zip(*stages, strict=True))
        }
    (folder / "profiler_metadata.json").write_text(json.dumps(about))
    return output


def write_trace_view(output: Path, clocks: Sequence[tuple[float, float]] = ()) -> Path:
    path = output / "trace_view.json"
    path.write_text(json.dumps(trace_view(clocks)))
    return path


STEP_HEAD = (
    "Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free,Stage,Bubble,"
    "Communication(Not Overlapped and Exclude Receive),Preparing\n"
)


def step_csv(
    computing_us: float, exposed_us: float, free_us: float, step: str = "7", overlapped_us: float = 50.0
) -> str:
    stage_us = computing_us + exposed_us + free_us
    numbers = (computing_us, exposed_us, overlapped_us, exposed_us + overlapped_us, free_us, stage_us, 0, exposed_us, 1)
    return STEP_HEAD + ",".join([step, *map(str, numbers)]) + "\n"


KERNEL_HEAD = (
    "Step Id,Name,Type,Accelerator Core,Start Time(us),Duration(us),Wait Time(us),Block Dim,Input Shapes,"
    "Input Data Types,Input Formats,Output Formats,aic_mac_ratio,aic_mte2_ratio,aiv_vec_ratio,aiv_mte2_ratio\n"
)


def kernel_line(name: str, kind: str, core: str, duration_us: float, *ratios: float, blocks: int = 20) -> str:
    four = (*ratios, 0.0, 0.0, 0.0, 0.0)[:4]
    cells = ("7", name, kind, core, "100.0\t", duration_us, 1.0, blocks, '"""2,3"""', "FLOAT", "NCHW", "ND", *four)
    return ",".join(map(str, cells)) + "\n"


def transport(packets: dict[str, tuple[int, float]], size_mb: float, transit_ms: float) -> dict[str, Any]:
    """The bandwidth of one transport as communication.json writes it."""
    distribution = {size: list(counted) for size, counted in packets.items()}
    speed = size_mb / transit_ms if transit_ms else 0
    return {
        **{"Transit Size(MB)": size_mb, "Transit Time(ms)": transit_ms, "Bandwidth(GB/s)": speed},
        **{"Large Packet Ratio": 0.0, "Size Distribution": distribution},
    }


def collective(elapse_ms: float, transit_ms: float, wait_ms: float, **transports: dict[str, Any]) -> dict[str, Any]:
    """One collective as communication.json writes it."""
    times = {
        **{"Start Timestamp(us)": ORIGIN_US, "Elapse Time(ms)": elapse_ms, "Transit Time(ms)": transit_ms},
        **{"Wait Time(ms)": wait_ms, "Synchronization Time(ms)": wait_ms},
        "Idle Time(ms)": elapse_ms - transit_ms - wait_ms,
    }
    return {"Communication Time Info": times, "Communication Bandwidth Info": transports}


def communication(**collectives: dict[str, Any]) -> dict[str, Any]:
    """communication.json of step 7, with the sum that readers leave out."""
    named = {f"{name}@1752": said for name, said in collectives.items()}
    return {"step7": {"p2p": {}, "collective": named | {"Total Op Info": collective(99.0, 99.0, 0.0)}}}


TABLES = {
    "STRING_IDS": "id INTEGER PRIMARY KEY, value TEXT",
    "RANK_DEVICE_MAP": "rankId INTEGER, deviceId INTEGER",
    "NPU_INFO": "id INTEGER, name TEXT",
    "TASK": "startNs, endNs, deviceId, connectionId, globalTaskId, globalPid, taskType, streamId",
    "COMPUTE_TASK_INFO": "name, globalTaskId, blockDim",
    "COMMUNICATION_TASK_INFO": "globalTaskId",
    "COMMUNICATION_OP": "opName, startNs, endNs, connectionId, groupName, dataType, count",
    "ENUM_HCCL_DATA_TYPE": "id, name",
    "ENUM_API_TYPE": "id, name",
    "CANN_API": "startNs, endNs, type, globalTid, connectionId, name",
    "AICORE_FREQ": "deviceId INTEGER, timestampNs NUMERIC, freq INTEGER",
    "PYTORCH_API": "startNs TEXT, endNs TEXT, globalTid, name, inputDtypes, inputShapes, callchainId, type",
}


def write_database(output: Path, rank: int, clocks: Sequence[tuple[float, float]] = ()) -> Path:
    """The run of ``trace_view`` as ascend_pytorch_profiler_<rank>.db."""
    code: dict[str, int] = {}

    def text(value: str) -> int:
        return code.setdefault(value, len(code))

    none, kernels, dims, types = 2**32 - 1, list(enumerate(KERNELS)), text("2,3;\r\n"), text("float;\r\nNone")
    rows: dict[str, list[tuple[object, ...]]] = {
        "RANK_DEVICE_MAP": [(rank, 0)],
        "NPU_INFO": [(0, "Ascend910B")],
        "TASK": [
            *((*ns(start, end), 0, at, at, 5, text("AI_VECTOR_CORE"), 2) for at, (_, start, end) in kernels),
            (*ns(50, 100), 0, 9, 9, 5, text("MEMCPY_ASYNC"), 2),
            (*ns(0, 790), 0, none, 10, 5, text("EVENT_WAIT"), 4),
            (*ns(350, 790), 0, none, 11, 5, text("Notify Wait"), 4),
        ],
        "COMPUTE_TASK_INFO": [(text(name), at, 20) for at, (name, _, _) in kernels],
        "COMMUNICATION_TASK_INFO": [(11,)],
        "COMMUNICATION_OP": [(text("hcom_allReduce__586_0_1"), *ns(350, 800), 12, text("1752"), 4, 1000)],
        "ENUM_HCCL_DATA_TYPE": [(4, "FP32")],
        "ENUM_API_TYPE": [(10000, "node"), (50001, "op")],
        "CANN_API": [(*ns(s - 10, s - 5), 10000, thread(2), at, text("launch")) for at, (_, s, _) in kernels],
        "PYTORCH_API": [
            (*map(str, ns(0, STEP_US)), thread(1), text("ProfilerStep#7"), None, None, None, 50001),
            (*map(str, ns(80, 95)), thread(1), text("aten::conv2d"), types, dims, None, 50001),
        ],
    }
    rows["AICORE_FREQ"] = [(0, ns(at, at)[0], mhz) for at, mhz in clocks]
    rows["STRING_IDS"] = [(at, value) for value, at in code.items()]
    return write_tables(output / f"ascend_pytorch_profiler_{rank}.db", TABLES, rows)


def write_tables(path: Path, tables: dict[str, str], rows: dict[str, list[tuple[object, ...]]]) -> Path:
    """A database of these tables, columns and rows."""
    with sqlite3.connect(path) as db:
        for name, columns in tables.items():
            db.execute(f"CREATE TABLE {name} ({columns})")
            own = rows.get(name, [])
            if own:
                db.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(own[0]))})", own)
    db.close()
    return path


def ns(start_us: float, end_us: float) -> tuple[int, int]:
    return (ORIGIN_US * 1000 + round(start_us * 1000), ORIGIN_US * 1000 + round(end_us * 1000))


def thread(number: int) -> int:
    return (5 << 32) + number
