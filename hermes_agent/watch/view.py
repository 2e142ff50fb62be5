"""The agent's live picture in a terminal."""

from __future__ import annotations

from rich.console import Group
from rich.table import Table
from rich.text import Text

from hermes_agent.monitor.format import CAPTURED, UNKNOWN_DEPTH, UNKNOWN_US, StepRecord
from hermes_agent.watch.agent import Noticed, RankNow, Snapshot
from hermes_agent.watch.anomaly import AnomalyKind
from tools.errors import UsageError

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


class PrometheusExport:
    """Serves the last snapshot on a port; raises UsageError when that is not possible."""

    def __init__(self, port: int, address: str = "127.0.0.1") -> None:
        try:
            from prometheus_client import CollectorRegistry, Gauge, start_http_server
        except ImportError as error:
            raise UsageError("prometheus_client is missing; install hermes-dx[monitor]") from error
        registry = CollectorRegistry()
        self._gauges = {
            name: Gauge(f"hermes_dx_{name}", text, ["rank"], registry=registry)
            for name, text in (
                ("step_seconds", "Duration of the last step"),
                ("data_wait_seconds", "Wait for data in the last step"),
                ("own_seconds", "The rank's own time in the last step, until its last gradient was ready"),
                ("gc_seconds", "Garbage collection in the last step"),
                ("result_queue", "Batches ready from the loader's workers"),
                ("pinned_queue", "Batches ready in pinned memory"),
                ("step", "Number of the last step"),
                ("alive", "1 while the rank gives signs of life"),
            )
        }
        self._usual = Gauge("hermes_dx_usual_step_seconds", "The usual step of the group", registry=registry)
        self._anomalies = Gauge("hermes_dx_anomalies", "Anomalies so far", ["kind"], registry=registry)
        try:
            self._server, self._thread = start_http_server(port, address, registry)
        except OSError as error:
            raise UsageError(f"port {port} cannot be served ({error.strerror}); choose another one") from error

    @property
    def port(self) -> int:
        """The port that is served."""
        return int(self._server.server_port)

    def show(self, snapshot: Snapshot) -> None:
        """Takes over a snapshot."""
        for rank, now in snapshot.ranks.items():
            record = now.record
            values: dict[str, float | None] = {
                "step_seconds": record.wall_us / 1e6,
                "data_wait_seconds": record.data_wait_us / 1e6,
                "own_seconds": None if record.own_us == UNKNOWN_US else record.own_us / 1e6,
                "gc_seconds": record.gc_us / 1e6,
                "result_queue": None if record.result_queue == UNKNOWN_DEPTH else record.result_queue,
                "pinned_queue": None if record.pinned_queue == UNKNOWN_DEPTH else record.pinned_queue,
                "step": record.step,
                "alive": now.alive,
            }
            for name, value in values.items():
                if value is not None:
                    self._gauges[name].labels(rank=str(rank)).set(value)
        if snapshot.usual_ms is not None:
            self._usual.set(snapshot.usual_ms / 1e3)
        for kind in AnomalyKind:
            self._anomalies.labels(kind=str(kind)).set(snapshot.counts.get(str(kind), 0))

    def close(self) -> None:
        """Stops serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
