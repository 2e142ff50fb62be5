"""The agent's live picture: a table in a terminal, and gauges for Prometheus (extra ``monitor``)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from rich.console import Group
from rich.table import Table
from rich.text import Text

from hermes_agent.locations.fetch import opened
from hermes_agent.locations.places import without_credentials
from hermes_agent.monitor.format import (
    ANOMALIES,
    CAPTURED,
    EVENTS,
    STEPS,
    UNKNOWN_DEPTH,
    UNKNOWN_US,
    StepRecord,
    records_folder,
)
from hermes_agent.monitor.run_files import capture_names, listing, open_plain
from hermes_agent.watch.agent import Noticed, RankNow, Snapshot
from hermes_agent.watch.anomaly import Anomaly, AnomalyKind
from hermes_agent.watch.left_out import LeftOut
from tools.errors import InputError, UsageError

FINISHED = re.compile(rf"rank.*({re.escape(STEPS)}|{re.escape(EVENTS)})\Z|{ANOMALIES}.*\.jsonl\Z")
TRACES = re.compile(r".*\.gz\Z")
PIECE_BYTES = 1 << 20
EVERY_S = 60.0


class Publisher:
    """Copies new and grown files to any target that fsspec can open; raises UsageError where it cannot."""

    def __init__(self, run_folder: Path, url: str, left_out: LeftOut | None = None) -> None:
        self._folder, self._url = run_folder, without_credentials(url)
        self._left_out = left_out or LeftOut()
        self._files, self._root = opened(url, "cannot be written to")
        self._sent: dict[Path, tuple[int, int]] = {}
        self._next_s = 0.0

    def due(self, now_s: float) -> bool:
        """Return whether a minute has passed on a monotonic clock."""
        if now_s < self._next_s:
            return False
        self._next_s = now_s + EVERY_S
        return True

    def publish(self) -> int:
        """Copy the files and return their number; raises InputError where the target does not take them."""
        return sum(self._copied(path) for path in self._finished())

    def _finished(self) -> list[Path]:
        """The records, and the traces of the captures; no links."""
        found: list[Path] = []
        try:
            folders = {self._folder / name: TRACES for name in capture_names(self._folder)}
            for folder, names in {records_folder(self._folder): FINISHED, **folders}.items():
                listed = listing(folder, names)
                found += [
                    folder / name for name in (*listed.files, *listed.others)
                ]  # the others are refused, and named
        except OSError as error:
            self._left_out.add(f"{self._folder}: not all of it can be copied ({error.strerror})")
        return sorted(found, key=os.fsencode)

    def _copied(self, path: Path) -> bool:
        """Copy a file where it is new or has grown, as it is now."""
        try:
            handle = open_plain(path, os.O_RDONLY)
        except OSError as error:
            self._left_out.add(f"{path}: is not copied ({error.strerror})")
            return False
        with os.fdopen(handle, "rb") as file:
            about = os.fstat(handle)
            seen = about.st_size, about.st_mtime_ns
            if self._sent.get(path) == seen:
                return False
            target = f"{self._root}/{path.relative_to(self._folder).as_posix()}"
            try:
                self._files.makedirs(target.rpartition("/")[0], exist_ok=True)
                with self._files.open(target, "wb") as copy:
                    for at in range(0, about.st_size, PIECE_BYTES):
                        copy.write(file.read(min(PIECE_BYTES, about.st_size - at)))
            except OSError as error:
                raise InputError(
                    f"{self._url}: cannot take {path.name} ({type(error).__name__}); check the permissions there"
                ) from error
        self._sent[path] = seen
        return True


LAST_SHOWN = 8
# The figures of a rank's last step: column of the table (in ms where seconds are measured), gauge, its text, the value.
FIGURES: dict[str, tuple[str, str, Callable[[StepRecord], float | None]]] = {
    "step": ("step", "Number of the last step", lambda row: row.step),
    "step ms": ("step_seconds", "Duration of the last step", lambda row: row.wall_us / 1e3),
    "data wait ms": ("data_wait_seconds", "Wait for data in the last step", lambda row: row.data_wait_us / 1e3),
    "own ms": (
        "own_seconds",
        "The rank's own time in the last step, without waiting for other ranks",
        lambda row: None if row.own_us == UNKNOWN_US else row.own_us / 1e3,
    ),
    "GC ms": ("gc_seconds", "Garbage collection in the last step", lambda row: row.gc_us / 1e3),
    "results ready": ("result_queue", "Batches ready from the loader's workers", lambda row: _depth(row.result_queue)),
    "pinned ready": ("pinned_queue", "Batches ready in pinned memory", lambda row: _depth(row.pinned_queue)),
}


def _depth(queued: int) -> int | None:
    return None if queued == UNKNOWN_DEPTH else queued


def figures(now: RankNow) -> dict[str, float | None]:
    """Return the figures of a rank's last step by column, times in ms; None where they are unknown."""
    return {column: read(now.record) for column, (_, _, read) in FIGURES.items()}


def picture(snapshot: Snapshot) -> Group:
    """A table of the ranks and the last anomalies. Texts of the run are shown as they are, never as markup."""
    usual = "not known yet" if snapshot.usual_ms is None else f"{snapshot.usual_ms:.1f} ms"
    lost = f", {snapshot.lost_steps} steps not seen" if snapshot.lost_steps else ""
    table = Table(title=f"usual step: {usual}{lost}", title_justify="left")
    for column in ("rank", *FIGURES, ""):
        table.add_column(column, justify="right")
    for rank, now in sorted(snapshot.ranks.items()):
        cells = (_cell(column, value) for column, value in figures(now).items())
        status = "ended" if not now.alive else "profiling" if now.record.flags & CAPTURED else ""
        table.add_row(*map(Text, (str(rank), *cells, status)))
    lines = [Text(line_of(each)) for each in snapshot.noticed[-LAST_SHOWN:]]
    if snapshot.spikes is not None:
        lines.append(Text(f"so far {Anomaly(snapshot.spikes, None).claim}"))
    return Group(table, *(lines or [Text("nothing noticed so far")]))


def _cell(column: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.1f}" if column.endswith("ms") else str(value)


def line_of(noticed: Noticed) -> str:
    """An anomaly in one line, with the processes that ran meanwhile and the capture that was requested."""
    parts = [f"{noticed.anomaly.deviation.kind}: {noticed.anomaly.claim}"]
    if noticed.foreign:
        parts.append("other processes: " + ", ".join(f"{one.name} {one.cpu_pct:.0f} %" for one in noticed.foreign))
    if (capture := noticed.capture) is not None:
        ranks = ("rank " if len(capture.ranks) == 1 else "ranks ") + ", ".join(map(str, capture.ranks))
        refused = f"no capture yet: {capture.refused}"
        parts.append(refused if capture.refused else f"capture {capture.request} of {ranks} requested")
    if noticed.noticed_before:
        parts[0] = f"still there: {parts[0]}"
    return "; ".join(parts)


class PrometheusExport:
    """Serves the last snapshot on a port; raises UsageError when that is not possible."""

    def __init__(self, port: int, address: str = "127.0.0.1") -> None:
        try:
            from prometheus_client import CollectorRegistry, Gauge, start_http_server
        except ImportError as error:
            raise UsageError("prometheus_client is missing; install hermes-dx[monitor]") from error
        registry = CollectorRegistry()
        self._gauges = {
            column: Gauge(f"hermes_dx_{name}", text, ["rank"], registry=registry)
            for column, (name, text, _) in FIGURES.items()
        }
        self._alive = Gauge("hermes_dx_alive", "1 while the rank writes its records", ["rank"], registry=registry)
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
        """Serve the figures of a snapshot."""
        for rank, now in snapshot.ranks.items():
            self._alive.labels(rank=str(rank)).set(now.alive)
            for column, value in figures(now).items():
                if value is not None:
                    seconds = column.endswith("ms")
                    self._gauges[column].labels(rank=str(rank)).set(value / 1e3 if seconds else value)
        if snapshot.usual_ms is not None:
            self._usual.set(snapshot.usual_ms / 1e3)
        for kind in AnomalyKind:
            self._anomalies.labels(kind=str(kind)).set(snapshot.counts.get(str(kind), 0))

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
