"""The summary of one traced rank: what ranks are compared by, small enough that those of thousands can be joined.

A summary is made of one trace file. Its times are whole ns on the trace's own axis, which begins with the earliest
event (``TraceFacts.origin_ns``); clocks of different ranks are not aligned. Texts are as recorded, hence untrusted.

steps: one row per step, in order
    number, start_ns, end_ns        of the rank's step, see ``tools.run.steps``
    wall_ns                         end_ns - start_ns
    compute_ns, exposed_communication_ns, exposed_memcpy_ns, data_wait_ns, host_ns, idle_ns
                                    the disjoint parts of ``tools.views.parts``, which add up to wall_ns
    overlapped_communication_ns     communication under compute, contained in compute_ns
collectives: those inside steps by rank and start, as ``tools.views.communication.collectives`` gives them
    kind, group, members            texts, "" where not recorded; members is the recorded list of ranks
    group_size, bytes               -1 where unknown
    step, sequence                  place among the rank's collectives of that group, members, kind and step
    start_ns, end_ns
    exposed_ns                      part of its duration in which the rank did nothing else
exposed: the moments of exposed communication from the first to the last step, disjoint and in order
    start_ns, end_ns                with them the exposed part of any wait is exact: ``tools.intervals.covered``
operators: the largest in steps, at most ``MOST_OPERATORS`` of each kind, largest first
    name, kind                      kind is "operator" (training threads, calls inside included) or "kernel"
    count, total_ns
stalls: the longest host pauses in steps, at most ``MOST_STALLS``, longest first, see ``tools.metrics.host.pauses``
    start_ns, end_ns, step
    before, after                   operators around the pause
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pandas as pd

from tools.run.model import StepOrigin
from tools.sources.trace_file import TraceFacts
from tools.views.parts import PARTS

SUMMARY_VERSION = 1  # raise it whenever a column or the meaning of one changes
MOST_OPERATORS, MOST_STALLS = 50, 50

TableName = Literal["steps", "collectives", "exposed", "operators", "stalls"]
_NS = ("start_ns", "end_ns")
_PARTS_NS = tuple(f"{part}_ns" for part in (*PARTS, "overlapped_communication"))
TABLES: dict[TableName, dict[str, str]] = {
    "steps": dict.fromkeys(("number", *_NS, "wall_ns", *_PARTS_NS), "int64"),
    "collectives": {
        **dict.fromkeys(("kind", "group", "members"), "category"),
        **dict.fromkeys(("group_size", "bytes", "step", "sequence", *_NS, "exposed_ns"), "int64"),
    },
    "exposed": dict.fromkeys(_NS, "int64"),
    "operators": {**dict.fromkeys(("name", "kind"), "category"), **dict.fromkeys(("count", "total_ns"), "int64")},
    "stalls": {**dict.fromkeys((*_NS, "step"), "int64"), **dict.fromkeys(("before", "after"), "category")},
}


@dataclass(frozen=True)
class SummaryFacts:
    """What is known of a trace file apart from the tables: enough to find its rank and to reject a wrong file."""

    path: str  # as the run lists it; a URL without credentials
    digest: str  # of the file's bytes
    trace: TraceFacts
    host: str  # from the file name, "" where it holds none
    step_origin: StepOrigin
    has_device: bool
    last_ns: int  # the end of the last event
    processes: tuple[str, ...]  # whose threads the trace holds, ascending


@dataclass(frozen=True, eq=False)
class RankSummary:
    """The facts and the tables of one trace file; columns and dtypes as ``TABLES`` says."""

    facts: SummaryFacts
    steps: pd.DataFrame
    collectives: pd.DataFrame
    exposed: pd.DataFrame
    operators: pd.DataFrame
    stalls: pd.DataFrame

    def table(self, name: TableName) -> pd.DataFrame:
        """The table of that name."""
        found: pd.DataFrame = getattr(self, name)
        return found
