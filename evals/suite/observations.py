"""Kinds of observation: those that a run holds already, and those that a sentence asks for."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from evals.suite.run_sources import files_of

Observation = Literal["trace", "all_ranks", "stacks", "shapes", "synchronization", "monitor"]

# What a sentence has to say to ask for it, in the words of the profiler's documentation and of our commands.
ASKED: Mapping[Observation, re.Pattern[str]] = MappingProxyType(
    {
        "trace": re.compile(r"hermes-dx monitor profile|record a trace"),
        "all_ranks": re.compile(r"traces? of all ranks|other ranks' traces?"),
        "stacks": re.compile(r"with_stack"),
        "shapes": re.compile(r"record_shapes"),
        "synchronization": re.compile(r"enable_cuda_sync_events"),
        "monitor": re.compile(r"hermes_agent\.monitor|steps under the monitor"),
    }
)
# What the events of a Kineto trace hold when the option was on.
MARKS: Mapping[Observation, bytes] = MappingProxyType(
    {"stacks": b'"python_function"', "shapes": b'"Input Dims"', "synchronization": b'"cuda_sync"'}
)
WORLD_SIZE = re.compile(rb'"world_size"\s*:\s*(\d+)')
SEARCHED_BYTES = 256 << 20  # of each trace
CHUNK_BYTES = 1 << 20
OVERLAP_BYTES = 64  # a mark may lie across two chunks


def asked(text: str) -> frozenset[Observation]:
    """The observations that a sentence asks for."""
    return frozenset(kind for kind, words in ASKED.items() if words.search(text))


def present(run: Path) -> frozenset[Observation]:
    """The observations that a run holds: read from its files as text, not by the readers that are judged here."""
    files = files_of(run) if run.is_dir() else {"traces": (Path(run.name),), "records": ()}
    folder = run if run.is_dir() else run.parent
    traces = [folder / file for file in files["traces"]]
    found: set[Observation] = set()
    world_size = 0
    for trace in traces:
        marks, size = _marks(trace)
        found |= marks
        world_size = max(world_size, size)
    if traces:
        found.add("trace")
        found |= {"all_ranks"} if len(traces) >= world_size else set()
    if any(file.parent.name == "monitor" for file in files["records"]):
        found.add("monitor")
    return frozenset(found)


def _marks(trace: Path) -> tuple[set[Observation], int]:
    """What the events of one trace hold, and the number of ranks that it names (0 where it names none)."""
    found: set[Observation] = set()
    ranks, searched, rest = 0, 0, b""
    try:
        with gzip.open(trace) if trace.suffix == ".gz" else trace.open("rb") as file:
            while searched < SEARCHED_BYTES and (chunk := file.read1(CHUNK_BYTES)):
                text = rest + chunk
                found |= {kind for kind, mark in MARKS.items() if mark in text}
                ranks = max([ranks, *(int(number) for number in WORLD_SIZE.findall(text))])
                searched, rest = searched + len(chunk), text[-OVERLAP_BYTES:]
    except (OSError, EOFError, zlib.error):
        return found, ranks  # a trace that is cut holds what was read until then
    return found, ranks
