"""What lies in the folder of a run beside its traces: monitor records, step logs, the environment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tools.errors import InputError
from tools.sources.options import Limits
from tools.sources.small_files import PACKED, unpacked_name

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


SUFFIXES = (".json", ".json.gz")
# What lies beside traces and is known to be none: it is passed over without a word.
COMPANION = re.compile(
    r"(run|measured|label|env|metadata|profiler_info\w*|profiler_metadata)\.json$|steps_\w+\.jsonl(\.gz)?$|.*\.(md|txt|log|out)$"
)


@dataclass(frozen=True)
class Discovery:
    """The files to read, in a stable order, and what was passed over."""

    files: tuple[Path, ...]
    notes: tuple[str, ...]
    from_folder: bool  # some came from a folder: one that proves to be no trace is passed over


def discover(paths: Sequence[Path], limits: Limits) -> Discovery:
    """Files are taken as given; of a folder, the traces in it and in the folders directly below.

    None are found where a folder holds records or step logs only; InputError where it holds nothing of a run.
    """
    files: list[Path] = []
    notes: list[str] = []
    from_folder = False
    for path in paths:
        if _exists_as_file(path):
            files.append(path)
            continue
        if not path.is_dir():
            raise InputError(f"{path}: is neither a file nor a folder; give a trace file")
        from_folder = True
        found, other = _in_folder(path)
        if len(found) > limits.files:
            notes.append(f"{path} holds {len(found)} traces; the first {limits.files} are read")
        if other:
            notes.append(_passed_over(path, other))
        files += found[: limits.files]
    unique = list({_identity(file): file for file in reversed(files)}.values())[::-1]
    if not unique and not any(has_records(folder) or step_logs(folder) for folder in run_folders(paths)):
        raise InputError(
            f"{', '.join(map(str, paths))}: no trace there, and no monitor records; a trace is a .json or .json.gz file"
        )
    return Discovery(tuple(unique), tuple(notes), from_folder)


def _exists_as_file(path: Path) -> bool:
    try:
        if not path.exists():
            raise InputError(f"{path}: there is no such file or folder; check the path")
        return path.is_file()
    except OSError as error:
        raise InputError(f"{path}: cannot be looked at ({error.strerror}); check path and rights") from error


def _in_folder(folder: Path) -> tuple[list[Path], list[Path]]:
    inside = folder.resolve()
    try:
        entries = sorted(folder.iterdir())
        entries += [below for entry in entries if _is_own_folder(entry) for below in sorted(entry.iterdir())]
    except OSError as error:
        raise InputError(f"{folder}: cannot be listed ({error.strerror}); check the rights") from error
    found: list[Path] = []
    other: list[Path] = []
    for entry in entries:
        if not entry.is_file() or COMPANION.match(entry.name) or entry.parent.name == RECORDS:
            continue
        is_trace = entry.name.endswith(SUFFIXES) and entry.resolve().is_relative_to(inside)
        (found if is_trace else other).append(entry)
    return found, other


def _is_own_folder(entry: Path) -> bool:
    return entry.is_dir() and not entry.is_symlink() and not entry.name.startswith(".")


def _passed_over(folder: Path, other: list[Path]) -> str:
    names = ", ".join(entry.name for entry in other[:3]) + (", ..." if len(other) > 3 else "")
    return f"{len(other)} file(s) in {folder} are no traces or lie outside of it and were passed over: {names}"


def _identity(path: Path) -> Path:
    return path.resolve()
