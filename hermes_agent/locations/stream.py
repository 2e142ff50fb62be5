"""Traces and summaries behind a URL (fsspec), read from start to end where they are worked on, never copied first."""

from __future__ import annotations

import errno
import hashlib
import io
import json
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, Literal
from uuid import uuid4

from hermes_agent.locations.fetch import asking, listed, opened
from hermes_agent.locations.http_guard import PROTOCOLS, HttpGuard
from hermes_agent.locations.places import error_text, without_credentials
from tools.errors import InputError
from tools.sources.inventory import is_trace_file
from tools.summaries.folder import RefusedError, file_bytes

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

READ_BYTES = 1 << 20
# By these a store says which content a file has; a size alone does not.
CONTENT = ("ETag", "etag", "Content-MD5", "content_md5", "md5Hash", "Digest", "generation", "version_id")
CHANGED = ("Last-Modified", "LastModified", "last_modified", "mtime", "created")


@dataclass(frozen=True)
class RemoteTrace:
    """One trace of a run at a URL; it travels to the worker that reads it."""

    url: str = field(repr=False)  # of the run, perhaps with credentials
    remote: str = field(repr=False)  # in the URL's file system
    place: Path  # inside the run

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.place.name

    def __str__(self) -> str:
        shown = without_credentials(self.url)
        return shown if PurePosixPath(shown).name == self.name else f"{shown.rstrip('/')}/{self.place}"

    def open(self, mode: Literal["rb"]) -> BinaryIO:
        """Begin to read; raises OSError, also when what was opened is read."""
        guard = HttpGuard(self.url)
        files, _ = opened(self.url, guard=guard)
        whole = {"block_size": 0} if self.remote.partition("://")[0] in PROTOCOLS else {}  # one request, not ranges
        try:
            return io.BufferedReader(_Remote(files.open(self.remote, mode, **whole), guard, self.url), READ_BYTES)
        except Exception as error:  # the protocol's package may raise anything
            raise _failure(error, guard, self.url) from error

    def identity(self) -> str:
        """Return what names its content, by what the store says of it; "" where it says too little."""
        guard = HttpGuard(self.url)
        files, _ = opened(self.url, guard=guard)
        with asking(self.url, guard):
            about: dict[str, Any] = files.info(self.remote)
        known = {name: str(about[name]) for name in (*CONTENT, *CHANGED) if about.get(name)}
        if not known:
            return ""
        text = json.dumps([self.url, self.remote, str(about.get("size")), known], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


class _Remote(io.RawIOBase):
    """What is left of a file behind a URL."""

    def __init__(self, file: BinaryIO, guard: HttpGuard, url: str) -> None:
        self._file, self._guard, self._url = file, guard, url

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer)
        try:
            data = self._file.read(len(view))
        except Exception as error:  # the protocol's package may raise anything
            raise _failure(error, self._guard, self._url) from error
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        with suppress(OSError):
            self._file.close()
        super().close()


def _failure(error: Exception, guard: HttpGuard, url: str) -> OSError:
    if guard.refused:
        reason = f"the server refers to {guard.refused}, another scheme or host, which is not followed"
        return PermissionError(errno.EACCES, reason)
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, "it is not there")
    return OSError(errno.EIO, error_text(error, url) or type(error).__name__)


def traces_at(url: str) -> tuple[RemoteTrace, ...]:
    """Return the traces of the run at a URL, in a stable order; raises UsageError or InputError."""
    guard = HttpGuard(url)
    files, root = opened(url, guard=guard)
    with asking(url, guard):
        found = list(listed(files, root, without_credentials(url)))
    traces = [RemoteTrace(url, each.remote, Path(each.inside)) for each in found if is_trace_file(each.inside.name)]
    if not traces:
        raise InputError(f"{without_credentials(url)}: holds no trace; give the folder of the traces")
    return tuple(sorted(traces, key=lambda trace: trace.place))


@dataclass(frozen=True)
class RemoteFolder:
    """A folder of summaries at a URL."""

    url: str = field(repr=False)

    @property
    def shown(self) -> str:
        """The folder as a person may see it."""
        return without_credentials(self.url)

    def read(self, name: str) -> bytes | None:
        """Return the bytes of a file, None where there is none; raises ``DamagedError`` where it cannot be read."""
        return file_bytes(lambda: RemoteTrace(self.url, self._path(name), Path(name)).open("rb"))

    def write(self, name: str, data: bytes) -> None:
        """Write a file under another name and rename it then; raises ``RefusedError`` where that fails."""
        files, root = opened(self.url)
        partial = self._path(f"{name}.{uuid4().hex}.part")
        try:
            files.makedirs(root, exist_ok=True)
            files.pipe_file(partial, data)
            files.mv(partial, self._path(name))
        except Exception as error:  # the protocol's package may raise anything where it cannot write
            reason = f"takes no file ({error_text(error, self.url)}); check the URL and the rights"
            raise RefusedError(f"{self.shown}: {reason}") from error

    def _path(self, name: str) -> str:
        _, root = opened(self.url)
        return f"{root}/{name}"
