"""The CSV files of an Ascend profiler folder, each known by the columns of its first line."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.errors import InputError
from tools.run.recorded.ascend import AscendTables, table_of
from tools.sources.ascend.recognise import HEAD_BYTES, csv_kind, separator, text_of
from tools.sources.decompress import beginning

MOST_BYTES = 512 << 20
DECIMAL_COMMA = re.compile(r"\A(\s*-?\d+),(\d+\s*)\Z")  # where no comma separates the columns
Texts = NDArray[Any]


def read_csv_table(path: Path, rank: int) -> tuple[AscendTables, str]:
    """The rows of a file and a remark on what was left out of it; raises ``InputError`` where it cannot be used."""
    try:
        content = beginning(path, MOST_BYTES)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    data = bytes(content.data)
    kind = csv_kind(data[:HEAD_BYTES])
    if kind is None:
        raise InputError(f"{path}: is no table of an Ascend profiler: its first line names other columns")
    text = text_of(data)
    whole = text if text.endswith("\n") else text[: text.rfind("\n") + 1]
    remark = "its last line is not whole and was left out" if len(whole) < len(text) else content.damage
    remark = f"only its first {MOST_BYTES >> 20} MB are read" if content.more else remark
    frame = _frame(path, whole)
    tables = READERS[kind](frame, rank)
    if len(frame) and not tables.ranks:
        remark = f"none of its {len(frame)} rows could be used: no time in them is a number"
    return tables, remark


def _frame(path: Path, text: str) -> pd.DataFrame:
    """All cells as texts; lines of another length are left out, and decimal commas become points."""
    mark = separator(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pd.errors.ParserWarning)
            frame = pd.read_csv(
                io.StringIO(text), sep=mark, dtype=str, keep_default_na=False, on_bad_lines="skip", index_col=False
            )
    except (pd.errors.ParserError, pd.errors.EmptyDataError, csv.Error) as error:
        raise InputError(f"{path}: is no sound CSV file ({error}); copy or export it again") from error
    frame.columns = pd.Index([str(column).strip() for column in frame.columns])
    if mark == ",":
        return frame
    pointed: pd.DataFrame = frame.apply(lambda own: own.str.replace(DECIMAL_COMMA, r"\1.\2", regex=True))
    return pointed


def numbers(frame: pd.DataFrame, column: str, factor: float = 1.0) -> NDArray[np.float64]:
    """A column as numbers; NaN where it is missing, not there ("N/A") or no finite number."""
    if column not in frame:
        return np.full(len(frame), np.nan)
    values = pd.to_numeric(frame[column].str.strip(), errors="coerce").to_numpy(dtype=np.float64)
    return np.where(np.isfinite(values), values * factor, np.nan)


def _texts(frame: pd.DataFrame, column: str) -> Texts:
    own = frame[column].str.strip() if column in frame else pd.Series([""] * len(frame), dtype=str)
    return own.to_numpy(dtype=object)


def _whole(values: NDArray[np.float64]) -> NDArray[np.int64]:
    sound = np.isfinite(values) & (values >= 0) & (values < 2**53)
    return np.where(sound, np.where(sound, values, 0), -1).astype(np.int64)


def _ranks(frame: pd.DataFrame, rank: int) -> NDArray[np.int64]:
    return np.full(len(frame), rank, dtype=np.int64)


STEP_COLUMNS = {  # all in us
    "computing_ms": "Computing",
    "exposed_communication_ms": "Communication(Not Overlapped)",
    "overlapped_ms": "Overlapped",
    "communication_ms": "Communication",
    "free_ms": "Free",
    "stage_ms": "Stage",
    "bubble_ms": "Bubble",
    "exposed_without_receive_ms": "Communication(Not Overlapped and Exclude Receive)",
    "preparing_ms": "Preparing",
}


def step_rows(frame: pd.DataFrame, rank: int) -> AscendTables:
    """The profiler's account of each step; of a cluster's table the rows of single ranks."""
    of = _ranks(frame, rank)
    if "Type" in frame and "Index" in frame:
        frame = frame[(frame["Type"].str.strip() == "rank").to_numpy()].reset_index(drop=True)
        of = _whole(numbers(frame, "Index"))
    data: dict[str, Any] = {name: numbers(frame, column, 1e-3) for name, column in STEP_COLUMNS.items()}
    # Rows without a column of numbers are steps all the same.
    step: Any = _whole(numbers(frame, "Step")) if "Step" in frame else pd.Series(of).groupby(of).cumcount()
    table = table_of("steps", {"rank": of, "step": step, **data})
    sound = (table["rank"] >= 0) & (table["stage_ms"] > 0)
    return AscendTables(steps=table[sound.to_numpy()].reset_index(drop=True))


RATIOS = {
    "mac_ratio": ("aic_mac_ratio", "mac_ratio"),
    "vec_ratio": ("aiv_vec_ratio", "vec_ratio"),
    "mte1_ratio": ("aic_mte1_ratio", "mte1_ratio"),
    "fixpipe_ratio": ("aic_fixpipe_ratio", "fixpipe_ratio"),
}
# Of the matrix and the vector cores of one kernel the busier counts.
BUSIER = {
    "mte2_ratio": ("aic_mte2_ratio", "aiv_mte2_ratio", "mte2_ratio"),
    "mte3_ratio": ("aiv_mte3_ratio", "mte3_ratio"),
    "scalar_ratio": ("aic_scalar_ratio", "aiv_scalar_ratio", "scalar_ratio"),
}


# With ArithmeticUtilization: busy time by type, of which none is at the same time as another, and operations.
BY_TYPE = {
    "mac_ratio": re.compile(r"(?:aic_)?mac_(?:fp16|fp32|bf16|hf32|int8)_ratio"),
    "vec_ratio": re.compile(r"(?:aiv_)?vec_(?:fp32|fp16|int32|misc)_ratio"),
}
OPERATIONS = re.compile(r"(?:ai[cv]_)?(?:cube|vector)_fops")


def unit_columns(columns: Mapping[str, NDArray[np.float64]], count: int) -> dict[str, NDArray[np.float64]]:
    """The busy time of each unit and the operations of kernels from the profiler's counters, NaN where not measured."""
    found = {name: busiest(columns, names, count) for name, names in {**RATIOS, **BUSIER}.items()}
    for name, form in BY_TYPE.items():
        found[name] = np.where(np.isnan(found[name]), summed(columns, form, count), found[name])
    return found | {"flops": summed(columns, OPERATIONS, count)}


def summed(columns: Mapping[str, NDArray[np.float64]], form: re.Pattern[str], count: int) -> NDArray[np.float64]:
    """The sum of the columns of such names, NaN where none of them has a number."""
    own = [values for name, values in columns.items() if form.fullmatch(name)]
    if not own:
        return np.full(count, np.nan)
    known = np.isfinite(np.vstack(own)).any(axis=0)
    return np.where(known, np.nansum(np.vstack(own), axis=0), np.nan)


def busiest(columns: Mapping[str, NDArray[np.float64]], names: tuple[str, ...], count: int) -> NDArray[np.float64]:
    """The largest of the named columns that are there, NaN where none is."""
    own = [columns[name] for name in names if name in columns]
    return np.fmax.reduce(own) if own else np.full(count, np.nan)


def _kernels(frame: pd.DataFrame, rank: int) -> AscendTables:
    pmu = {column: numbers(frame, column) for column in frame.columns if column.endswith(("_ratio", "_fops"))}
    data: dict[str, Any] = {
        **{"rank": _ranks(frame, rank), "step": _whole(numbers(frame, "Step Id")), "name": _texts(frame, "Name")},
        **{"op_type": _texts(frame, "Type"), "core": _texts(frame, "Accelerator Core")},
        **{"input_shapes": _texts(frame, "Input Shapes"), "input_formats": _texts(frame, "Input Formats")},
        **{"output_formats": _texts(frame, "Output Formats"), "duration_us": numbers(frame, "Duration(us)")},
        **{"wait_us": numbers(frame, "Wait Time(us)"), "block_dim": numbers(frame, "Block Dim")},
        **unit_columns(pmu, len(frame)),
        "cube_utilization_pct": numbers(frame, "cube_utilization(%)"),
    }
    table = table_of("kernels", data)
    return AscendTables(kernels=table[(table["duration_us"] >= 0).to_numpy()].reset_index(drop=True))


def _types(frame: pd.DataFrame, rank: int) -> AscendTables:
    data = {
        **{"rank": _ranks(frame, rank), "op_type": _texts(frame, "OP Type"), "core": _texts(frame, "Core Type")},
        **{"count": numbers(frame, "Count"), "total_ms": numbers(frame, "Total Time(us)", 1e-3)},
    }
    return AscendTables(operator_types=table_of("operator_types", data))


def _calls(frame: pd.DataFrame, rank: int) -> AscendTables:
    data = {
        **{"rank": _ranks(frame, rank), "level": _texts(frame, "Level"), "name": _texts(frame, "API Name")},
        **{"count": numbers(frame, "Count"), "total_ms": numbers(frame, "Time(us)", 1e-3)},
        "longest_ms": numbers(frame, "Max(us)", 1e-3),
    }
    return AscendTables(calls=table_of("calls", data))


def _operators(frame: pd.DataFrame, rank: int) -> AscendTables:
    own = pd.DataFrame(
        {
            **{"name": _texts(frame, "Name"), "count": 1.0},
            "host_ms": numbers(frame, "Host Self Duration(us)", 1e-3),
            "device_ms": numbers(frame, "Device Self Duration(us)", 1e-3),
        }
    )
    return AscendTables(operators=_by_name("operators", own, rank))


def _allocations(frame: pd.DataFrame, rank: int) -> AscendTables:
    own = pd.DataFrame({"name": _texts(frame, "Name"), "count": 1.0, "size_mb": numbers(frame, "Size(KB)", 1024 / 1e6)})
    return AscendTables(allocations=_by_name("allocations", own, rank))


def _by_name(name: str, frame: pd.DataFrame, rank: int) -> pd.DataFrame:
    """Sums for each name: a step calls the same operators thousands of times."""
    summed = frame.groupby("name", sort=True).sum(min_count=1).reset_index()
    return table_of(name, {"rank": _ranks(summed, rank), **{column: summed[column] for column in summed.columns}})


MIB_IN_MB = (1 << 20) / 1e6  # the profiler's MB are 2^20 bytes here


def _memory(frame: pd.DataFrame, rank: int) -> AscendTables:
    data = {
        **{"rank": _ranks(frame, rank), "component": _texts(frame, "Component")},
        "allocated_mb": numbers(frame, "Total Allocated(MB)", MIB_IN_MB),
        "reserved_mb": numbers(frame, "Total Reserved(MB)", MIB_IN_MB),
    }
    return AscendTables(memory=table_of("memory", data))


def _modules(frame: pd.DataFrame, rank: int) -> AscendTables:
    own = pd.DataFrame(
        {"component": _texts(frame, "Component"), "reserved_mb": numbers(frame, "Total Reserved(MB)", MIB_IN_MB)}
    )
    most = own.groupby("component", sort=True)["reserved_mb"].max().reset_index()
    data = {"rank": _ranks(most, rank), "component": most["component"], "reserved_mb": most["reserved_mb"]}
    return AscendTables(modules=table_of("modules", data))


def _caches(frame: pd.DataFrame, rank: int) -> AscendTables:
    data = {
        **{"rank": _ranks(frame, rank), "name": _texts(frame, "Op Name")},
        **{"hit_rate": numbers(frame, "Hit Rate"), "victim_rate": numbers(frame, "Victim Rate")},
    }
    return AscendTables(caches=table_of("caches", data))


def _host_operators(frame: pd.DataFrame, rank: int) -> AscendTables:
    own = pd.DataFrame(
        {
            **{"name": _texts(frame, "Node"), "count": 1.0, "compute_ms": numbers(frame, "Compute_time(us)", 1e-3)},
            "total_ms": numbers(frame, "Total_time(us)" if "Total_time(us)" in frame else "Task_time(us)", 1e-3),
        }
    )
    return AscendTables(host_operators=_by_name("host_operators", own, rank))


READERS: dict[str, Callable[[pd.DataFrame, int], AscendTables]] = {
    "step_trace_time": step_rows,
    "kernel_details": _kernels,
    "op_statistic": _types,
    "api_statistic": _calls,
    "operator_details": _operators,
    "operator_memory": _allocations,
    "memory_record": _memory,
    "npu_module_mem": _modules,
    "l2_cache": _caches,
    "data_preprocess": _host_operators,
}
