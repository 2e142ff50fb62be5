"""The location of a run: a local path, or a URL that fsspec can list."""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Protocol

from hermes_agent.locations.copies import discard, new_folder, store
from hermes_agent.monitor.format import CAPTURES, RECORDS
from tools.errors import InputError, UsageError
from tools.sources.inventory import is_run_file, is_trace_file

URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(::[A-Za-z][A-Za-z0-9+.-]*)*://")


@dataclass(frozen=True)
class RunUrl:
    """A run folder or trace file that has to be copied here before it can be read."""

    url: str


Place = Path | RunUrl


def place(text: str) -> Place:
    """Return a command's argument as a place; nothing is opened."""
    return RunUrl(text) if URL.match(text) else Path(text)


def name_of(where: Place) -> str:
    """Return a short name of the run."""
    return where.name or str(where) if isinstance(where, Path) else without_credentials(where.url)


def local(where: Place, cache_dir: Path | None) -> Path:
    """Return a path of this machine: the one given, or a copy of the files at the URL.

    Raises UsageError if the URL cannot be opened, InputError if it holds no run.
    """
    if isinstance(where, Path):
        return where
    pass

    return fetched(where.url, cache_dir)


def without_credentials(url: str) -> str:
    """Return the URL as it may be shown: without user, password, query and fragment.

    A password may hold anything: what stands before the last @ is not shown.
    """
    begin, slashes, rest = url.partition("//")
    before, _, after = rest.rpartition("@")
    if re.search(r"[?#]", before):  # a password or a query with an @ in it: which one is unclear
        return f"{begin}{slashes}..."
    cut = "...@" if "/" in before else ""
    return re.split(r"[?#]", f"{begin}{slashes}{cut}{after}", maxsplit=1)[0]


def error_text(error: Exception, url: str) -> str:
    """Return the error's text if it cannot hold a credential of the URL, else its class name."""
    return type(error).__name__ if re.search(r"[@?#]", url) else str(error)


ODD = re.compile(r"[\x00-\x1f\x7f/\\]|^\.")  # in a name: nothing of ours has that
LONGEST_NAME = 255
MOST_FOLDERS = 1024
MOST_FILES = 4096
MOST_BYTES = 16 << 30
TOO_MUCH = "too much to be copied from a URL; copy those you want into a local folder"
CHUNK_BYTES = 1 << 20
FULL = (errno.ENOSPC, errno.EDQUOT)  # of the local disk, never of what is read


class _Files(Protocol):
    """The part of an fsspec file system that is used."""

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
    """Return a folder with copies of the run's files, in the cache or until the process ends.

    Raises UsageError if the URL cannot be opened, InputError if it holds no file of a run, or too much.
    """
    shown = without_credentials(url)
    files, root = _opened(url, shown)
    try:
        found = list(_listed(files, root, shown))
        _check(found, shown)
        folder = new_folder(cache_dir)
        try:
            copied = _copy(files, found, folder, shown)
        except BaseException:
            discard(folder)
            raise
    except (InputError, UsageError):
        raise
    except Exception as error:  # the protocol's package may raise anything where it cannot list or read
        if isinstance(error, OSError) and error.errno in FULL:
            raise InputError(f"{shown}: the disk for the copy is full; free some space") from error
        raise InputError(f"{shown}: cannot be read ({error_text(error, url)}); check the URL and the rights") from error
    count = f"{len(found)} file{'s' if len(found) > 1 else ''}"
    print(f"hermes-dx: copied {count}, {copied / (1 << 20):.1f} MiB, from {shown}", file=sys.stderr)
    return store(folder, url, shown)


def _copy(files: _Files, found: list[_Found], target: Path, shown: str) -> int:
    """Copy the files and return the bytes; sizes listed by a server may be wrong, so bytes are counted here."""
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
    except Exception as error:  # the protocol's package may raise anything where it lacks something
        remedy = "check the URL and install what it needs"
        raise UsageError(f"{shown}: cannot be opened ({error_text(error, url)}); {remedy}") from error
    return files, str(root).rstrip("/")


def _listed(files: _Files, root: str, shown: str) -> Iterator[_Found]:
    """The run's files at the root and in the folders directly below; the file itself where the URL names one."""
    info, name = _info(files, root, shown), _trace_name(root)
    if info.get("type") == "file" and name:  # over HTTP a folder is a file as well, but not called like a trace
        yield _Found(root, PurePosixPath(name), int(info.get("size") or 0))
        return
    if not files.isdir(root):
        return
    top = _entries(files, root)
    folders = [name for name, entry in top if entry.get("type") == "directory"]
    if len(folders) > MOST_FOLDERS:
        raise InputError(f"{shown}: holds {len(folders)} folders, {TOO_MUCH}")
    for folder in ("", *folders):
        for name, entry in _entries(files, f"{root}/{folder}") if folder else top:
            if entry.get("type") == "file" and is_run_file(folder, name):
                yield _Found(str(entry["name"]), PurePosixPath(folder, name), int(entry.get("size") or 0))


def _info(files: _Files, root: str, shown: str) -> dict[str, Any]:
    """The store's record of the root; a store without folders has none for a folder."""
    try:
        return files.info(root)
    except FileNotFoundError as error:
        if files.isdir(root):
            return {"type": "directory"}
        reason = "it does not exist, or access was refused; check the URL and the rights"
        raise InputError(f"{shown}: nothing can be read there: {reason}") from error


def _trace_name(root: str) -> str:
    """The name of the trace that a URL names, also with a signature behind it; empty where it names none."""
    names = (root.rpartition("/")[2], re.split(r"[?#]", root, maxsplit=1)[0].rpartition("/")[2])
    return next((name for name in names if is_trace_file(name) and _sound(name)), "")


def _entries(files: _Files, folder: str) -> list[tuple[str, dict[str, Any]]]:
    """The last part of each name in a folder with its record; odd names and links are left out."""
    listed = [entry for entry in files.ls(folder, detail=True) if not entry.get("islink")]
    named = [(str(entry["name"]).rstrip("/").rpartition("/")[2], entry) for entry in listed]
    return sorted(((name, entry) for name, entry in named if _sound(name)), key=lambda pair: pair[0])


def _sound(name: str) -> bool:
    return bool(name) and len(name.encode()) <= LONGEST_NAME and not ODD.search(name)


def _check(found: list[_Found], shown: str) -> None:
    if not found:
        remedy = f"give the folder that holds {RECORDS}/ or {CAPTURES}*/"
        raise InputError(f"{shown}: holds no trace and no monitor records; {remedy}")
    size = sum(each.bytes for each in found)
    if len(found) > MOST_FILES or size > MOST_BYTES:
        raise InputError(_too_much(shown, len(found), size))


def _too_much(shown: str, count: int, size: int) -> str:
    return f"{shown}: holds {count} files of a run with {size / (1 << 30):.1f} GiB or more, {TOO_MUCH}"
