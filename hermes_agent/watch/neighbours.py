"""What the agents of several machines tell each other through the run folder that they share: a small file each."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from time import time_ns
from typing import Annotated

import msgspec

from hermes_agent.monitor.places import file_name_of, records_folder

MOST_AGENTS = 4096
LARGEST_BYTES = 1 << 20
FRESH_S = 10.0  # an agent that is silent for longer says nothing of its ranks
EVERY_S = 2.0
MOST_RANKS = 1 << 20
Time = Annotated[int, msgspec.Meta(ge=0, le=(1 << 62) - 1)]
Rank = Annotated[int, msgspec.Meta(ge=0, le=MOST_RANKS)]
Step = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]


class _Told(msgspec.Struct):
    host: str
    unix_ns: Time
    steps: dict[Rank, Step]


@dataclass(frozen=True)
class HostSummary:
    """The last step that each living rank of a machine has ended."""

    host: str
    unix_ns: int
    steps: dict[int, int]


class Neighbours:
    """Tells the others of this machine's ranks and hears of theirs, at most every two seconds."""

    def __init__(self, run_folder: Path, host: str) -> None:
        self._folder = records_folder(run_folder)
        self._own = self._folder / f"agent-{file_name_of(host)}.json"
        self._host = host
        self._next_s = 0.0
        self._heard: dict[int, int] = {}

    def exchange(self, steps: dict[int, int], now_s: float) -> dict[int, int]:
        """The last step of each living rank of all machines; this machine's own ranks as they are now."""
        if now_s >= self._next_s:
            self._next_s = now_s + EVERY_S
            self._tell(HostSummary(self._host, time_ns(), steps))
            self._heard = self._hear()
        return {**self._heard, **steps}

    def _tell(self, summary: HostSummary) -> None:
        if not self._folder.is_dir():
            return
        part = self._own.with_suffix(f".{os.getpid()}.part")
        about = {"host": summary.host, "unix_ns": summary.unix_ns, "steps": summary.steps}
        try:
            part.write_text(json.dumps(about), encoding="utf-8")
            part.replace(self._own)
        except OSError:
            part.unlink(missing_ok=True)  # a folder that others may only read: they do not hear of us

    def _hear(self) -> dict[int, int]:
        heard: dict[int, int] = {}
        for path in sorted(self._folder.glob("agent-*.json"))[:MOST_AGENTS]:
            summary = None if path == self._own else read_summary(path)
            if summary is not None and abs(time_ns() - summary.unix_ns) < FRESH_S * 1e9:
                heard |= summary.steps
        return heard


def read_summary(path: Path) -> HostSummary | None:
    """What an agent told, None where it cannot be read: another machine may be writing it, or anybody."""
    try:
        told = msgspec.json.decode(_content(path), type=_Told)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return HostSummary(told.host[:256], told.unix_ns, told.steps)


def _content(path: Path) -> bytes:
    """The file's content; nothing where it is a link, a pipe or too large. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        about = os.fstat(handle)
        usable = stat.S_ISREG(about.st_mode) and about.st_size <= LARGEST_BYTES
        return file.read(LARGEST_BYTES) if usable else b""
