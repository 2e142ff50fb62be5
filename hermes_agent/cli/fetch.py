"""Copies the files of a run from a URL: only names that a reader knows, bounded in number, depth and bytes."""

from __future__ import annotations

import atexit
import hashlib
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Protocol

from hermes_agent.monitor.places import CAPTURES, RECORDS
from hermes_agent.watch.publish import said, without_credentials
from tools.errors import InputError, UsageError

TOP = re.compile(r"(steps_rank\d{1,6}\.jsonl|.+\.json)(\.gz)?\Z")
OF_RECORDS = re.compile(r"(rank[\w-]+\.(steps|events\.jsonl)|anomalies-[\w.-]+\.jsonl)(\.gz)?\Z")
TRACE = re.compile(r".+\.json(\.gz)?\Z")
ODD = re.compile(r"[\x00-\x1f\x7f/\\]|^\.")  # in a name: nothing of ours has that
LONGEST_NAME = 255
MOST_FOLDERS = 256
MOST_FILES = 4096
MOST_BYTES = 16 << 30
CHUNK_BYTES = 1 << 20
KEPT = 4  # copies in the cache; the oldest go first


class _Files(Protocol):
    """What is used of an fsspec file system."""

    def exists(self, path: str) -> bool: ...

    def isdir(self, path: str) -> bool: ...

    def size(self, path: str) -> int | None: ...

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
        target = _folder(url, cache_dir)
        copied = _copied(files, found, target, shown)
    except (InputError, UsageError):
        raise
    except Exception as error:  # whatever the protocol's package raises where it cannot list or read
        raise InputError(f"{shown}: cannot be read ({said(error, url)}); check the URL and the rights") from error
    print(f"hermes-dx: copied {len(found)} file(s), {copied / (1 << 20):.1f} MiB, from {shown}", file=sys.stderr)
    return target


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
    except (ImportError, ValueError, OSError) as error:
        raise UsageError(
            f"{shown}: cannot be opened ({said(error, url)}); check the URL and install what it needs"
        ) from error
    return files, str(root).rstrip("/")


def _listed(files: _Files, root: str, shown: str) -> Iterator[_Found]:
    """The run's files at the root and in the folders directly below; the file itself where the URL names one."""
    if not files.exists(root):
        raise InputError(f"{shown}: there is no such file or folder; check the URL")
    if not files.isdir(root):
        name = root.rpartition("/")[2]
        if TRACE.match(name) and _sound(name):
            yield _Found(root, PurePosixPath(name), int(files.size(root) or 0))
        return
    folders = []
    for name, entry in _entries(files, root):
        if entry.get("type") == "directory":
            folders.append(name)
        elif TOP.match(name):
            yield _Found(str(entry["name"]), PurePosixPath(name), int(entry.get("size") or 0))
    for folder in folders[:MOST_FOLDERS]:
        wanted = OF_RECORDS if folder == RECORDS else TRACE
        for name, entry in _entries(files, f"{root}/{folder}"):
            if entry.get("type") != "directory" and wanted.match(name):
                yield _Found(str(entry["name"]), PurePosixPath(folder, name), int(entry.get("size") or 0))


def _entries(files: _Files, folder: str) -> list[tuple[str, dict[str, Any]]]:
    """The last part of each name in a folder, with what is told of it; odd names are passed over."""
    listed = files.ls(folder, detail=True)
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
    return (
        f"{shown}: holds {count} files of a run with {size / (1 << 30):.1f} GiB or more, too much to be copied from a"
        " URL; copy those you want into a local folder"
    )


def _folder(url: str, cache_dir: Path | None) -> Path:
    """An empty folder for the copy."""
    if cache_dir is None:
        temporary = Path(tempfile.mkdtemp(prefix="hermes-dx-"))
        atexit.register(shutil.rmtree, temporary, ignore_errors=True)
        return temporary
    kept = cache_dir / "fetched"
    target = kept / hashlib.blake2b(url.encode(), digest_size=12).hexdigest()
    try:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        with suppress(OSError):  # another process may be clearing the same folder
            for old in sorted(kept.iterdir(), key=lambda path: path.stat().st_mtime)[:-KEPT]:
                shutil.rmtree(old, ignore_errors=True)
    except OSError:
        return _folder(url, None)
    return target
