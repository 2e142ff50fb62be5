"""Runs registered under a name, which other programs and chat messages may use instead of a path.

They lie in ``runs.json`` in the user's configuration folder, readable by this user alone. A change takes a lock, reads
the file again and replaces it whole, so that several processes can register runs at the same time.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hermes_agent.config.settings import Settings
from tools.errors import InputError, UsageError
from tools.leftovers import private_folder

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
MOST_RUNS = 1000
MOST_PATHS = 64  # of one run
LONGEST_PATH = 4096  # characters
MOST_BYTES = 4 * 2**20  # of the file
LISTED = 5  # names in a message

Name = Annotated[str, Field(pattern=f"^{NAME}$")]
StoredPath = Annotated[str, Field(min_length=1, max_length=LONGEST_PATH, pattern="^/")]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    schema_: Literal["hermes-dx/runs/1"] = Field(default="hermes-dx/runs/1", alias="schema")
    runs: dict[Name, Annotated[tuple[StoredPath, ...], Field(min_length=1, max_length=MOST_PATHS)]] = {}


@dataclass(frozen=True)
class RegisteredRun:
    """A run by its name: absolute paths of traces, records or the folder that holds them."""

    name: str
    paths: tuple[Path, ...]

    @property
    def missing(self) -> tuple[Path, ...]:
        """The paths that are no longer there."""
        return tuple(path for path in self.paths if not os.path.lexists(path))


class RegisteredRuns:
    """The registered runs as they are in the file at one moment; ``add`` and ``remove`` change the file."""

    def __init__(self, path: Path, runs: Mapping[str, RegisteredRun]) -> None:
        self.path = path
        self.runs = dict(sorted(runs.items()))

    @classmethod
    def load(cls, settings: Settings) -> Self:
        """Return the runs of this user; raises InputError, which names the file, where it cannot be read."""
        if settings.runs_file is None:
            raise UsageError("these settings name no file of registered runs")
        return cls(settings.runs_file, _read(settings.runs_file))

    def get(self, name: str) -> RegisteredRun:
        """Return the run of that name.

        Raises UsageError with the nearest names where there is none, InputError where a path of it is gone.
        """
        found = self.runs.get(name)
        if found is None:
            raise UsageError(self._unknown(name))
        if found.missing:
            raise InputError(
                f"the run {name} was registered with {found.missing[0]}, which is no longer there; register it again "
                f"with `hermes-dx runs add {name} PATH --replace`, or remove it"
            )
        return found

    def add(self, name: str, paths: Sequence[Path], *, replace: bool = False) -> RegisteredRun:
        """Register paths under a name; raises UsageError for a wrong or known name, InputError for a missing path."""
        run = RegisteredRun(checked_name(name), tuple(_present(path) for path in paths))
        if not 0 < len(run.paths) <= MOST_PATHS:
            raise UsageError(f"a registered run has 1 to {MOST_PATHS} paths; name the folder that holds its files")
        with self._changing() as runs:
            if name in runs and not replace:
                raise UsageError(f"there is a run {name} already, of {runs[name].paths[0]}; add --replace to change it")
            if name not in runs and len(runs) >= MOST_RUNS:
                raise UsageError(f"{MOST_RUNS:,} runs are registered, the most allowed; remove one first")
            runs[name] = run
        return run

    def remove(self, name: str) -> RegisteredRun:
        """Forget a name, nothing of the run itself; raises UsageError with the nearest names where there is none."""
        with self._changing() as runs:
            if name not in runs:
                raise UsageError(self._unknown(name))
            return runs.pop(name)

    def near(self, name: str) -> list[str]:
        """Return the registered names that are spelt much like this, the nearest first."""
        return get_close_matches(name[:64], self.runs, LISTED, cutoff=0.5)

    def _unknown(self, name: str) -> str:
        shown = f" {name}" if re.fullmatch(NAME, name) else " of that name (a name is no path)"
        if not self.runs:
            return f"there is no registered run{shown}; register one with `hermes-dx runs add NAME PATH`"
        near = self.near(name)
        some = near or list(self.runs)[:LISTED]
        more = len(self.runs) - len(some) if not near else 0
        listed = ", ".join(some) + (f" and {more} more" if more else "")
        return f"there is no registered run{shown}; {'did you mean' if near else 'there are'} {listed}" + "?" * bool(
            near
        )

    @contextmanager
    def _changing(self) -> Iterator[dict[str, RegisteredRun]]:
        """The runs in the file, written back with what was changed; no other process changes them meanwhile."""
        try:
            private_folder(self.path.parent)
            with os.fdopen(os.open(self.path.with_suffix(".lock"), LOCK_FLAGS, 0o600)) as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self.runs = _read(self.path)
                yield self.runs
                self.runs = dict(sorted(self.runs.items()))
                _write(self.path, self.runs)
        except OSError as error:
            raise InputError(f"{self.path}: runs cannot be registered there ({error.strerror})") from error


LOCK_FLAGS = os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK


def is_name(text: str) -> bool:
    """Return whether a run could be registered under this text."""
    return re.fullmatch(NAME, text) is not None


def checked_name(name: str) -> str:
    """Return the name; raises UsageError where it is none, such as a path."""
    if not is_name(name):
        raise UsageError(
            "a run's name has 1 to 64 letters, digits, dots, hyphens and underscores, a letter or digit first"
        )
    return name


def _present(path: Path) -> Path:
    """The path, absolute and with its links resolved."""
    try:
        found = path.expanduser().resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise InputError(f"{path}: there is no such file or folder") from error
    try:
        str(found).encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{found}: holds bytes that are no text and cannot be registered; rename it") from error
    return found


def _read(path: Path) -> dict[str, RegisteredRun]:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InputError(f"{path} is no regular file and cannot hold the registered runs")
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise InputError(f"{path} is larger than {MOST_BYTES:,} bytes and cannot be the list of registered runs")
        stored = _File.model_validate_json(data)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InputError(f"{path}: the registered runs cannot be read ({error.strerror})") from error
    except ValidationError as error:
        raise InputError(
            f"{path} does not hold registered runs as they are stored; move the file away to begin with none"
        ) from error
    return {name: RegisteredRun(name, tuple(map(Path, paths))) for name, paths in sorted(stored.runs.items())}


def _write(path: Path, runs: Mapping[str, RegisteredRun]) -> None:
    """Replace the file whole, readable by this user alone; raises OSError."""
    stored = _File(runs={name: tuple(map(str, run.paths)) for name, run in runs.items()})
    data = stored.model_dump_json(by_alias=True, indent=2).encode() + b"\n"
    if len(data) > MOST_BYTES:
        raise UsageError(f"the registered runs would take more than {MOST_BYTES:,} bytes; register folders, not files")
    descriptor, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(partial).replace(path)
    except OSError:
        with suppress(OSError):
            Path(partial).unlink()
        raise
