"""Reads what ``py-spy record`` (speedscope, raw) and ``py-spy dump`` (text, JSON) write."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

import msgspec
import numpy as np
import pandas as pd

from tools.errors import InputError
from tools.run.recorded.host_stacks import STACK_COLUMNS, HostStacks
from tools.sources.decompress import beginning
from tools.sources.py_spy.recognise import FOLDED, FRAME, LOOKED_AT_BYTES, PROCESS, THREAD, form_of
from tools.sources.ranks import named_ranks

LARGEST_BYTES = 256 << 20
MOST_SAMPLES = 20_000_000
MOST_STACKS = 1 << 18  # different ones
DEEPEST = 512  # frames of a stack; of deeper ones the innermost
LONGEST_FRAME = 400
MAIN = "MainThread"
PID = re.compile(r"\bprocess (\d{1,10})", re.I)
WORKER = re.compile(r"_worker_loop \(.*torch/utils/data/_utils/worker\.py|\(multiprocessing/(?:pool|process)\.py")
SECONDS = {"seconds": 1.0, "milliseconds": 1e-3, "microseconds": 1e-6, "nanoseconds": 1e-9}


class _Frame(msgspec.Struct):
    name: str
    file: str | None = None
    line: int | None = None


class _Shared(msgspec.Struct):
    frames: list[_Frame]


class _Profile(msgspec.Struct):
    type: str
    name: str = ""
    unit: str = "none"
    samples: list[list[int]] = []
    weights: list[float] = []


class _Speedscope(msgspec.Struct):
    shared: _Shared
    profiles: list[_Profile]


class _DumpedFrame(msgspec.Struct):
    name: str
    filename: str = ""
    short_filename: str | None = None
    line: int = 0


class _DumpedThread(msgspec.Struct):
    frames: list[_DumpedFrame]
    pid: int = -1
    thread_name: str | None = None


@dataclass
class Collected:
    """Different stacks of threads with how often they were seen."""

    stacks: dict[tuple[str, ...], int] = field(default_factory=dict)
    seen: Counter[tuple[int, str, int]] = field(default_factory=Counter)  # pid, thread, stack -> samples
    seconds: Counter[tuple[int, str, int]] = field(default_factory=Counter)  # microseconds, as these are whole

    def add(self, pid: int, thread: str, frames: Sequence[str], count: int = 1, seconds: float = 0.0) -> None:
        """Count a stack, outermost frame first."""
        stack = tuple(frames[-DEEPEST:])
        if stack not in self.stacks and len(self.stacks) >= MOST_STACKS:
            raise InputError(f"it holds more than {MOST_STACKS:,} different stacks; record for a shorter time")
        key = (pid, thread, self.stacks.setdefault(stack, len(self.stacks)))
        self.seen[key] += count
        self.seconds[key] += round(seconds * 1e6)


def read_stacks(path: Path) -> HostStacks:
    """The stacks of one file; InputError where it is damaged or holds none."""
    try:
        read = beginning(path, LARGEST_BYTES)
    except OSError as error:
        raise InputError(f"{path.name}: cannot be read ({error.strerror or error})") from error
    if read.more or read.damage:
        raise InputError(f"{path.name}: {read.damage or f'is larger than {LARGEST_BYTES >> 20} MiB'}; record less")
    data = bytes(read.data)
    form, collected = form_of(data[:LOOKED_AT_BYTES]), Collected()
    try:
        if form == "speedscope":
            _speedscope(data, collected)
        elif form == "dump json":
            _dump_json(data, collected)
        else:
            _text(data.decode("utf-8", "replace").splitlines(), form == "dump", collected)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path.name}: is no whole file of py-spy ({error}); record it again") from error
    except InputError as error:
        raise InputError(f"{path.name}: {error}") from error
    if not collected.seen:
        raise InputError(f"{path.name}: holds no sample of a stack; record with `py-spy record --pid PID` for longer")
    timed = form == "speedscope" and any(collected.seconds.values())
    return _record(path, collected, timed)


def _speedscope(data: bytes, collected: Collected) -> None:
    said = msgspec.json.decode(data, type=_Speedscope)
    names = [_frame(each.name, each.file or "", each.line or 0) for each in said.shared.frames]
    left = MOST_SAMPLES
    for profile in said.profiles:
        if profile.type != "sampled":
            continue
        unit = SECONDS.get(profile.unit, 0.0)
        left -= len(profile.samples)
        if left < 0:
            raise InputError(f"it holds more than {MOST_SAMPLES:,} samples; record for a shorter time")
        pid = PID.search(profile.name)
        weights = [*profile.weights, *[0.0] * max(len(profile.samples) - len(profile.weights), 0)]
        for sample, weight in zip(profile.samples, weights, strict=False):
            if all(0 <= at < len(names) for at in sample) and isfinite(weight) and 0 <= weight < 1e9:
                stack = [names[at] for at in sample]
                collected.add(int(pid[1]) if pid else -1, profile.name, stack, 1, weight * unit)


def _dump_json(data: bytes, collected: Collected) -> None:
    for thread in msgspec.json.decode(data, type=list[_DumpedThread]):
        frames = [_frame(each.name, each.short_filename or each.filename, each.line) for each in thread.frames]
        collected.add(thread.pid if 0 <= thread.pid < 1 << 32 else -1, thread.thread_name or "", frames[::-1])


def _text(lines: Iterable[str], dumped: bool, collected: Collected) -> None:
    """Lines of a dump, innermost frame first below each thread; or folded stacks."""
    pid, thread, frames = -1, "", list[str]()
    for line in lines:
        text = line.rstrip()
        if not dumped:
            if folded := FOLDED.match(text):
                collected.add(-1, _thread_of(folded["stack"]), _folded(folded["stack"]), int(folded["count"]))
            continue
        if process := PROCESS.match(text):
            pid = int(process["pid"])
        elif head := THREAD.match(text):
            if frames:
                collected.add(pid, thread, frames[::-1])
            thread, frames = head["name"] or "", []
        elif (frame := FRAME.match(text)) and len(frames) < DEEPEST:
            frames.append(frame["frame"][:LONGEST_FRAME])
    if frames:
        collected.add(pid, thread, frames[::-1])


def _folded(stack: str) -> list[str]:
    return [
        frame[:LONGEST_FRAME] for frame in stack.split(";") if not frame.lower().startswith(("process ", "thread ("))
    ]


def _thread_of(stack: str) -> str:
    return next((frame for frame in stack.split(";")[:2] if frame.lower().startswith("thread (")), "")


def _frame(name: str, file: str, line: int) -> str:
    place = f"{file}:{line}" if line > 0 else file
    return f"{name} ({place})"[:LONGEST_FRAME] if place else name[:LONGEST_FRAME]


def _record(path: Path, collected: Collected, timed: bool) -> HostStacks:
    rank = (named_ranks([path]) or {}).get(path, -1)
    stacks = tuple(collected.stacks)
    # Where threads have names the training is in the main one; worker processes have one as well.
    named = any(MAIN in thread for _, thread, _ in collected.seen)
    rows = [
        {
            **{"rank": rank, "pid": pid, "file": 0, "stack": stack, "thread": thread},
            "main": (MAIN in thread or not named) and not any(map(WORKER.search, stacks[stack])),
            "samples": float(count),
            "seconds": collected.seconds[pid, thread, stack] / 1e6 if timed else np.nan,
        }
        for (pid, thread, stack), count in collected.seen.items()
    ]
    return HostStacks(pd.DataFrame(rows, columns=list(STACK_COLUMNS)).astype(STACK_COLUMNS), stacks, (path.name,))
