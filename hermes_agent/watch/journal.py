"""Writes the agent's anomalies beside the records of the ranks."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from hermes_agent.monitor.places import file_name_of, records_folder
from hermes_agent.watch.anomaly import Anomaly
from hermes_agent.watch.foreign import Foreign

LARGEST_BYTES = 16 << 20


class Journal:
    """One file per agent, so that the agents of several machines can share a run folder."""

    def __init__(self, run_folder: Path, host: str) -> None:
        self._path = records_folder(run_folder) / f"anomalies-{file_name_of(host)}.jsonl"

    def add(self, anomaly: Anomaly, unix_ns: int, foreign: Sequence[Foreign]) -> None:
        """Appends a line; nothing more once the file is as large as allowed."""
        if self._path.exists() and self._path.stat().st_size > LARGEST_BYTES:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "a", encoding="utf-8") as file:
            file.write(json.dumps(line_of(anomaly, unix_ns, foreign)) + "\n")


def line_of(anomaly: Anomaly, unix_ns: int, foreign: Sequence[Foreign]) -> dict[str, object]:
    """The fields of one line."""
    seen = anomaly.deviation
    return {
        "unix_ns": unix_ns,
        "kind": str(seen.kind),
        "rank": anomaly.rank,
        "step": seen.step,
        "noticed_step": seen.noticed,
        "usual_ms": round(seen.usual_ms, 3),
        "seen_ms": round(seen.seen_ms, 3),
        "excess_pct": round(100 * seen.excess_ms / seen.usual_ms, 2) if seen.usual_ms > 0 else 0.0,
        "part": anomaly.suspect.part if anomaly.suspect else "",
        "claim": anomaly.claim,
        "foreign": [asdict(each) for each in foreign],
    }
