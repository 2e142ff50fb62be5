"""The files in the folder of a run: traces, and the files of every other format that the registry lists."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.errors import InputError
from tools.sources.decompress import PACKED, plain_or_packed, unpacked_name
from tools.sources.formats import FolderFiles, RecordFormat
from tools.sources.monitor.source import CAPTURE
from tools.sources.options import Limits
from tools.sources.registry import RECORDS, TRACES

MOST_FILES = 65_536
DEEPEST, MOST_FOLDERS = 4, 4_096  # levels below the run folder in which traces are looked for, and folders of a level
RECORD_FOLDERS = {each.folder for each in RECORDS if each.folder}
# Next to traces and known to be none: passed over without a note.
NO_TRACE = re.compile(
    r"(run|measured|label|env|metadata|profiler_info\w*|profiler_metadata)\.json$|steps_\w+\.jsonl(\.gz)?$|.*\.(md|txt|log|out)$"
)


@dataclass(frozen=True)
class Inventory:
    """The files that a run is read from, in a stable order, and what was passed over."""

    traces: tuple[Path, ...]
    records: tuple[FolderFiles, ...]
    notes: tuple[str, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        """All of them: a diagnosis changes only where one of these does."""
        return (*self.traces, *(file for each in self.records for file in each.files))

    def of(self, wanted: RecordFormat) -> tuple[FolderFiles, ...]:
        """The files of one format, by run folder."""
        return tuple(each for each in self.records if each.format.name == wanted.name)


def take_inventory(paths: Sequence[Path], limits: Limits, formats: Sequence[RecordFormat] = RECORDS) -> Inventory:
    """List the run at these paths: files are traces, of a folder the traces in it and in the folders directly below.

    Where these hold none, the first level further below that holds traces is taken.
    There are none where a folder holds records only; InputError where it holds nothing of a run.
    """
    traces: list[Path] = []
    notes: list[str] = []
    for path in paths:
        if _exists_as_file(path):
            traces.append(path)
            continue
        if not path.is_dir():
            raise InputError(f"{path}: is neither a file nor a folder; give a trace file")
        found, other = _in_folder(path)
        if len(found) > limits.files:
            notes.append(f"{path} holds {len(found)} traces; the first {limits.files} are read")
        if other:
            notes.append(_passed_over(path, other))
        traces += found[: limits.files]
    unique = list({file.resolve(): file for file in reversed(traces)}.values())[::-1]
    records = _records(paths, formats)
    if not unique and not any(each.format.makes_run for each in records):
        raise InputError(
            f"{', '.join(map(str, paths))}: no trace there, and no monitor records; a trace is a .json or .json.gz file"
        )
    return Inventory(tuple(unique), records, tuple(notes))


def _records(paths: Iterable[Path], formats: Sequence[RecordFormat]) -> tuple[FolderFiles, ...]:
    own = dict.fromkeys(path if path.is_dir() else path.parent for path in paths)
    around = dict.fromkeys(each.parent if CAPTURE.match(each.name) else each for each in own)
    found: list[FolderFiles] = []
    for wanted in formats:
        for folder in own if wanted.with_capture else around:
            files = _listed(folder / wanted.folder, wanted.names)
            if any((wanted.needed or wanted.names).match(unpacked_name(file)) for file in files):
                found.append(FolderFiles(wanted, folder, tuple(files)))
    return tuple(found)


def _listed(folder: Path, names: re.Pattern[str]) -> list[Path]:
    """Nothing where the folder cannot be listed; links that lead out of it are left out."""
    try:
        inside = folder.resolve()
        found = plain_or_packed(folder, names)[:MOST_FILES]
        return [file for file in found if file.is_file() and file.resolve().is_relative_to(inside)]
    except OSError:
        return []


def is_run_file(folder: str, name: str) -> bool:
    """Return True when a reader knows a file of that name in the run folder ("") or in that folder inside it."""
    own = [each.names for each in RECORDS if each.folder == folder]
    traces = is_trace_file(name) and not (folder and own)
    return traces or any(names.match(name.removesuffix(PACKED)) for names in own)


def is_trace_file(name: str) -> bool:
    """Return True when a reader of traces knows a file of that name."""
    return any(each.names.match(name.removesuffix(PACKED)) for each in TRACES)


def _exists_as_file(path: Path) -> bool:
    try:
        if not path.exists():
            raise InputError(f"{path}: there is no such file or folder; check the path")
        return path.is_file()
    except OSError as error:
        raise InputError(f"{path}: cannot be opened ({error.strerror}); check its path and permissions") from error


def _in_folder(folder: Path) -> tuple[list[Path], list[Path]]:
    """Traces in the folder and the folders directly below, and files there that are none and not known either.

    Where there is no trace, folders further below are looked at, level by level until one holds traces: profilers and
    loggers nest them (``tb/rank0/plugins/profile/...``).
    """
    inside, level = folder.resolve(), [folder]
    files: list[Path] = []
    found: list[Path] = []
    for depth in range(DEEPEST + 1):
        own, below = _entries(folder, level)
        files += own if depth <= 1 else []
        found += [each for each in own if is_trace_file(each.name) and each.resolve().is_relative_to(inside)]
        if depth and (found or not below):
            break
        level = below[:MOST_FOLDERS]
    return found, [each for each in files if each not in set(found)]


def _entries(folder: Path, level: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """Files of these folders that may be traces, and the folders in them, without links and those of the records."""
    try:
        entries = [entry for each in level for entry in sorted(each.iterdir())]
        folders = [each for each in entries if each.is_dir() and not each.is_symlink()]
        below = [each for each in folders if not each.name.startswith(".") and each.name not in RECORD_FOLDERS]
        files = [each for each in entries if each.is_file() and not NO_TRACE.match(each.name)]
    except OSError as error:
        raise InputError(f"{folder}: cannot be listed ({error.strerror}); check its permissions") from error
    return [each for each in files if each.parent.name not in RECORD_FOLDERS], below


def _passed_over(folder: Path, other: list[Path]) -> str:
    names = ", ".join(entry.name for entry in other[:3]) + (", ..." if len(other) > 3 else "")
    what = "1 file in {} is no trace or lies outside of it and was skipped"
    if len(other) > 1:
        what = f"{len(other)} files in {{}} are no traces or lie outside of it and were skipped"
    return f"{what.format(folder)}: {names}"
