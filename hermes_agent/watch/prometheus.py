"""The agent's figures for Prometheus; needs the extra ``monitor``."""

from __future__ import annotations

from hermes_agent.monitor.format import UNKNOWN_DEPTH, UNKNOWN_US
from hermes_agent.watch.agent import Snapshot
from hermes_agent.watch.anomaly import AnomalyKind
from tools.errors import UsageError


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
