"""What lies in the folder of a run beside its traces: monitor records, step logs, the environment."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from tools.sources.beginning import PACKED, unpacked_name

RECORDS = "monitor"
MOST_FILES = 65_536
CAPTURE = re.compile(r"capture-\d+$")  # a folder of traces that the monitor made inside the run folder
STEP_LOG = re.compile(r"steps_rank(\d{1,6})\.jsonl(?:\.gz)?$")
STEPS = "rank*.steps"
EVENTS = ".events.jsonl"
ANOMALIES = "anomalies-*.jsonl"
PATTERNS = (STEPS, f"*{EVENTS}", ANOMALIES)


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


def events_file(steps: Path) -> Path:
    """The events told beside a step file; it need not be there."""
    plain = steps.with_name(unpacked_name(steps)).with_suffix(EVENTS)
    packed = plain.with_name(f"{plain.name}{PACKED}")
    return packed if packed.is_file() and not plain.is_file() else plain


def step_logs(folder: Path) -> dict[int, Path]:
    """The step logs directly in a run folder, by rank."""
    found = ((STEP_LOG.match(file.name), file) for file in _listed(folder, "steps_rank*.jsonl"))
    return {int(match[1]): file for match, file in found if match}


def companion_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Every file beside the traces of these paths that the run is read from (the environment's apart)."""
    return tuple(file for folder in run_folders(paths) for file in (*record_files(folder), *step_logs(folder).values()))


def plain_or_packed(folder: Path, pattern: str) -> list[Path]:
    """Files of the pattern in order, also compressed ones; of a file that is there twice the plain one."""
    packed = islice(folder.glob(f"{pattern}{PACKED}"), MOST_FILES + 1)
    plain = islice(folder.glob(pattern), MOST_FILES + 1)
    return sorted({unpacked_name(file): file for file in (*packed, *plain)}.values())


def _listed(folder: Path, pattern: str) -> list[Path]:
    try:
        inside = folder.resolve()
        found = plain_or_packed(folder, pattern)[:MOST_FILES]
        return [file for file in found if file.is_file() and file.resolve().is_relative_to(inside)]
    except OSError:
        return []
