"""Makes a large trace out of a real one: its events again and again, later in time, with ids of their own."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

ID_ARGUMENTS = (
    "correlation",
    "External id",
    "external id",
    "Ev Idx",
    "Python id",
    "Python parent id",
    "Record function id",
)
SYNC_ARGUMENT = "wait_on_cuda_event_record_corr_id"
STEP = re.compile(r"^ProfilerStep#(\d+)$")

Event = dict[str, Any]


def enlarge(source: Path, target: Path, target_bytes: int) -> int:
    """Writes ``target`` (plain, or gzip by suffix) with at least ``target_bytes`` of JSON; returns the events written.

    Each copy is shifted behind the one before by the trace's span, and its ids by more than the largest id, so that
    no correlation id and no step number occurs twice.
    """
    opener = gzip.open if source.suffix == ".gz" else open
    with opener(source, "rt", encoding="utf-8") as file:
        trace = json.load(file)
    events: list[Event] = trace["traceEvents"]
    timed = [event for event in events if event.get("ph") != "M" and "ts" in event]
    begin = min(float(event["ts"]) for event in timed)
    span = max(float(event["ts"]) + float(event.get("dur", 0)) for event in timed) - begin + 1000.0
    shift = max(_largest_id(event) for event in timed) + 1
    steps = [int(match[1]) for event in timed if (match := STEP.match(str(event.get("name", ""))))]
    step_shift = max(steps) - min(steps) + 1 if steps else 1
    written = 0
    head = json.dumps({key: value for key, value in trace.items() if key != "traceEvents"})
    with _writer(target) as out:
        size = out.write(head[:-1] + ', "traceEvents": [\n')
        size += out.write(",\n".join(json.dumps(event) for event in events if event.get("ph") == "M"))
        for copy in _copies():
            for event in timed:
                size += out.write(",\n" + json.dumps(_moved(event, copy, span, shift, step_shift)))
                written += 1
            if size >= target_bytes:
                break
        out.write("\n]}")
    return written


def _writer(target: Path) -> IO[str]:
    if target.suffix == ".gz":
        return gzip.open(target, "wt", encoding="utf-8", compresslevel=3)
    return target.open("w", encoding="utf-8")


def _copies() -> Iterator[int]:
    copy = 0
    while True:
        yield copy
        copy += 1


def _largest_id(event: Event) -> int:
    arguments = event.get("args") or {}
    own = [int(arguments[name]) for name in ID_ARGUMENTS if isinstance(arguments.get(name), int)]
    if isinstance(event.get("id"), int):
        own.append(int(event["id"]))
    return max(own, default=0)


def _moved(event: Event, copy: int, span: float, shift: int, step_shift: int) -> Event:
    moved = dict(event)
    ts = event["ts"]
    moved["ts"] = (
        ts + (int(span) * copy if isinstance(ts, int) else round(span) * copy) if not isinstance(ts, str) else ts
    )
    if isinstance(event.get("id"), int):
        moved["id"] = event["id"] + copy * shift
    arguments = event.get("args")
    if arguments:
        moved["args"] = {
            name: value + copy * shift
            if isinstance(value, int) and (name in ID_ARGUMENTS or (name == SYNC_ARGUMENT and value >= 0))
            else value
            for name, value in arguments.items()
        }
    if match := STEP.match(str(event.get("name", ""))):
        moved["name"] = f"ProfilerStep#{int(match[1]) + copy * step_shift}"
    return moved
