"""Files of the agents in the run folder: the anomalies that each noticed, and the last steps of its ranks."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from time import time_ns
from typing import Annotated

import msgspec

from hermes_agent.monitor.format import file_name_of, records_folder
from hermes_agent.watch.anomaly import Anomaly, Foreign

LARGEST_BYTES = 16 << 20
LARGEST_SUMMARY_BYTES = 1 << 20
LONGEST_HOST = 256
MOST_AGENTS = 4096
MOST_RANKS = 1 << 20
FRESH_S = 10.0  # an agent that is silent for longer says nothing of its ranks
EVERY_S = 2.0
Time = Annotated[int, msgspec.Meta(ge=0, le=(1 << 62) - 1)]
Rank = Annotated[int, msgspec.Meta(ge=0, le=MOST_RANKS)]
Step = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]


def append(path: Path, line: dict[str, object]) -> None:
    """Append a line to an agent's file, unless that is as large as allowed."""
    if path.exists() and path.stat().st_size > LARGEST_BYTES:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def line_of(anomaly: Anomaly, unix_ns: int, foreign: Sequence[Foreign]) -> dict[str, object]:
    """Return the fields of one line."""
    seen = anomaly.deviation
    return {
        "unix_ns": unix_ns,
        "kind": str(seen.kind),
        "rank": anomaly.rank,
        "step": seen.step,
        "noticed_step": seen.noticed,
        "usual_ms": round(seen.usual_ms, 3),
        "seen_ms": round(seen.seen_ms, 3),
        "excess_pct": round(seen.excess_pct, 2),
        "part": anomaly.suspect.part if anomaly.suspect else "",
        "claim": anomaly.claim,
        "foreign": [asdict(each) for each in foreign],
    }


class HostSummary(msgspec.Struct):
    """The last step that each living rank of a machine has ended."""

    host: str
    unix_ns: Time
    steps: dict[Rank, Step]


class Neighbours:
    """Exchanges the ranks' last steps with the agents of other machines, at most every two seconds."""

    def __init__(self, run_folder: Path, host: str) -> None:
        self._folder, self._host = records_folder(run_folder), host
        self._own = self._folder / f"agent-{file_name_of(host)}.json"
        self._next_s = 0.0
        self._others: dict[int, int] = {}

    def exchange(self, steps: dict[int, int], now_s: float) -> dict[int, int]:
        """The last step of each living rank of all machines; this machine's own ranks as they are now."""
        if now_s >= self._next_s:
            self._next_s = now_s + EVERY_S
            self._write(HostSummary(self._host, time_ns(), steps))
            self._others = self._read()
        return {**self._others, **steps}

    def _write(self, summary: HostSummary) -> None:
        if not self._folder.is_dir():
            return
        part = self._own.with_suffix(f".{os.getpid()}.part")
        try:
            part.write_bytes(msgspec.json.encode(summary))
            part.replace(self._own)
        except OSError:
            part.unlink(missing_ok=True)  # a folder that others may only read: they do not hear of us

    def _read(self) -> dict[int, int]:
        steps: dict[int, int] = {}
        for path in sorted(self._folder.glob("agent-*.json"))[:MOST_AGENTS]:
            summary = None if path == self._own else read_summary(path)
            if summary is not None and abs(time_ns() - summary.unix_ns) < FRESH_S * 1e9:
                steps |= summary.steps
        return steps


def read_summary(path: Path) -> HostSummary | None:
    """Return an agent's summary; None for a link, a pipe, a large file or one that cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            about = os.fstat(handle)
            usable = stat.S_ISREG(about.st_mode) and about.st_size <= LARGEST_SUMMARY_BYTES
            summary = msgspec.json.decode(file.read(LARGEST_SUMMARY_BYTES) if usable else b"", type=HostSummary)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    summary.host = summary.host[:LONGEST_HOST]
    return summary
