"""The kinds of events and the columns of their side tables, apart from pandas so that reading processes start fast."""

from __future__ import annotations

from enum import IntEnum


class EventKind(IntEnum):
    """The kind of an event; the reader decides it once from category and name."""

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


CORE_CLOCK = "AI Core Freq"  # begins the names of instants that hold a clock: "AI Core Freq 1800 MHz"
OFF_CPU = "[off processor]"  # the name of an event of kind OTHER: a time in which its thread ran on no processor
MONITOR_FORMAT = "hermes-dx monitor"  # formats of sources that are no traces
STEP_LOG_FORMAT = "step log"
JOB_LOG_FORMAT = "job log"
ASCEND_FORMAT = "ascend tables"
COUNTER_FORMAT = "utilization samples"
OPERATIONS_FORMAT = "step operations"
FLIGHT_FORMAT = "flight recorder"
INSPECTOR_FORMAT = "NCCL Inspector"
RAS_FORMAT = "NCCL RAS"
STACKS_FORMAT = "py-spy stacks"
SNAPSHOT_FORMAT = "memory snapshot"
COLLECT_ENV_FORMAT = "collect_env"
WANDB_FORMAT = "W&B run"
TENSORBOARD_FORMAT = "TensorBoard events"
PROMETHEUS_FORMAT = "Prometheus export"
TRAINER_FORMAT = "Trainer state"
# Formats whose files fill the records of others.
FILLS = {
    WANDB_FORMAT: (JOB_LOG_FORMAT, COUNTER_FORMAT),
    TENSORBOARD_FORMAT: (JOB_LOG_FORMAT,),
    TRAINER_FORMAT: (JOB_LOG_FORMAT,),
    PROMETHEUS_FORMAT: (COUNTER_FORMAT,),
}

DEVICE_WORK = (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET)
HOST_WORK = (EventKind.OPERATOR, EventKind.ANNOTATION, EventKind.RUNTIME, EventKind.PYTHON)

_INT, _FLOAT, _TEXT = "int64", "float64", "category"

DETAIL_COLUMNS: dict[str, dict[str, str]] = {
    "kernels": {
        **dict.fromkeys(("row", "blocks", "threads"), _INT),
        **dict.fromkeys(("registers", "shared_bytes", "warps_per_sm", "occupancy_pct"), _FLOAT),
    },
    "copies": {"row": _INT, "bytes": _INT},
    "operators": {"row": _INT, "dims": _TEXT, "types": _TEXT, "sequence": _INT, "forward_thread": _INT, "stack": _TEXT},
    "collectives": {
        **{"row": _INT, "collective": _TEXT, "group": _TEXT, "group_size": _INT, "ranks": _TEXT, "dtype": _TEXT},
        **{"in_elements": _INT, "out_elements": _INT},
    },
    "memory": {
        **dict.fromkeys(("row", "bytes", "total_allocated", "total_reserved"), _INT),
        **{"device_type": "int8", "device": _INT},
    },
    "syncs": {
        **{"row": _INT, "sync_kind": _TEXT, "stream": _INT, "wait_on_stream": _INT},
        **{"wait_on_record_correlation": _INT, "event": _INT},
    },
    "forward_backward": {"forward_row": _INT, "backward_row": _INT},
    "python": {"row": _INT, "python_id": _INT, "parent_id": _INT},
}
