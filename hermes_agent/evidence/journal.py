"""Figures and cases that answers added to a diagnosis: one file each, appended under a lock."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from hermes_agent.model.diagnosis import CaseRecord, Diagnosis, EvidenceRecord
from tools.leftovers import write_whole

try:
    import fcntl
except ImportError:  # not on this system: writers are not locked out
    fcntl = None  # type: ignore[assignment]

RecordT = TypeVar("RecordT", EvidenceRecord, CaseRecord)
FOLDER = "measured"
MOST_LINES = 4_000  # of one diagnosis; the oldest go first
MOST_FILES = 256
LONGEST_FILE = 64 * 2**20  # bytes; a larger one was not written here


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    evidence: EvidenceRecord | None = None
    case: CaseRecord | None = None


def journal_of(cache_dir: Path | None, diagnosis: Diagnosis) -> Journal:
    """The journal of a diagnosis, named by its content; without a folder one that is forgotten."""
    if cache_dir is None:
        return Journal(None)
    name = hashlib.blake2b(diagnosis.model_dump_json(by_alias=True).encode(), digest_size=16).hexdigest()
    return Journal(cache_dir / FOLDER / f"{name}.jsonl")


class Journal:
    """Records in the order in which they were added, by this and by other programs."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lines: list[_Line] = []
        self._size = -1  # of the file when it was read last

    def evidence(self) -> tuple[EvidenceRecord, ...]:
        """The figures known by now; those that others add later are seen at the next addition."""
        return tuple(line.evidence for line in self._known() if line.evidence is not None)

    def cases(self) -> tuple[CaseRecord, ...]:
        """The cases known by now."""
        return tuple(line.case for line in self._known() if line.case is not None)

    def add_evidence(
        self, same: Callable[[EvidenceRecord], bool], make: Callable[[str], EvidenceRecord], last: int
    ) -> EvidenceRecord:
        """The record that is the same already, else ``make`` of the next id; ``last`` is the last of the diagnosis."""
        return self._add("E", self.evidence, same, make, last)

    def add_case(self, same: Callable[[CaseRecord], bool], make: Callable[[str], CaseRecord], last: int) -> CaseRecord:
        """Likewise for a case."""
        return self._add("C", self.cases, same, make, last)

    def _add(
        self,
        letter: str,
        records: Callable[[], tuple[RecordT, ...]],
        same: Callable[[RecordT], bool],
        make: Callable[[str], RecordT],
        last: int,
    ) -> RecordT:
        with self._locked():
            self._refresh()
            known: tuple[RecordT, ...] = records()
            if (found := next((record for record in known if same(record)), None)) is not None:
                return found
            record = make(f"{letter}{max([last, *(int(each.id[1:]) for each in known)]) + 1}")
            line = _Line(evidence=record) if isinstance(record, EvidenceRecord) else _Line(case=record)
            self._lines.append(line)
            if self._path is not None:
                with suppress(OSError):
                    self._store(self._path, line)
                    self._size = self._path.stat().st_size
            return record

    def _known(self) -> list[_Line]:
        if self._size < 0:
            self._refresh()
        return self._lines

    def _store(self, path: Path, line: _Line) -> None:
        if len(self._lines) <= MOST_LINES:
            _append_line(path, line.model_dump_json())
            return
        self._lines = self._lines[-(MOST_LINES // 2) :]
        write_whole(path, [f"{line.model_dump_json()}\n".encode() for line in self._lines])

    def _refresh(self) -> None:
        """Reads what others have added."""
        if self._path is None:
            return
        try:
            size = self._path.stat().st_size
            if size == self._size or size > LONGEST_FILE:
                return
            text = self._path.read_bytes().decode("utf-8", errors="replace")
        except OSError:
            self._size = max(self._size, 0)
            return
        self._size = size
        self._lines = [line for line in map(_parsed, text.splitlines()) if line is not None]

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone with the file, as far as the system allows it."""
        if self._path is None or fcntl is None:
            yield
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if not self._path.exists():
                _remove_oldest(self._path.parent)
            lock = (self._path.parent / "lock").open("a")
        except OSError:
            yield
            return
        with lock:
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _append_line(path: Path, text: str) -> None:
    """One more line, on a new line even where a program died in the middle of the last."""
    with path.open("ab+") as file:
        torn = False
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            torn = file.read(1) != b"\n"
        file.write(f"{chr(10) if torn else ''}{text}\n".encode())


def _parsed(text: str) -> _Line | None:
    """One line; None when it is damaged."""
    try:
        line = _Line.model_validate_json(text)
    except ValidationError:
        return None
    record, letter = line.evidence or line.case, "E" if line.evidence else "C"
    fits = record is not None and record.id.startswith(letter) and record.id[1:].isascii() and record.id[1:].isdigit()
    return line if fits else None


def _remove_oldest(folder: Path) -> None:
    """Make room for one more file."""
    with suppress(OSError):  # another program may be clearing the same folder
        files = sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
        for path in files[: max(len(files) - MOST_FILES + 1, 0)]:
            path.unlink(missing_ok=True)
