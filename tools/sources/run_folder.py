"""What lies in the folder of a run beside its traces: monitor records, step logs, the environment."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

RECORDS = "monitor"
MOST_FILES = 65_536
CAPTURE = re.compile(r"capture-\d+$")  # a folder of traces that the monitor made inside the run folder
STEP_LOG = re.compile(r"steps_rank(\d{1,6})\.jsonl$")
STEPS = "rank*.steps"
PATTERNS = (STEPS, "*.events.jsonl", "anomalies-*.jsonl")


def run_folders(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The run folder of each path: a folder that was given or that holds the file, or around the capture given."""
    folders = [path if path.is_dir() else path.parent for path in paths]
    return tuple(dict.fromkeys(each.parent if CAPTURE.match(each.name) else each for each in folders))


def has_records(folder: Path) -> bool:
    """Whether the live monitor left step records in the run folder."""
    return next(iter(_listed(folder / RECORDS, STEPS)), None) is not None


def record_files(folder: Path) -> tuple[Path, ...]:
    """All files of the monitor in a run folder, in a stable order."""
    return tuple(file for pattern in PATTERNS for file in _listed(folder / RECORDS, pattern))


def step_logs(folder: Path) -> dict[int, Path]:
    """The step logs directly in a run folder, by rank."""
    found = ((STEP_LOG.match(file.name), file) for file in _listed(folder, "steps_rank*.jsonl"))
    return {int(match[1]): file for match, file in found if match}


def companion_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Every file beside the traces of these paths that the run is read from (the environment's apart)."""
    return tuple(file for folder in run_folders(paths) for file in (*record_files(folder), *step_logs(folder).values()))


def _listed(folder: Path, pattern: str) -> list[Path]:
    try:
        inside = folder.resolve()
        found = sorted(islice(folder.glob(pattern), MOST_FILES))
        return [file for file in found if file.is_file() and file.resolve().is_relative_to(inside)]
    except OSError:
        return []
