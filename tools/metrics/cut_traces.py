"""How much of a cut trace was read: all that is measured on one."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, metric
from tools.run.model import CutTrace
from tools.views.profile import Profile


@metric("count", "events read of the cut trace", "How much of a cut trace is there?")
def cut_trace_events(profile: Profile, rank: int) -> Measurement:
    """Events of every kind that were read of a rank's cut traces."""
    cut = _of(profile, rank)
    return _measured(cut, sum(each.events for each in cut), "events read")


@metric("B", "text read of the cut trace", "Where is the trace cut?")
def cut_trace_text_bytes(profile: Profile, rank: int) -> Measurement:
    """Bytes of text, expanded where the file is compressed, that were read of a rank's cut traces."""
    cut = _of(profile, rank)
    return _measured(cut, sum(each.text_bytes for each in cut), "text read")


def _of(profile: Profile, rank: int) -> tuple[CutTrace, ...]:
    cut = tuple(each for each in profile.run.cut if each.rank == rank)
    if not cut:
        raise UsageError(f"no trace of rank {rank} is cut")
    return cut


def _measured(cut: Sequence[CutTrace], value: int, selector: str) -> Measurement:
    table = pd.DataFrame([(each.path.name, each.reason, each.events, each.text_bytes) for each in cut])
    table.columns = pd.Index(["file", "reason", "events", "text_bytes"])
    return Measurement(float(value), lambda: table, selector, (cut[0].rank,))
