"""Copies the records, anomalies and traces of a run folder to where the other machines' are: a folder or a URL."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hermes_agent.monitor.places import CAPTURES, RECORDS
from tools.errors import InputError, UsageError

FINISHED = (f"{RECORDS}/rank*.steps", f"{RECORDS}/rank*.events.jsonl", f"{RECORDS}/anomalies-*.jsonl")
TRACES = f"{CAPTURES}*/*.gz"
EVERY_S = 60.0


def without_credentials(url: str) -> str:
    """The URL as it may be shown: without user, password, query and fragment.

    A password may hold anything: what stands before the last @ is not shown.
    """
    begin, slashes, rest = url.partition("//")
    before, _, after = rest.rpartition("@")
    if re.search(r"[?#]", before):  # a password, or a query with an @ in it: which one cannot be told
        return f"{begin}{slashes}..."
    cut = "...@" if "/" in before else ""
    return re.split(r"[?#]", f"{begin}{slashes}{cut}{after}", maxsplit=1)[0]


def said(error: Exception, url: str) -> str:
    """The error's text where it cannot hold a part of what is not to be shown."""
    return type(error).__name__ if re.search(r"[@?#]", url) else str(error)


class Publisher:
    """Copies what is new or has grown; whatever fsspec can open is a target. Raises UsageError where it cannot."""

    def __init__(self, run_folder: Path, url: str) -> None:
        try:
            import fsspec  # type: ignore[import-untyped]
        except ImportError as error:
            raise UsageError("fsspec is missing; install it, with the package for that kind of URL") from error
        self._folder, self._url = run_folder, without_credentials(url)
        try:
            self._files: Any
            self._files, self._root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError, OSError) as error:
            raise UsageError(
                f"{self._url}: cannot be written to ({said(error, url)}); check the URL and install what it needs"
            ) from error
        self._sent: dict[Path, tuple[int, int]] = {}
        self._next_s = 0.0

    def due(self, now_s: float) -> bool:
        """Whether a minute has passed; ``now_s`` of a clock that only goes forward."""
        if now_s < self._next_s:
            return False
        self._next_s = now_s + EVERY_S
        return True

    def publish(self) -> int:
        """Copies, and says how many files; raises InputError where the target does not take them."""
        count = 0
        for path in sorted(path for pattern in (*FINISHED, TRACES) for path in self._folder.glob(pattern)):
            if path.is_symlink() or path.parent.is_symlink() or not path.is_file():
                continue
            about = path.stat()
            seen = about.st_size, about.st_mtime_ns
            if self._sent.get(path) == seen:
                continue
            target = f"{self._root.rstrip('/')}/{path.relative_to(self._folder).as_posix()}"
            try:
                self._files.makedirs(target.rpartition("/")[0], exist_ok=True)
                self._files.put_file(str(path), target)
            except OSError as error:
                raise InputError(
                    f"{self._url}: cannot take {path.name} ({type(error).__name__}); check the rights"
                ) from error
            self._sent[path] = seen
            count += 1
        return count
