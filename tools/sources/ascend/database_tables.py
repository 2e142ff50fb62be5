"""The tables of Ascend's databases: ``analysis.db`` of a rank, ``cluster_analysis.db``, kernels of a timeline's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tools.run.recorded.ascend import AscendTables, table_of
from tools.sources.ascend.communication import number
from tools.sources.ascend.csv_tables import STEP_COLUMNS, busiest, step_rows, unit_columns
from tools.sources.ascend.numbers import whole_numbers
from tools.sources.ascend.recognise import BANDWIDTH, MATRIX, STEPS, TIMES
from tools.sources.sqlite_file import Database, open_database

KERNELS, TASKS, UNITS = "COMPUTE_TASK_INFO", "TASK", "TASK_PMU_INFO"
STEP_TABLE = {
    **{"computing": "Computing", "communication_not_overlapped": "Communication(Not Overlapped)"},
    **{"overlapped": "Overlapped", "communication": "Communication", "free": "Free", "stage": "Stage"},
    **{"bubble": "Bubble", "preparing": "Preparing", "step": "Step", "type": "Type", "index": "Index"},
    "communication_not_overlapped_and_exclude_receive": "Communication(Not Overlapped and Exclude Receive)",
}
assert set(STEP_COLUMNS.values()) <= set(STEP_TABLE.values())


def read_tables(path: Path, rank: int) -> AscendTables:
    """Steps, collectives and links; raises InputError where they cannot be read."""
    with open_database(path) as database:
        transfers, packets = _transfers(database, rank)
        return AscendTables(
            steps=_steps(database, rank),
            collectives=_collectives(database, rank),
            transfers=transfers,
            packets=packets,
            links=_links(database, rank),
        )


def read_kernels(path: Path, rank: int) -> AscendTables:
    """The kernels that a timeline's database describes, with the units' busy time where that was measured."""
    with open_database(path) as database:
        return AscendTables(kernels=_kernels(database, rank))


def _steps(database: Database, rank: int) -> pd.DataFrame:
    name = next((each for each in STEPS if each in database.columns), STEPS[0])
    own = database.table(name, *STEP_TABLE)
    frame = pd.DataFrame({STEP_TABLE[column]: pd.Series(values).astype(str) for column, values in own.items()})
    if not database.has(name, "index"):
        frame = frame.drop(columns=["Type", "Index"])
    return step_rows(frame, rank).steps


def _of_collective(own: dict[str, list[object]], rank: int) -> dict[str, Any]:
    steps = [str(each) for each in own["step"]]
    digits = ["".join(letter for letter in each if letter.isdecimal()) for each in steps]
    return {
        **{"rank": [rank] * len(steps), "step": whole_numbers(digits)},
        **{"kind": _texts(own["type"]), "name": _texts(own["hccl_op_name"]), "group": _texts(own["group_name"])},
    }


COMMON = ("hccl_op_name", "group_name", "step", "type")
AMOUNTS = {"size_mb": "transit_size", "transit_ms": "transit_time", "gb_per_s": "bandwidth"}


def _collectives(database: Database, rank: int) -> pd.DataFrame:
    times = {
        **{"elapse_ms": "elapse_time", "transit_ms": "transit_time", "wait_ms": "wait_time"},
        **{"synchronization_ms": "synchronization_time", "idle_ms": "idle_time"},
    }
    own = database.table(TIMES, *COMMON, *times.values())
    numbers = {name: _numbers(own[column]) for name, column in times.items()}
    return _without_totals(table_of("collectives", _of_collective(own, rank) | numbers))


def _transfers(database: Database, rank: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Transfers and packets; the database has a row for each size of packet, and repeats the transfer's figures."""
    sizes = ("transport_type", *AMOUNTS.values(), "package_size", "count", "total_duration")
    own = database.table(BANDWIDTH, *COMMON, *sizes)
    common = _of_collective(own, rank) | {"transport": _texts(own["transport_type"])}
    whole = _without_totals(table_of("transfers", common | {name: _numbers(own[key]) for name, key in AMOUNTS.items()}))
    keys = ["step", "kind", "name", "group", "transport"]
    packets = {"packet_mb": "package_size", "count": "count", "duration_ms": "total_duration"}
    each = _without_totals(table_of("packets", common | {name: _numbers(own[key]) for name, key in packets.items()}))
    moved = whole[whole["size_mb"] > 0].drop_duplicates(keys).reset_index(drop=True)
    return moved, each[each["packet_mb"] > 0].reset_index(drop=True)


def _links(database: Database, rank: int) -> pd.DataFrame:
    own = database.table(MATRIX, *COMMON, "src_rank", "dst_rank", "transport_type", *AMOUNTS.values())
    ends = {"source": whole_numbers(own["src_rank"]), "target": whole_numbers(own["dst_rank"])}
    data = _of_collective(own, rank) | ends | {"transport": _texts(own["transport_type"])}
    return _without_totals(table_of("links", data | {name: _numbers(own[key]) for name, key in AMOUNTS.items()}))


def _without_totals(table: pd.DataFrame) -> pd.DataFrame:
    return table[(table["name"] != "Total Op Info").to_numpy()].reset_index(drop=True)


def _kernels(database: Database, rank: int) -> pd.DataFrame:
    columns = {
        **{"name": "name", "op_type": "opType", "core": "taskType", "input_shapes": "inputShapes"},
        **{"input_formats": "inputFormats", "output_formats": "outputFormats"},
    }
    own = database.table(KERNELS, "globalTaskId", "blockDim", "waitNs", *columns.values())
    if not own["globalTaskId"]:
        return AscendTables().kernels
    texts = database.table("STRING_IDS", "id", "value")
    named = dict(zip(whole_numbers(texts["id"]).tolist(), map(str, texts["value"]), strict=True))
    task = whole_numbers(own["globalTaskId"])
    data: dict[str, Any] = {"rank": np.full(len(task), rank), "step": np.full(len(task), -1)}
    for name, column in columns.items():
        data[name] = [named.get(key, "") for key in whole_numbers(own[column]).tolist()]
    data |= {"block_dim": _numbers(own["blockDim"]), "wait_us": np.array(_numbers(own["waitNs"])) / 1e3}
    tasks = database.table(TASKS, "globalTaskId", "startNs", "endNs")
    lengths = (whole_numbers(tasks["endNs"]) - whole_numbers(tasks["startNs"])) / 1e3
    lasted = pd.Series(lengths, index=whole_numbers(tasks["globalTaskId"])).groupby(level=0).sum()
    data["duration_us"] = lasted.reindex(task).to_numpy(dtype=np.float64)
    data |= _units(database, task, named)
    table = table_of("kernels", data)
    return table[(table["duration_us"] >= 0).to_numpy()].reset_index(drop=True)


def _units(database: Database, task: Any, named: dict[int, str]) -> dict[str, Any]:  # noqa: ANN401 - an array
    own = database.table(UNITS, "globalTaskId", "name", "value")
    if not own["value"]:
        return {}
    measured = pd.DataFrame(
        {
            **{"task": whole_numbers(own["globalTaskId"]), "value": _numbers(own["value"])},
            "name": [named.get(key, "") for key in whole_numbers(own["name"]).tolist()],
        }
    )
    wide = measured.drop_duplicates(["task", "name"]).pivot(index="task", columns="name", values="value").reindex(task)
    columns = {str(name): wide[name].to_numpy(dtype=np.float64) for name in wide.columns}
    return unit_columns(columns, len(task)) | {
        "cube_utilization_pct": busiest(columns, ("cube_utilization(%)", "cube_utilization"), len(task))
    }


def _numbers(values: list[object]) -> list[float]:
    return [number(each) for each in values]


def _texts(values: list[object]) -> list[str]:
    return [str(each or "") for each in values]
