"""Files of the agents in the run folder: the anomalies that each noticed, and the last steps of its ranks."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from time import time_ns
from typing import Annotated

import msgspec

from hermes_agent.monitor.format import file_name_of, records_folder
from hermes_agent.monitor.run_files import append, listing, open_plain, replace
from hermes_agent.watch.anomaly import Anomaly, Foreign
from hermes_agent.watch.left_out import LeftOut

AGENT = "agent-"
SUMMARY = re.compile(rf"{AGENT}.*\.json\Z", re.DOTALL)
LARGEST_BYTES = 16 << 20
LARGEST_SUMMARY_BYTES = 1 << 18  # a machine of thousands of ranks
MOST_SUMMARY_BYTES = 8 << 20  # of all of them: tens of thousands of machines
MOST_RANKS = 1 << 20
FRESH_S = 10.0  # an agent that is silent for longer says nothing of its ranks
EVERY_S = 2.0
MOST_ODD = 100
Time = Annotated[int, msgspec.Meta(ge=0, le=(1 << 62) - 1)]
Rank = Annotated[int, msgspec.Meta(ge=0, le=MOST_RANKS)]
Step = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]


class Journal:
    """The anomalies that the agent of a machine noticed, one JSON line each; a failure is noted once and not raised."""

    def __init__(self, path: Path, left_out: LeftOut) -> None:
        self._path, self._left_out = path, left_out

    def add(self, line: dict[str, object]) -> None:
        """Append a line, unless the file is as large as allowed."""
        try:
            if not append(self._path, json.dumps(line).encode(), LARGEST_BYTES):
                self._left_out.add(f"{self._path} is as large as allowed; further anomalies are not written there")
        except OSError as error:
            self._left_out.add(f"{self._path}: {error.strerror}; anomalies are not written there")


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

    def __init__(self, run_folder: Path, host: str, left_out: LeftOut | None = None) -> None:
        self._folder, self._host = records_folder(run_folder), host
        self._own = self._folder / f"{AGENT}{file_name_of(host)}.json"
        self._next_s = 0.0
        self._others: dict[int, int] = {}
        self._left_out = left_out or LeftOut()

    def exchange(self, steps: dict[int, int], now_s: float) -> dict[int, int]:
        """The last step of each living rank of all machines; this machine's own ranks as they are now."""
        if now_s >= self._next_s:
            self._next_s = now_s + EVERY_S
            self._write(HostSummary(self._host, time_ns(), steps))
            self._others = self._read()
        return {**self._others, **steps}

    def _write(self, summary: HostSummary) -> None:
        try:
            replace(self._own, [msgspec.json.encode(summary)])
        except FileNotFoundError:
            return  # no rank has made the folder yet
        except OSError as error:  # a folder that others may only read: they do not hear of us
            self._left_out.add(f"{self._own}: {error.strerror}; agents of other machines do not hear of this one")

    def _read(self) -> dict[int, int]:
        try:
            listed = listing(self._folder, SUMMARY)
        except OSError as error:
            self._left_out.add(f"{self._folder}: cannot be listed ({error.strerror}); other machines are not heard")
            return {}
        steps: dict[int, int] = {}
        for name in (*listed.folders, *listed.others)[:MOST_ODD]:
            self._left_out.add(f"{self._folder / name}: is no plain file; it was left out")
        room, more = MOST_SUMMARY_BYTES, listed.more
        for name in listed.files:
            data = b"" if name == self._own.name else summary_bytes(self._folder / name)
            room -= len(data)
            if room < 0:
                more = True
                break
            summary = summary_of(data)
            if summary is not None and abs(time_ns() - summary.unix_ns) < FRESH_S * 1e9:
                steps |= summary.steps
        if more:
            self._left_out.add(f"{self._folder} holds more than the agents of a run write; not all were heard")
        return steps


def summary_bytes(path: Path) -> bytes:
    """Return the content of an agent's file; nothing of a link, a pipe, or a file larger than any is."""
    try:
        handle = open_plain(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        data = os.read(handle, LARGEST_SUMMARY_BYTES + 1)
    except OSError:
        return b""
    finally:
        os.close(handle)
    return data if len(data) <= LARGEST_SUMMARY_BYTES else b""


def summary_of(data: bytes) -> HostSummary | None:
    """Return an agent's summary; None where it cannot be read."""
    try:
        return msgspec.json.decode(data, type=HostSummary)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
