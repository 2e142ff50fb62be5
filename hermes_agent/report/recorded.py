"""What a run has beside its traces: ranks, steps and hosts that only monitor records or step logs tell of."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hermes_agent.evidence.printable import printable
from hermes_agent.report.diagnosis import RecordedRecord
from tools.run.model import Run

LONGEST_HOST = 80
MOST_SPANS = 1000  # a log that tells every tenth step has as many spans as steps


def recorded_record(run: Run) -> RecordedRecord | None:
    """Ranks, spans of steps and hosts of the records and step logs; None when the run has traces only."""
    if run.records is None and run.step_log is None:
        return None
    tables = [table for table in (_steps_of_records(run), run.step_log) if table is not None]
    ranks = [np.asarray(table["rank"], dtype=np.int64) for table in tables]
    steps = [np.asarray(table["step"], dtype=np.int64) for table in tables]
    started = () if run.records is None else run.records.ranks
    hosts = {*(each.host for each in started), *(rank.host for rank in run.ranks)}
    return RecordedRecord(
        ranks=sorted({*np.unique(np.concatenate(ranks)).tolist(), *(each.rank for each in started)}),
        steps=_spans(np.unique(np.concatenate(steps))),
        hosts=sorted(printable(host, LONGEST_HOST) for host in hosts if host),
    )


def _steps_of_records(run: Run) -> pd.DataFrame | None:
    return None if run.records is None else run.records.steps


def _spans(steps: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Ascending numbers as first and last of each unbroken row of them; those beyond ``MOST_SPANS`` are not told."""
    if not len(steps):
        return []
    breaks = np.flatnonzero(np.diff(steps) != 1)
    first, last = steps[np.r_[0, breaks + 1]], steps[np.r_[breaks, len(steps) - 1]]
    return list(zip(first[:MOST_SPANS].tolist(), last[:MOST_SPANS].tolist(), strict=True))
