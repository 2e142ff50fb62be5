"""Every format that a run is read from. A new one declares itself in a module of its own and is listed here."""

from __future__ import annotations

from pathlib import Path

from tools.sources.ascend.source import ASCEND_DATABASE, ASCEND_TABLES
from tools.sources.collect_env.source import COLLECT_ENV
from tools.sources.decompress import Readable, beginning, opened
from tools.sources.environment import ENVIRONMENT
from tools.sources.flight_recorder.source import FLIGHT_RECORDER
from tools.sources.formats import RecordFormat, TraceFormat
from tools.sources.jax.source import XPLANE
from tools.sources.job_log.source import JOB_LOG, job_log_by
from tools.sources.kineto.source import KINETO
from tools.sources.memory_snapshot.source import MEMORY_SNAPSHOT
from tools.sources.monitor.source import MONITOR
from tools.sources.nccl_inspector.source import NCCL_INSPECTOR
from tools.sources.nccl_ras.source import NCCL_RAS
from tools.sources.nsys.source import NSYS
from tools.sources.prometheus.source import PROMETHEUS
from tools.sources.py_spy.source import PY_SPY, PY_SPY_TEXT
from tools.sources.rocprof.source import ROCPROF
from tools.sources.step_log import STEP_LOG
from tools.sources.straggler_analysis.source import STEP_OPERATIONS
from tools.sources.tensorboard.source import TENSORBOARD
from tools.sources.trainer_state.source import TRAINER_STATE
from tools.sources.utilisation.source import UTILISATION, UTILISATION_JSON
from tools.sources.wandb_file.source import WANDB

TRACES: tuple[TraceFormat, ...] = (ROCPROF, KINETO, ASCEND_DATABASE, NSYS, XPLANE)
RECORDS: tuple[RecordFormat, ...] = (
    *(ENVIRONMENT, MONITOR, ASCEND_TABLES, STEP_LOG, JOB_LOG, STEP_OPERATIONS),
    *(FLIGHT_RECORDER, NCCL_INSPECTOR, NCCL_RAS, UTILISATION, UTILISATION_JSON),
    *(PY_SPY, PY_SPY_TEXT, MEMORY_SNAPSHOT),
    *(COLLECT_ENV,),
    *(WANDB, TENSORBOARD, TRAINER_STATE, PROMETHEUS),
)
START_BYTES = 64


def record_formats(log_pattern: str = "") -> tuple[RecordFormat, ...]:
    """The formats of records; with the user's pattern for step lines of a job's output where there is one."""
    if not log_pattern:
        return RECORDS
    return tuple(job_log_by(log_pattern) if each is JOB_LOG else each for each in RECORDS)


def trace_format(path: Readable) -> TraceFormat:
    """The first format that recognises the file and finds its events in it; of one that none does, the reader of the
    first that recognises it says why not."""
    try:
        start = _start(path)
    except OSError:
        return KINETO
    known = [each for each in TRACES if each.recognises(start)]
    held = (each for each in known if each.holds is None or not isinstance(path, Path) or each.holds(path))
    return next(held, (known or [KINETO])[0])


def _start(path: Readable) -> bytes:
    """The first bytes of a file, expanded; as they are of what can be read once only."""
    if isinstance(path, Path):
        return bytes(beginning(path, START_BYTES).data)
    with opened(path) as file:
        return file.read(START_BYTES)
