"""The agent's live picture in a terminal."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from hermes_agent.monitor.format import CAPTURED, UNKNOWN_DEPTH, UNKNOWN_US, StepRecord
from hermes_agent.watch.agent import Noticed, RankNow, Snapshot

LAST_SHOWN = 8
COLUMNS = ("rank", "step", "step ms", "data wait ms", "own ms", "GC ms", "results ready", "pinned ready", "")


def picture(snapshot: Snapshot) -> Group:
    """A table of the ranks and the last anomalies. Texts of the run are shown as they are, never as markup."""
    table = Table(title=_title(snapshot), title_justify="left")
    for column in COLUMNS:
        table.add_column(column, justify="right")
    for rank in sorted(snapshot.ranks):
        table.add_row(*(Text(cell) for cell in _row(rank, snapshot.ranks[rank])))
    lines = [Text(line_of(each)) for each in snapshot.noticed[-LAST_SHOWN:]]
    return Group(table, *(lines or [Text("nothing noticed so far")]))


def line_of(noticed: Noticed) -> str:
    """An anomaly in one line, with what ran beside it and the capture that was asked for."""
    parts = [f"{noticed.anomaly.deviation.kind}: {noticed.anomaly.claim}"]
    if noticed.foreign:
        parts.append("other processes: " + ", ".join(f"{one.name} {one.cpu_pct:.0f} %" for one in noticed.foreign))
    if noticed.asked is not None:
        asked = noticed.asked
        ranks = ", ".join(map(str, asked.ranks))
        made = f"no capture: {asked.refused}" if asked.refused else f"capture {asked.request} of rank {ranks} asked for"
        parts.append(made)
    return "; ".join(parts)


def _title(snapshot: Snapshot) -> str:
    usual = "not known yet" if snapshot.usual_ms is None else f"{snapshot.usual_ms:.1f} ms"
    return f"usual step: {usual}" + (f", {snapshot.lost_steps} steps not seen" if snapshot.lost_steps else "")


def _row(rank: int, now: RankNow) -> tuple[str, ...]:
    record = now.record
    return (
        str(rank),
        str(record.step),
        f"{record.wall_us / 1e3:.1f}",
        f"{record.data_wait_us / 1e3:.1f}",
        "" if record.own_us == UNKNOWN_US else f"{record.own_us / 1e3:.1f}",
        f"{record.gc_us / 1e3:.1f}",
        _depth(record.result_queue),
        _depth(record.pinned_queue),
        _status(record, now.alive),
    )


def _depth(depth: int) -> str:
    return "" if depth == UNKNOWN_DEPTH else str(depth)


def _status(record: StepRecord, alive: bool) -> str:
    if not alive:
        return "ended"
    return "profiling" if record.flags & CAPTURED else ""
