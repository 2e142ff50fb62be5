"""Copying the files of a run from a URL (fsspec); only names that a reader knows are copied."""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Protocol

from hermes_agent.locations.http_guard import HttpGuard
from hermes_agent.locations.places import discard, error_text, new_folder, store, without_credentials
from hermes_agent.monitor.format import CAPTURES, RECORDS
from tools.errors import HermesError, InputError, UsageError
from tools.sources.inventory import is_run_file, is_trace_file

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
    """Return a folder with copies of the run's files; raises UsageError or InputError where the URL gives none."""
    shown = without_credentials(url)
    guard = HttpGuard(url)
    files, root = opened(url, guard=guard)
    with asking(url, guard):
        found = list(listed(files, root, shown))
        if not found:
            remedy = (
                f"give the URL of the file itself or of the folder that holds the traces, {RECORDS}/ or {CAPTURES}*/"
            )
            what = "a trace, monitor records, a step log or another file that is read by its name"
            raise InputError(f"{shown}: holds nothing that looks like {what}; {remedy}, or copy the run here")
        size = sum(each.bytes for each in found)
        if len(found) > MOST_FILES or size > MOST_BYTES:
            raise InputError(_too_much(shown, len(found), size))
        folder = new_folder(cache_dir)
        try:
            copied = _copy(files, found, folder, shown)
        except BaseException:
            discard(folder)
            raise
    count = f"{len(found)} file{'s' if len(found) > 1 else ''}"
    print(f"hermes-dx: copied {count}, {copied / (1 << 20):.1f} MiB, from {shown}", file=sys.stderr)
    return store(folder, url, shown)


@contextmanager
def asking(url: str, guard: HttpGuard) -> Iterator[None]:
    """Turn what fails while a URL is listed or read into one sentence that holds no credentials."""
    shown = without_credentials(url)
    try:
        yield
    except Exception as error:  # the protocol's package may raise anything where it cannot list or read
        if guard.refused:
            raise InputError(
                f"{shown}: the server there refers to {guard.refused}, another scheme or host, which is not followed; "
                "give that URL yourself if it is the run's"
            ) from error
        if isinstance(error, HermesError):
            raise
        if isinstance(error, OSError) and error.errno in FULL:
            raise InputError(f"{shown}: the disk for the copy is full; free some space") from error
        raise InputError(f"{shown}: cannot be read ({error_text(error, url)}); check the URL and the rights") from error


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


def opened(url: str, failure: str = "cannot be opened", guard: HttpGuard | None = None) -> tuple[Any, str]:
    """Return the fsspec file system of a URL and the path in it; raises UsageError where there is none.

    Over HTTP it asks the scheme and host of the URL alone, and ``guard`` knows where it was referred to.
    """
    try:
        import fsspec  # type: ignore[import-untyped]
    except ImportError as error:
        raise UsageError("fsspec is missing; install it, with the package for that kind of URL") from error
    try:
        files, root = fsspec.core.url_to_fs(url, **(guard or HttpGuard(url)).options())
    except Exception as error:  # the protocol's package may raise anything where it lacks something
        reason = f"{failure} ({error_text(error, url)}); check the URL and install what it needs"
        raise UsageError(f"{without_credentials(url)}: {reason}") from error
    return files, str(root).rstrip("/")


def listed(files: _Files, root: str, shown: str) -> Iterator[_Found]:
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


def _too_much(shown: str, count: int, size: int) -> str:
    return f"{shown}: holds {count} files of a run with {size / (1 << 30):.1f} GiB or more, {TOO_MUCH}"
