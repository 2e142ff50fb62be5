"""The tables that Ascend's profilers write next to a timeline, of all ranks; times in ms, sizes in MB of 10^6 bytes."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

import pandas as pd

from tools.run.events import empty_table

_INT, _FLOAT, _TEXT = "int64", "float64", "str"
_OF_RANK = {"rank": _INT, "step": _INT}
_OF_COLLECTIVE = {**_OF_RANK, "kind": _TEXT, "name": _TEXT, "group": _TEXT}

COLUMNS: dict[str, dict[str, str]] = {
    "steps": {
        **_OF_RANK,
        **dict.fromkeys(
            (
                *("computing_ms", "exposed_communication_ms", "overlapped_ms", "communication_ms", "free_ms"),
                *("stage_ms", "bubble_ms", "exposed_without_receive_ms", "preparing_ms"),
            ),
            _FLOAT,
        ),
    },
    "kernels": {
        **_OF_RANK,
        **dict.fromkeys(("name", "op_type", "core", "input_shapes", "input_formats", "output_formats"), _TEXT),
        **dict.fromkeys(("duration_us", "wait_us", "block_dim", "mac_ratio", "vec_ratio", "mte1_ratio"), _FLOAT),
        **dict.fromkeys(("mte2_ratio", "mte3_ratio", "fixpipe_ratio", "scalar_ratio", "cube_utilization_pct"), _FLOAT),
        "flops": _FLOAT,
    },
    "collectives": {
        **_OF_COLLECTIVE,
        **dict.fromkeys(("elapse_ms", "transit_ms", "wait_ms", "synchronization_ms", "idle_ms"), _FLOAT),
    },
    "transfers": {
        **_OF_COLLECTIVE,
        "transport": _TEXT,
        **dict.fromkeys(("size_mb", "transit_ms", "gb_per_s"), _FLOAT),
    },
    "packets": {
        **_OF_COLLECTIVE,
        "transport": _TEXT,
        **dict.fromkeys(("packet_mb", "count", "duration_ms"), _FLOAT),
    },
    "links": {
        **_OF_COLLECTIVE,
        "source": _INT,
        "target": _INT,
        "transport": _TEXT,
        **dict.fromkeys(("size_mb", "transit_ms", "gb_per_s"), _FLOAT),
    },
    "calls": {"rank": _INT, "level": _TEXT, "name": _TEXT, "count": _FLOAT, "total_ms": _FLOAT, "longest_ms": _FLOAT},
    "operator_types": {
        **{"rank": _INT, "op_type": _TEXT, "core": _TEXT},
        **{"count": _FLOAT, "total_ms": _FLOAT},
    },
    "operators": {
        **{"rank": _INT, "name": _TEXT, "count": _FLOAT},
        **{"host_ms": _FLOAT, "device_ms": _FLOAT},
    },
    "memory": {
        **{"rank": _INT, "component": _TEXT},
        **{"allocated_mb": _FLOAT, "reserved_mb": _FLOAT},
    },
    "allocations": {"rank": _INT, "name": _TEXT, "count": _FLOAT, "size_mb": _FLOAT},
    "modules": {"rank": _INT, "component": _TEXT, "reserved_mb": _FLOAT},
    "caches": {"rank": _INT, "name": _TEXT, "hit_rate": _FLOAT, "victim_rate": _FLOAT},
    "host_operators": {
        **{"rank": _INT, "name": _TEXT, "count": _FLOAT},
        **{"compute_ms": _FLOAT, "total_ms": _FLOAT},
    },
}


def table_of(name: str, data: dict[str, Any]) -> pd.DataFrame:
    """A table of the record from columns, of which some may be missing: numbers as NaN, texts empty."""
    if not data or not len(next(iter(data.values()))):
        return empty_table(COLUMNS[name])
    count = len(next(iter(data.values())))
    found: dict[str, Any] = {}
    for column, dtype in COLUMNS[name].items():
        absent = {_INT: -1, _FLOAT: float("nan"), _TEXT: ""}[dtype]
        found[column] = pd.Series(data[column] if column in data else [absent] * count, dtype=dtype)
    return pd.DataFrame(found)


def _empty(name: str) -> pd.DataFrame:
    return empty_table(COLUMNS[name])


@dataclass(frozen=True)
class AscendTables:
    """What the tables hold; one without rows was not recorded. Columns as ``COLUMNS``.

    steps: the profiler's own account of a step: computing + exposed communication + free = stage (and bubble)
    kernels: one row for each kernel; ratios of the units' busy time (``PipeUtilization``; those of the matrix and the
    vector unit also with ``ArithmeticUtilization``, as are flops), NaN where not measured
    collectives: elapsed = transit + waiting + idle, transfers, packets and links: by transport (HCCS, RDMA, PCIE, SDMA)
    calls: of the host by level (acl, node, hccl); operator_types: kernels by type; operators: of the framework
    memory: samples of the allocator; allocations: by operator; modules: peaks by component of the driver
    caches: of kernels; host_operators: work of the AI CPU
    """

    steps: pd.DataFrame = field(default_factory=partial(_empty, "steps"))
    kernels: pd.DataFrame = field(default_factory=partial(_empty, "kernels"))
    collectives: pd.DataFrame = field(default_factory=partial(_empty, "collectives"))
    transfers: pd.DataFrame = field(default_factory=partial(_empty, "transfers"))
    packets: pd.DataFrame = field(default_factory=partial(_empty, "packets"))
    links: pd.DataFrame = field(default_factory=partial(_empty, "links"))
    calls: pd.DataFrame = field(default_factory=partial(_empty, "calls"))
    operator_types: pd.DataFrame = field(default_factory=partial(_empty, "operator_types"))
    operators: pd.DataFrame = field(default_factory=partial(_empty, "operators"))
    memory: pd.DataFrame = field(default_factory=partial(_empty, "memory"))
    allocations: pd.DataFrame = field(default_factory=partial(_empty, "allocations"))
    modules: pd.DataFrame = field(default_factory=partial(_empty, "modules"))
    caches: pd.DataFrame = field(default_factory=partial(_empty, "caches"))
    host_operators: pd.DataFrame = field(default_factory=partial(_empty, "host_operators"))
    stages: tuple[tuple[int, ...], ...] = ()  # ranks by pipeline stage, where the folders state the layout
    world_size: int | None = None

    @property
    def ranks(self) -> tuple[int, ...]:
        """Every rank that some table is of."""
        own = (table["rank"] for table in (getattr(self, each) for each in COLUMNS) if len(table))
        return tuple(sorted({int(rank) for ranks in own for rank in ranks.unique()}))

    def lacks(self, name: str) -> bool:
        """Whether no rank has rows of a table."""
        return bool(getattr(self, name).empty)


def joined(parts: list[AscendTables]) -> AscendTables:
    """The tables of several ranks as one record."""
    frames: dict[str, Any] = {}
    for each in fields(AscendTables):
        if each.name in COLUMNS:
            own = [table for table in (getattr(part, each.name) for part in parts) if len(table)]
            frames[each.name] = pd.concat(own, ignore_index=True) if own else empty_table(COLUMNS[each.name])
    sizes = {part.world_size for part in parts if part.world_size is not None}
    stages = next((part.stages for part in parts if part.stages), ())
    return AscendTables(**frames, stages=stages, world_size=sizes.pop() if len(sizes) == 1 else None)
