"""Copies the records, anomalies and traces of a run folder to where the other machines' are: a folder or a URL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hermes_agent.locations.places import error_text, without_credentials
from hermes_agent.monitor.format import CAPTURES, RECORDS
from tools.errors import InputError, UsageError

FINISHED = (f"{RECORDS}/rank*.steps", f"{RECORDS}/rank*.events.jsonl", f"{RECORDS}/anomalies-*.jsonl")
TRACES = f"{CAPTURES}*/*.gz"
EVERY_S = 60.0


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
                f"{self._url}: cannot be written to ({error_text(error, url)}); check the URL and install what it needs"
            ) from error
        self._sent: dict[Path, tuple[int, int]] = {}
        self._next_s = 0.0

    def due(self, now_s: float) -> bool:
        """True when a minute has passed; ``now_s`` of a clock that only goes forward."""
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
                    f"{self._url}: cannot take {path.name} ({type(error).__name__}); check the permissions there"
                ) from error
            self._sent[path] = seen
            count += 1
        return count
