"""The kinds of events and the columns of their side tables, apart from pandas so that reading processes start fast."""

from __future__ import annotations

from enum import IntEnum


class EventKind(IntEnum):
    """What an event is; the reader decides it once from category and name."""

    OTHER = 0
    OPERATOR = 1  # cpu_op: a framework operator on a host thread
    ANNOTATION = 2  # user_annotation: step marks, loader spans, optimizer, collectives' host spans
    RUNTIME = 3  # a CUDA, HIP or driver call on a host thread
    PYTHON = 4  # a Python function frame
    KERNEL = 5
    MEMCPY = 6
    MEMSET = 7
    SYNC = 8  # cuda_sync: what a synchronising call waited for
    DEVICE_ANNOTATION = 9  # gpu_user_annotation
    INSTANT = 10  # a mark without duration; memory instants have a row in ``Details.memory``


MONITOR_FORMAT = "hermes-dx monitor"  # formats of sources that are no traces
STEP_LOG_FORMAT = "step log"

DEVICE_WORK = (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET)
HOST_WORK = (EventKind.OPERATOR, EventKind.ANNOTATION, EventKind.RUNTIME, EventKind.PYTHON)

DETAIL_COLUMNS: dict[str, dict[str, str]] = {
    "kernels": {
        "row": "int64",
        "blocks": "int64",
        "threads": "int64",
        "registers": "float64",
        "shared_bytes": "float64",
        "warps_per_sm": "float64",
        "occupancy_pct": "float64",
    },
    "copies": {"row": "int64", "bytes": "int64"},
    "operators": {
        "row": "int64",
        "dims": "category",
        "types": "category",
        "sequence": "int64",
        "forward_thread": "int64",
        "stack": "category",
    },
    "collectives": {
        "row": "int64",
        "collective": "category",
        "group": "category",
        "group_size": "int64",
        "ranks": "category",
        "dtype": "category",
        "in_elements": "int64",
        "out_elements": "int64",
    },
    "memory": {
        "row": "int64",
        "bytes": "int64",
        "total_allocated": "int64",
        "total_reserved": "int64",
        "device_type": "int8",
        "device": "int64",
    },
    "syncs": {
        "row": "int64",
        "sync_kind": "category",
        "stream": "int64",
        "wait_on_stream": "int64",
        "wait_on_record_correlation": "int64",
        "event": "int64",
    },
    "forward_backward": {"forward_row": "int64", "backward_row": "int64"},
    "python": {"row": "int64", "python_id": "int64", "parent_id": "int64"},
}
