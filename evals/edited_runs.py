"""Copies of recorded runs in which something is missing, cut off, or put into the names by someone hostile."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

from evals.case_schema import RunEdit
from tools.errors import InputError

TRACE = re.compile(r"^rank(\d+)\.pt\.trace\.json(?:\.gz)?$")
KEPT_OF_CUT_FILE = 0.6
EVERY = 40  # one name in so many gets a hostile text
OWN_MARKS = ("ProfilerStep#", "enumerate(", "gloo:", "nccl:", "c10d::", "Optimizer.")  # names that readers go by
RECORDS = ("steps_rank*.jsonl*", "env.json")


def edited(run: Path, edit: RunEdit, target: Path) -> Path:
    """A copy of the run in ``target`` with the edit made; raises InputError when it has no such trace."""
    shutil.copytree(run, target, dirs_exist_ok=True)
    traces = {int(match[1]): file for file in sorted(target.iterdir()) if (match := TRACE.match(file.name))}
    for rank in (*edit.without_traces_of, *edit.cut_traces_of):
        if rank not in traces:
            raise InputError(f"{run} has no trace of rank {rank} to take away or cut; correct the case")
    gone = set(traces) if edit.without_traces else set(edit.without_traces_of)
    for rank in gone:
        traces.pop(rank).unlink()
    if edit.hostile_names:
        for file in traces.values():
            _rename(file, edit.hostile_names)
    for rank in edit.cut_traces_of:
        _cut(traces[rank])
    if edit.without_records:
        shutil.rmtree(target / "monitor", ignore_errors=True)
        for pattern in RECORDS:
            for file in target.glob(pattern):
                file.unlink()
    return target


def _cut(file: Path) -> None:
    text = _content(file)
    _write(file, text[: int(len(text) * KEPT_OF_CUT_FILE)])


def _rename(file: Path, names: tuple[str, ...]) -> None:
    document: dict[str, Any] = json.loads(_content(file))
    for place, event in enumerate(document["traceEvents"]):
        name = str(event.get("name", ""))
        if place % EVERY == 0 and event.get("ph") == "X" and not name.startswith(OWN_MARKS):
            event["name"] = f"{name} {names[place // EVERY % len(names)]}"
    _write(file, json.dumps(document).encode())


def _content(file: Path) -> bytes:
    data = file.read_bytes()
    return gzip.decompress(data) if file.suffix == ".gz" else data


def _write(file: Path, data: bytes) -> None:
    file.write_bytes(gzip.compress(data, 1, mtime=0) if file.suffix == ".gz" else data)
