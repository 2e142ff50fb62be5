"""Where copies of runs lie: made in a folder of their own, then put where the URL has its place in the cache."""

from __future__ import annotations

import errno
import hashlib
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Protocol

from hermes_agent.cli.interrupt import not_removed, removed_at_end
from hermes_agent.monitor.places import CAPTURES, RECORDS
from hermes_agent.watch.publish import said, without_credentials
from tools.errors import InputError, UsageError

FOLDER = "fetched"
KEPT = 4  # copies in the cache; the oldest go first, none of this process
KEPT_ORIGINS = 256  # what the copies, also those that are gone, were copied from
ORIGIN = ".url"
PARTIAL = ".part-"
STALE_S = 86_400.0  # an unfinished copy that nothing was added to for so long belongs to no process any more
TRIES = 3

_made: set[Path] = set()  # by this process, which may be reading them


def begun(cache_dir: Path | None) -> Path:
    """An empty folder to copy into, for this user only; it goes when the process ends unless it is put in place."""
    folder = _in_cache(cache_dir) or Path(tempfile.mkdtemp(prefix="hermes-dx-"))
    removed_at_end(folder)
    return folder


def _in_cache(cache_dir: Path | None) -> Path | None:
    if cache_dir is None:
        return None
    try:
        kept = cache_dir / FOLDER
        kept.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=PARTIAL, dir=kept))
    except OSError:
        return None


def dropped(folder: Path) -> None:
    """Removes a copy that was not finished."""
    shutil.rmtree(folder, ignore_errors=True)
    not_removed(folder)


def placed(folder: Path, url: str, shown: str) -> Path:
    """Where the finished copy lies from now on: one place in the cache for each URL, where there is a cache."""
    if not folder.name.startswith(PARTIAL):
        return folder
    target = folder.with_name(hashlib.blake2b(url.encode(), digest_size=12).hexdigest())
    if not _moved(folder, target):
        return folder
    not_removed(folder)
    _made.add(target)
    with suppress(OSError):
        target.with_suffix(ORIGIN).write_text(shown, encoding="utf-8")
    with suppress(OSError):  # another process may be clearing the same folder
        _prune(target.parent)
    return target


def _moved(folder: Path, target: Path) -> bool:
    """Whether the copy took its place; another process may take the same place at the same time."""
    for _ in range(TRIES):
        with suppress(OSError):
            if target.exists():
                aside = Path(tempfile.mkdtemp(prefix=PARTIAL, dir=folder.parent))
                target.rename(aside)
                shutil.rmtree(aside, ignore_errors=True)
            folder.rename(target)
            return True
    return False


def _prune(kept: Path) -> None:
    entries = sorted((path for path in kept.iterdir() if path not in _made), key=lambda path: path.stat().st_mtime)
    origins = [path for path in entries if path.suffix == ORIGIN]
    partial = [path for path in entries if path.name.startswith(PARTIAL)]
    copies = [path for path in entries if path not in origins and path not in partial]
    stale = [path for path in partial if time.time() - path.stat().st_mtime > STALE_S]
    spare = max(KEPT - sum(path.parent == kept for path in _made), 0)
    for old in (*copies[: max(len(copies) - spare, 0)], *stale):
        shutil.rmtree(old, ignore_errors=True)
    for old in origins[:-KEPT_ORIGINS]:
        old.unlink(missing_ok=True)


def origin(path: Path) -> str:
    """The URL, without credentials, of which this is or was a copy; empty for any other path."""
    if path.parent.name != FOLDER:
        return ""
    try:
        return path.with_suffix(ORIGIN).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


TOP = re.compile(r"(steps_rank\d{1,6}\.jsonl|.+\.json)(\.gz)?\Z")
OF_RECORDS = re.compile(r"(rank[\w-]+\.(steps|events\.jsonl)|anomalies-[\w.-]+\.jsonl)(\.gz)?\Z")
TRACE = re.compile(r".+\.json(\.gz)?\Z")
ODD = re.compile(r"[\x00-\x1f\x7f/\\]|^\.")  # in a name: nothing of ours has that
LONGEST_NAME = 255
MOST_FOLDERS = 1024
MOST_FILES = 4096
MOST_BYTES = 16 << 30
TOO_MUCH = "too much to be copied from a URL; copy those you want into a local folder"
CHUNK_BYTES = 1 << 20
FULL = (errno.ENOSPC, errno.EDQUOT)  # told by the disk that takes the copy, never by what is read


class _Files(Protocol):
    """What is used of an fsspec file system."""

    def isdir(self, path: str) -> bool: ...

    def info(self, path: str) -> dict[str, Any]: ...

    def ls(self, path: str, detail: bool) -> list[dict[str, Any]]: ...

    def open(self, path: str, mode: str) -> BinaryIO: ...


@dataclass(frozen=True)
class _Found:
    remote: str
    inside: PurePosixPath  # where it goes below the copy
    bytes: int


def fetched(url: str, cache_dir: Path | None) -> Path:
    """A folder with copies of the run's files, kept in the cache until others take its place, else until the end.

    Raises UsageError where the URL cannot be opened, InputError where no file of a run lies there, or too much does.
    """
    shown = without_credentials(url)
    files, root = _opened(url, shown)
    try:
        found = list(_listed(files, root, shown))
        _check(found, shown)
        folder, copied = _copy(files, found, cache_dir, shown)
    except (InputError, UsageError):
        raise
    except Exception as error:  # whatever the protocol's package raises where it cannot list or read
        if isinstance(error, OSError) and error.errno in FULL:
            raise InputError(f"{shown}: the disk for the copy is full; free some space") from error
        raise InputError(f"{shown}: cannot be read ({said(error, url)}); check the URL and the rights") from error
    print(f"hermes-dx: copied {len(found)} file(s), {copied / (1 << 20):.1f} MiB, from {shown}", file=sys.stderr)
    return placed(folder, url, shown)


def _copy(files: _Files, found: list[_Found], cache_dir: Path | None, shown: str) -> tuple[Path, int]:
    """A folder with the files, and their bytes; nothing of it stays where it cannot be finished."""
    folder = begun(cache_dir)
    try:
        return folder, _copied(files, found, folder, shown)
    except BaseException:
        dropped(folder)
        raise


def _copied(files: _Files, found: list[_Found], target: Path, shown: str) -> int:
    """Bytes copied; what a server says of sizes need not be true, so that they are counted here."""
    total = 0
    for each in found:
        place = target.joinpath(*each.inside.parts)
        place.parent.mkdir(parents=True, exist_ok=True)
        with files.open(each.remote, "rb") as source, place.open("wb") as copy:
            while chunk := source.read(CHUNK_BYTES):
                total += len(chunk)
                if total > MOST_BYTES:
                    raise InputError(_too_much(shown, len(found), total))
                copy.write(chunk)
    return total


def _opened(url: str, shown: str) -> tuple[_Files, str]:
    try:
        import fsspec  # type: ignore[import-untyped]
    except ImportError as error:
        raise UsageError("fsspec is missing; install it, with the package for that kind of URL") from error
    try:
        files, root = fsspec.core.url_to_fs(url)
    except Exception as error:  # whatever the protocol's package raises where it lacks something
        raise UsageError(
            f"{shown}: cannot be opened ({said(error, url)}); check the URL and install what it needs"
        ) from error
    return files, str(root).rstrip("/")


def _listed(files: _Files, root: str, shown: str) -> Iterator[_Found]:
    """The run's files at the root and in the folders directly below; the file itself where the URL names one."""
    told, name = _info(files, root, shown), _trace_name(root)
    if told.get("type") == "file" and name:  # over HTTP a folder is a file as well, but not called like a trace
        yield _Found(root, PurePosixPath(name), int(told.get("size") or 0))
        return
    if not files.isdir(root):
        return
    folders = []
    for name, entry in _entries(files, root):
        if entry.get("type") == "directory":
            folders.append(name)
        elif TOP.match(name) and entry.get("type") == "file":
            yield _Found(str(entry["name"]), PurePosixPath(name), int(entry.get("size") or 0))
    if len(folders) > MOST_FOLDERS:
        raise InputError(f"{shown}: holds {len(folders)} folders, {TOO_MUCH}")
    for folder in folders:
        wanted = OF_RECORDS if folder == RECORDS else TRACE
        for name, entry in _entries(files, f"{root}/{folder}"):
            if entry.get("type") == "file" and wanted.match(name):
                yield _Found(str(entry["name"]), PurePosixPath(folder, name), int(entry.get("size") or 0))


def _info(files: _Files, root: str, shown: str) -> dict[str, Any]:
    """What is told of the root; a store that knows no folders tells nothing of one."""
    try:
        return files.info(root)
    except FileNotFoundError as error:
        if files.isdir(root):
            return {"type": "directory"}
        raise InputError(
            f"{shown}: nothing can be read there: it does not exist, or access was refused;"
            " check the URL and the rights"
        ) from error


def _trace_name(root: str) -> str:
    """The name of the trace that a URL names, which may be signed behind its name; empty where it names none."""
    names = (root.rpartition("/")[2], re.split(r"[?#]", root, maxsplit=1)[0].rpartition("/")[2])
    return next((name for name in names if TRACE.match(name) and _sound(name)), "")


def _entries(files: _Files, folder: str) -> list[tuple[str, dict[str, Any]]]:
    """The last part of each name in a folder, with what is told of it; odd names and links are passed over."""
    listed = [entry for entry in files.ls(folder, detail=True) if not entry.get("islink")]
    named = [(str(entry["name"]).rstrip("/").rpartition("/")[2], entry) for entry in listed]
    return sorted(((name, entry) for name, entry in named if _sound(name)), key=lambda pair: pair[0])


def _sound(name: str) -> bool:
    return bool(name) and len(name.encode()) <= LONGEST_NAME and not ODD.search(name)


def _check(found: list[_Found], shown: str) -> None:
    if not found:
        raise InputError(
            f"{shown}: holds no trace and no monitor records; give the folder that holds {RECORDS}/ or {CAPTURES}*/"
        )
    size = sum(each.bytes for each in found)
    if len(found) > MOST_FILES or size > MOST_BYTES:
        raise InputError(_too_much(shown, len(found), size))


def _too_much(shown: str, count: int, size: int) -> str:
    return f"{shown}: holds {count} files of a run with {size / (1 << 30):.1f} GiB or more, {TOO_MUCH}"
