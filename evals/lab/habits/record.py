"""Record entries: launches of both sides in turn, the last of each kept without what names a machine or a path."""

from __future__ import annotations

import gzip
import json
import os
import platform
import re
import shutil
import socket
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from evals.lab.habits.launch import Folders, Launch, launch, steps_ms, variables
from evals.lab.habits.quiet_machine import ContentionError
from evals.lab.habits.table import HERE, Entry, Start, Strength, label_json
from evals.lab.job import LABEL, write
from evals.lab.record import (
    CONFIDENCE,
    GZIP,
    HEALTHY_SCHEMA,
    LAUNCHES,
    LEAST_SAVING_PCT,
    MEASURED,
    Comparison,
    Notify,
    compare,
    scrub_steps,
    scrub_trace,
    without_paths,
    write_packed,
)
from hermes_agent.cli.commands.env import environment

RECORDED = HERE / "recorded"
MILD_SPEEDUP = 1.25  # a slow-down below it is near the threshold
QUIET_WAIT_S, QUIET_POLL_S = 2.0, 1.0
PACKAGES = ("torch", "transformers", "lightning", "numpy")
ATTEMPTS = 3
TRACE_HEAD_BYTES = 1 << 12


def record(entry: Entry, out: Path, notify: Notify, run: Launch = launch) -> Comparison | None:
    """Record into ``out/ID/{slow,fixed,run}`` with ``label.json`` and ``measured.json``; None for a healthy run."""
    launches = LAUNCHES if len(entry.starts) > 1 else 1
    times: dict[str, list[list[float]]] = {side: [] for side in entry.starts}
    for turn in range(launches):
        for side, start in entry.starts.items():
            notify(f"{entry.id}: launch {turn + 1} of {launches}, {side}")
            target = out / entry.id / side if turn == launches - 1 else None
            times[side].append(one_launch(entry, start, target, run))
    alone = {cause: one_launch(entry, start, None, run) for cause, start in entry.one_fixed.items()}
    sides = list(times.values())
    count = min(len(each) for side in sides for each in side)
    measured: dict[str, Any] = {"statistic": entry.statistic, "confidence": CONFIDENCE, **_machine(entry)}
    if launches == 1:
        step_ms = asdict(compare(sides[0], sides[0], entry.statistic).before_ms)
        write(out / entry.id / MEASURED, {"schema": HEALTHY_SCHEMA, "step_ms": step_ms, "steps": count, **measured})
        write(out / entry.id / LABEL, label_json(entry, None))
        return None
    comparison = compare(sides[0], sides[1], entry.statistic)
    parts = {cause: asdict(compare(sides[0], [steps], entry.statistic)) for cause, steps in alone.items()}
    measured |= {
        "launches": LAUNCHES,
        "steps_per_launch": count,
        "method": f"{entry.statistic} over steps without a profiler, mean over ranks; bootstrap over the steps of each "
        "launch; launches of both sides in turn",
        "label_holds": label_holds(comparison),
    }
    if parts:
        measured["one_fixed"] = parts  # slow against a launch with only this cause removed
    write(out / entry.id / MEASURED, {"schema": "hermes-dx/lab-pair/2", **asdict(comparison), **measured})
    write(out / entry.id / LABEL, label_json(entry, strength(comparison.speedup.median)))
    return comparison


def label_holds(comparison: Comparison) -> bool:
    """Return whether fixing saves enough to call it a problem, and more than the noise."""
    return comparison.saving_pct.median >= LEAST_SAVING_PCT and comparison.saving_pct.low > 0


def strength(speedup: float) -> Strength:
    """The word for a measured slow-down."""
    return "mild" if speedup < MILD_SPEEDUP else "strong"


def complete(folder: Path) -> bool:
    """Return whether a recording ended and its label holds."""
    try:
        measured: dict[str, Any] = json.loads((folder / MEASURED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return (folder / LABEL).is_file() and bool(measured.get("label_holds", True))


def relabel(entry: Entry, folder: Path) -> None:
    """Write the label of a recording again as the table has it now."""
    measured: dict[str, Any] = json.loads((folder / MEASURED).read_text(encoding="utf-8"))
    speedup = measured.get("speedup")
    write(folder / LABEL, label_json(entry, None if speedup is None else strength(speedup["median"])))


def one_launch(entry: Entry, start: Start, target: Path | None, run: Launch) -> list[float]:
    """Step times in ms of one launch; with ``target``, its run is kept there. Repeated where others took the cores."""
    for _ in range(ATTEMPTS - 1):
        with suppress(ContentionError):
            return _launched(entry, start, target, run)
    return _launched(entry, start, target, run)


def _launched(entry: Entry, start: Start, target: Path | None, run: Launch) -> list[float]:
    with tempfile.TemporaryDirectory(prefix="job-") as name:
        folders = Folders.below(Path(name))
        run(entry, start, folders)
        if target is not None:
            if entry.with_env:
                settings = environment({**os.environ, **variables(entry, start)})
                write(folders.run / "env.json", settings)
            keep(folders, target)
        return steps_ms(entry, folders)


def keep(folders: Folders, target: Path) -> None:
    """Copy the run, scrubbed, in the place of an earlier recording."""
    shutil.rmtree(target, ignore_errors=True)
    for file in sorted(path for path in folders.run.rglob("*") if path.is_file() and path.suffix != ".steps"):
        place = target / _public_name(file.relative_to(folders.run))
        place.parent.mkdir(parents=True, exist_ok=True)
        if _is_trace(file):
            packed = place if place.suffix == ".gz" else place.with_name(f"{place.name}.gz")
            scrub_trace(file, packed)
            _replace(packed, folders)
            continue
        text = _clean(file.read_text(encoding="utf-8", errors="replace"), folders)
        if place.parent == target / "monitor":
            write_packed(place, text.encode())
        else:
            place.write_text(text, encoding="utf-8")
    if steps := list((folders.run / "monitor").glob("*.steps")):
        scrub_steps(steps, target / "monitor")


def _public_name(name: Path) -> Path:
    """The name without that of this machine, which ``tensorboard_trace_handler`` puts first."""
    return name.with_name(name.name.replace(socket.gethostname(), "host0"))


def _is_trace(file: Path) -> bool:
    if not file.name.endswith((".json", ".json.gz")):
        return False
    with file.open("rb") as stream:
        head = stream.read(TRACE_HEAD_BYTES)
    return head.startswith(GZIP) or b'"schemaVersion"' in head or b'"traceEvents"' in head


def _replace(packed: Path, folders: Folders) -> None:
    text = _clean(gzip.decompress(packed.read_bytes()).decode(), folders)
    packed.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


def _clean(text: str, folders: Folders) -> str:
    """The text without paths of this machine, its name, and the folders of the launch."""
    for folder in (folders.work, folders.run, folders.times):
        text = text.replace(f"{folder}/", "").replace(str(folder), folder.name)
    return re.sub(re.escape(socket.gethostname()), "host0", without_paths(text))


def _machine(entry: Entry) -> dict[str, Any]:
    return {
        "hardware": f"{os.cpu_count()} CPU cores ({platform.machine()}), no accelerator",
        "system": platform.system(),
        "versions": {"python": platform.python_version(), **_versions(PACKAGES)},
        "world_size": entry.processes,
    }


def _versions(packages: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
