"""The files in the folder of a run: traces, and the files of every other format that the registry lists."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from tools.errors import InputError
from tools.sources.decompress import PACKED, beginning, plain_or_packed, unpacked_name
from tools.sources.formats import FolderFiles, RecordFormat
from tools.sources.monitor.source import CAPTURE
from tools.sources.options import Limits
from tools.sources.plain_files import leads_out, lies_within
from tools.sources.registry import RECORDS, TRACES
from tools.sources.unread import LOG_NAME, unread_line

MOST_FILES = 65_536
MOST_RECOGNISED = 1_024  # files of a folder of which the content is looked at to recognise them
MOST_ENTRIES = 1 << 18  # looked at in search of traces: 10,000 ranks with a folder and some files each
DEEPEST, MOST_FOLDERS = 4, 65_536  # levels below the run folder in which traces are looked for, and folders of a level
# torchrun: attempt_0/3/stdout.log; a folder for each rank or host: rank3, node-12, dgx07
LOG_FOLDERS = re.compile(
    r"(?:logs?|output|outputs|slurm|attempt_\d{1,4}|\d{1,6}"
    r"|(?:rank|node|host|worker|dgx|gpu|machine|server|compute)[-_.]?\w{0,32}\d)\Z",
    re.I,
)
MOST_LINKS = 8  # that lead out and are named
RECORD_FOLDERS = {each.folder for each in RECORDS if each.folder}
TRACE_EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[|\A\s*\[\s*\{')
LINES_LOOKED_AT = 1 << 14
LOOKED_AT = 1 << 20  # bytes: Kineto writes properties of devices and the job before the events
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
    unread: str = ""  # the one of the notes that names files which look like a profile or a log

    @property
    def files(self) -> tuple[Path, ...]:
        """All of them: a diagnosis changes only where one of these does."""
        return (*self.traces, *(file for each in self.records for file in each.files))

    def of(self, wanted: RecordFormat) -> tuple[FolderFiles, ...]:
        """The files of one format, by run folder."""
        return tuple(each for each in self.records if each.format.name == wanted.name)


def take_inventory(paths: Sequence[Path], limits: Limits, formats: Sequence[RecordFormat] = RECORDS) -> Inventory:
    """List the run at these paths: files are traces, or of a format that recognises their content; of a folder the
    traces in it and in the folders directly below.

    Where these hold none, the first level further below that holds traces is taken.
    There are none where a folder holds records only; InputError where it holds nothing of a run.
    """
    traces: list[Path] = []
    notes: list[str] = []
    given: dict[str, list[Path]] = {}
    links: list[tuple[Path, Path]] = []  # the folder, and a link in it that leads out of it
    deeper: list[Path] = []  # tables in folders further below that no reader takes
    others: list[tuple[int, Path, list[Path]]] = []  # where the note belongs, the folder, files that are no traces
    nested = [each for each in formats if each.nested and each.recognises is not None]
    rest, held = _record_folders(paths, formats)
    for path in rest:
        if _exists_as_file(path):
            known = _recognised(path, formats)
            traces += [] if known or _named(path, formats) else [path]
            for each in known:
                given.setdefault(each.name, []).append(path)
            continue
        if not path.is_dir():
            raise InputError(f"{path}: is neither a file nor a folder; give a trace file")
        seen = _Seen()
        found, other = _in_folder(path, notes, nested, given, seen)
        links += [(path, each) for each in seen.links]
        deeper += seen.tables
        found = _without_copies(found, notes)
        if len(found) > limits.files:
            notes.append(f"{path} holds {len(found)} traces; the first {limits.files} are read")
        others.append((len(notes), path, other))
        traces += found[: limits.files]
    unique = list({os.path.realpath(file): file for file in reversed(traces)}.values())[::-1]
    records = _records(rest, formats, given, held, notes)
    claimed = {file for each in records for file in each.files}
    unread: list[Path] = []
    for place, folder, other in reversed(others):
        unknown = [file for file in other if file not in claimed]
        unread += [file for file in (*unknown, *_logs(folder)) if file not in claimed and not leads_out(file, folder)]
        if unknown:
            notes.insert(place, _passed_over(folder, unknown))
    notes += _left_out_links(links)
    if left := unread_line(list(dict.fromkeys([*unread, *deeper]))):
        notes.insert(0, left)
    if not unique and not any(each.format.makes_run for each in records):
        raise InputError(
            f"{', '.join(map(str, paths))}: no trace there (.json, .json.gz, .sqlite), and no other source of a "
            "run: no job output, samples, dumps or monitor records" + (f" ({notes[0]})" if notes else "")
        )
    return Inventory(tuple(unique), records, tuple(notes), left)


def _record_folders(paths: Sequence[Path], formats: Sequence[RecordFormat]) -> tuple[list[Path], dict[str, list[Path]]]:
    """The other paths; and of folders of records that were given themselves (``monitor/`` with its files, or a file
    in it) the run folder, by format."""
    rest: list[Path] = []
    held: dict[str, list[Path]] = {}
    for path in paths:
        folder = (path.parent if _exists_as_file(path) else path).absolute()
        own = next((each for each in formats if each.folder == folder.name and _holds(path, each)), None)
        if own is None:
            rest.append(path)
        else:
            held.setdefault(own.name, []).append(folder.parent)
    return rest, held


def _holds(path: Path, wanted: RecordFormat) -> bool:
    """Return whether the path is a file of the format, or a folder with those that it needs."""
    if _exists_as_file(path):
        return bool(wanted.names.match(unpacked_name(path)))
    try:
        return bool(plain_or_packed(path, wanted.needed or wanted.names))
    except OSError:  # noted where it is listed as the folder that it is
        return False


def _named(path: Path, formats: Sequence[RecordFormat]) -> bool:
    """Whether a file given by its path bears the name of records of a run folder, where it is then read, and is no
    trace that somebody named so."""
    return not (is_trace_file(path.name) and _holds_trace(path)) and any(
        each.recognises is None and not each.folder and each.names.match(unpacked_name(path)) is not None
        for each in formats
    )


def _holds_trace(path: Path) -> bool:
    """Whether the file begins as a trace with a list of events does, whatever its name."""
    try:
        data = beginning(path, LOOKED_AT).data
    except OSError:  # said where it is read
        return False
    return TRACE_EVENTS.search(data) is not None


def _holds_json_lines(path: Path) -> bool:
    """Whether the file holds an object on each line, as loggers write their metrics, whatever its name."""
    try:
        lines = bytes(beginning(path, LINES_LOOKED_AT).data).split(b"\n", 2)
    except OSError:
        return False
    return len(lines) > 1 and all(each.startswith(b"{") and each.rstrip().endswith(b"}") for each in lines[:2])


def _recognised(path: Path, formats: Sequence[RecordFormat]) -> tuple[RecordFormat, ...]:
    """The formats of a file given by its path that no reader of traces knows by its name: the first nested one, else
    all others that know its content, as a job's output may hold a table of nvidia-smi."""
    records = not is_trace_file(path.name) or _holds_json_lines(path)
    asked = [each for each in formats if each.nested or records]
    known = [each for each in asked if each.recognises is not None and each.recognises(path)]
    return tuple([each for each in known if each.nested][:1] or known)


def _records(
    paths: Sequence[Path],
    formats: Sequence[RecordFormat],
    given: Mapping[str, list[Path]],
    held: Mapping[str, list[Path]],
    notes: list[str],
) -> tuple[FolderFiles, ...]:
    own = dict.fromkeys(path if path.is_dir() else path.parent for path in paths)
    around = dict.fromkeys(each.parent if CAPTURE.match(each.name) else each for each in own)
    found: list[FolderFiles] = []
    named = [each.names for each in formats if each.recognises is None and not each.folder]
    folders = dict.fromkeys(each.parent if CAPTURE.match(each.name) else each for each in paths if each.is_dir())
    for wanted in formats:
        if wanted.recognises is not None:
            if given.get(wanted.name):
                found.append(FolderFiles(wanted, given[wanted.name][0].parent, tuple(given[wanted.name])))
            for folder in () if wanted.nested else folders:
                if content := _by_content(folder, wanted, named):
                    found.append(FolderFiles(wanted, folder, tuple(content)))
            continue
        places = [*(own if wanted.with_capture else around), *held.get(wanted.name, ())]
        for folder in list({os.path.realpath(each): each for each in reversed(places)}.values())[::-1]:
            files = _listed(folder, wanted, notes)
            if any((wanted.needed or wanted.names).match(unpacked_name(file)) for file in files):
                found.append(FolderFiles(wanted, folder, tuple(files)))
    return tuple(found)


def _listed(folder: Path, wanted: RecordFormat, notes: list[str]) -> list[Path]:
    """Nothing where the folder cannot be listed; links that lead out of it are left out."""
    place = folder / wanted.folder
    try:
        found = [file for file in plain_or_packed(place, wanted.names)[:MOST_FILES] if file.is_file()]
    except OSError as error:
        notes.append(f"{place}: cannot be listed ({error.strerror}); what lies there was left out")
        return []
    if found and not lies_within(place, folder):
        notes.append(f"{place}: is a link that leads out of the run folder; it was left out")
        return []
    return [file for file in found if not leads_out(file, place)]


def _by_content(folder: Path, wanted: RecordFormat, named: Sequence[re.Pattern[str]]) -> list[Path]:
    """Files of the folder whose content the format recognises, but for those that others claim by name."""
    assert wanted.recognises is not None
    unclaimed = [
        file
        for file in _logged(folder, MOST_FILES)
        if not is_trace_file(file.name) and not any(each.match(unpacked_name(file)) for each in named)
    ]
    files = [file for file in unclaimed if not leads_out(file, folder)][:MOST_RECOGNISED]
    return [file for file in files if file.is_file() and wanted.recognises(file)]


def _logged(folder: Path, room: int, depth: int = 0) -> list[Path]:
    """The files of a folder, then those of the folders in it that launchers name so, in a stable order."""
    try:
        with os.scandir(folder) as listed:
            entries = sorted(islice(listed, room), key=lambda entry: entry.name)
    except OSError:  # the other formats have noted it
        return []
    files = [folder / entry.name for entry in entries if _may_be_read(entry)]
    for entry in entries:
        below = entry.is_dir(follow_symlinks=False) and LOG_FOLDERS.match(entry.name)
        if below and depth < DEEPEST and len(files) < room:
            files += _logged(folder / entry.name, room - len(files), depth + 1)
    return files


def is_run_file(folder: str, name: str) -> bool:
    """Return True when a reader knows a file of that name in the run folder ("") or in that folder inside it."""
    own = [each.names for each in RECORDS if each.folder == folder]
    traces = is_trace_file(name) and not (folder and own)
    return traces or any(names.match(name.removesuffix(PACKED)) for names in own)


def is_trace_file(name: str) -> bool:
    """Return True when a reader of traces knows a file of that name."""
    return any(each.names.match(name.removesuffix(PACKED)) for each in TRACES)


def _claimed(path: Path, nested: Sequence[RecordFormat], given: dict[str, list[Path]]) -> bool:
    """Whether a format of nested files recognises the file, which is then given to it."""
    # Packed files named as traces are mostly traces, of which not each is unpacked for every format.
    own_name = not path.name.endswith(PACKED) or not is_trace_file(path.name)
    asked = (each for each in nested if own_name or each.names.match(unpacked_name(path)))
    wanted = next((each for each in asked if each.recognises is not None and each.recognises(path)), None)
    if wanted is not None:
        given.setdefault(wanted.name, []).append(path)
    return wanted is not None


def _holds_events(path: Path) -> bool:
    """Whether a reader of traces knows the file by its name, and finds events in it where a name says little."""
    formats = [each for each in TRACES if each.names.match(path.name.removesuffix(PACKED))]
    return any(each.holds is None or each.holds(path) for each in formats)


def _exists_as_file(path: Path) -> bool:
    try:
        if not path.exists():
            raise InputError(f"{path}: there is no such file or folder; check the path")
        return path.is_file()
    except OSError as error:
        raise InputError(f"{path}: cannot be opened ({error.strerror}); check its path and permissions") from error


@dataclass
class _Seen:
    """What was met on the way to the traces of a folder."""

    links: list[Path] = field(default_factory=list)  # that lead out of it and are listed nowhere else
    tables: list[Path] = field(default_factory=list)  # in folders further below, of no known kind


def _left_out_links(links: Sequence[tuple[Path, Path]]) -> list[str]:
    """A line for each of the first links that lead out of a folder, and one for the others."""
    lines = [
        f"{link.relative_to(folder)}: is a link that leads out of the run folder; it was left out, so give its target"
        " as a path of its own"
        for folder, link in links[:MOST_LINKS]
    ]
    rest = len(links) - MOST_LINKS
    return [*lines, f"{rest} more links lead out of the run folder and were left out"] if rest > 0 else lines


def _in_folder(
    folder: Path,
    notes: list[str],
    nested: Sequence[RecordFormat],
    given: dict[str, list[Path]],
    seen: _Seen,
) -> tuple[list[Path], list[Path]]:
    """Traces in the folder and the folders directly below, and files there that are none and not known either.

    Where there is no trace, folders further below are looked at, level by level until one holds traces: profilers and
    loggers nest them (``tb/rank0/plugins/profile/...``). Files of ``nested`` formats on the way are ``given`` to these.
    """
    level = [folder]
    files: list[Path] = []
    found: list[Path] = []
    room = MOST_ENTRIES
    for depth in range(DEEPEST + 1):
        own: list[Path] = []
        below: list[Path] = []
        for place in level:
            room -= _look(place, room, own, below, notes if depth else None, seen.links)
        own = [each for each in own if leads_out(each, folder) or not _claimed(each, nested, given)]
        files += own if depth <= 1 else []
        seen.tables += [] if depth <= 1 else [each for each in own if each.suffix == ".csv"]
        found += [each for each in own if not leads_out(each, folder) and _holds_events(each)]
        if room <= 0:
            notes.append(f"{folder} holds more than {MOST_ENTRIES} files and folders; the others were not looked at")
            break
        if depth and (found or not below):
            break
        level = below[:MOST_FOLDERS]
    taken = set(found)
    seen.links[:] = [each for each in seen.links if leads_out(each, folder)]
    return found, [each for each in files if each not in taken]


XPROF, XPROF_COPY = ".xplane.pb", ".trace.json"


def _without_copies(found: Sequence[Path], notes: list[str]) -> list[Path]:
    """The traces without those that XProf writes next to its recording for viewers, shortened to a million events."""
    recorded = {each.with_name(unpacked_name(each)) for each in found if unpacked_name(each).endswith(XPROF)}
    copies = [
        each
        for each in (found if recorded else ())
        if (name := unpacked_name(each)).endswith(XPROF_COPY)
        and each.with_name(name.removesuffix(XPROF_COPY) + XPROF) in recorded
    ]
    notes += [f"{each.name} is a shortened copy of the {XPROF} file next to it and was left out" for each in copies]
    return [each for each in found if each not in copies]


def _logs(folder: Path) -> list[Path]:
    """The files of a folder that are named as logs are, which may be those of a job."""
    return [file for file in _logged(folder, MOST_FILES) if LOG_NAME.match(unpacked_name(file))]


def _look(
    place: Path, room: int, files: list[Path], below: list[Path], notes: list[str] | None, links: list[Path]
) -> int:
    """Add the files of a folder that may be traces and the folders in it, and return how many entries were looked at.

    Links to folders and the folders of records are passed over; links that are in neither list are in ``links``. Where
    the folder cannot be listed that is noted, or InputError raised without notes.
    """
    try:
        with os.scandir(place) as listed:
            entries = sorted(islice(listed, room), key=lambda entry: entry.name)
    except OSError as error:
        if notes is None:
            raise InputError(f"{place}: cannot be listed ({error.strerror}); check its permissions") from error
        notes.append(f"{place}: cannot be listed ({error.strerror}); it was left out")
        return 0
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if not entry.name.startswith(".") and entry.name not in RECORD_FOLDERS:
                below.append(place / entry.name)
        elif place.name not in RECORD_FOLDERS and not NO_TRACE.match(entry.name) and _may_be_read(entry):
            files.append(place / entry.name)
        elif entry.is_symlink() and entry.name not in RECORD_FOLDERS and not entry.name.endswith(".md"):
            links.append(place / entry.name)
    return len(entries)


def _may_be_read(entry: os.DirEntry[str]) -> bool:
    """Whether it is there and no folder: pipes, sockets and devices are listed, and refused when they are read."""
    try:
        return not stat.S_ISDIR(entry.stat().st_mode)
    except OSError:  # a link to nothing, a loop of links, or nothing that may be looked at
        return False


def _passed_over(folder: Path, other: list[Path]) -> str:
    names = ", ".join(entry.name for entry in other[:3]) + (", ..." if len(other) > 3 else "")
    what = "1 file in {} is no trace or lies outside of it and was skipped"
    if len(other) > 1:
        what = f"{len(other)} files in {{}} are no traces or lie outside of it and were skipped"
    return f"{what.format(folder)}: {names}"
