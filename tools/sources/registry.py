"""Every format that a run is read from. A new one declares itself in a module of its own and is listed here."""

from __future__ import annotations

from tools.sources.ascend.source import ASCEND_DATABASE, ASCEND_TABLES
from tools.sources.decompress import Readable, opened
from tools.sources.environment import ENVIRONMENT
from tools.sources.formats import RecordFormat, TraceFormat
from tools.sources.job_log.source import JOB_LOG
from tools.sources.kineto.source import KINETO
from tools.sources.monitor.source import MONITOR
from tools.sources.step_log import STEP_LOG

TRACES: tuple[TraceFormat, ...] = (KINETO, ASCEND_DATABASE)
RECORDS: tuple[RecordFormat, ...] = (ENVIRONMENT, MONITOR, ASCEND_TABLES, STEP_LOG, JOB_LOG)
START_BYTES = 64


def trace_format(path: Readable) -> TraceFormat:
    """The first format that recognises the file; of one that none does, the first format's reader says why not."""
    try:
        with opened(path) as file:
            start = file.read(START_BYTES)
    except OSError:
        return TRACES[0]
    return next((each for each in TRACES if each.recognises(start)), TRACES[0])
