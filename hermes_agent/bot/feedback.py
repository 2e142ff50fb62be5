"""What people say of answers: one JSON line each, in a file of the user's own that the evaluation reads.

``{"schema": "hermes-dx/feedback/1", "at": "2026-11-23T01:00:00Z", "platform": "slack", "thread": "C1/170.1",
"user": "U1", "run": "train-7", "diagnosis": "1a2b...", "verdict": "problem", "cause": "slow_data_processing",
"mechanism": "heavy_transform", "confidence": 0.95, "right": true, "actual": ""}``

``actual``: the cause that a person names after "wrong", in a line of its own. A later line of the same user, thread
and diagnosis replaces the one before, or completes it with that cause (``read_feedback``).
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from hermes_agent.model.diagnosis import Diagnosis, Verdict
from hermes_agent.report.headline import headline_cause
from tools.errors import InputError
from tools.leftovers import private_folder

SCHEMA = "hermes-dx/feedback/1"
FILE = "feedback.jsonl"
MOST_BYTES = 64 * 2**20
DIGEST_CHARS = 16


class About(BaseModel):
    """The answer that is judged: travels in a button and comes back with the click."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, hide_input_in_errors=True)

    run: str = Field(max_length=64)
    diagnosis: str = Field(max_length=DIGEST_CHARS)
    verdict: Verdict
    cause: str = Field(default="", max_length=100)
    mechanism: str = Field(default="", max_length=100)
    confidence: float | None = None


class Feedback(About):
    """One line of the file; ``right`` is what a person said of the verdict and its first cause."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, allow_inf_nan=False)

    schema_: Literal["hermes-dx/feedback/1"] = Field(default="hermes-dx/feedback/1", alias="schema")
    at: AwareDatetime = Field(default_factory=lambda: datetime.now(UTC))
    platform: str = Field(max_length=40)
    thread: str = Field(max_length=300)
    user: str = Field(max_length=100)
    right: bool
    actual: str = Field(default="", max_length=100)


def about(run: str, diagnosis: Diagnosis) -> About:
    """What a diagnosis says, in short."""
    cause = headline_cause(diagnosis)
    digest = hashlib.blake2b(diagnosis.model_dump_json(by_alias=True).encode(), digest_size=DIGEST_CHARS // 2)
    if cause is None:
        return About(run=run, diagnosis=digest.hexdigest(), verdict=diagnosis.verdict)
    return About(
        run=run,
        diagnosis=digest.hexdigest(),
        verdict=diagnosis.verdict,
        cause=cause.cause,
        mechanism=cause.mechanism or "",
        confidence=round(cause.confidence, 4),
    )


def add_feedback(path: Path, line: Feedback) -> None:
    """Append a line; raises InputError where it cannot be kept."""
    data = line.model_dump_json(by_alias=True).encode() + b"\n"
    try:
        private_folder(path.parent)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        with os.fdopen(os.open(path, flags, 0o600), "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size + len(data) > MOST_BYTES:
                raise InputError(f"{path} is no plain file or as large as allowed; move it away to begin another")
            file.write(data)
    except OSError as error:
        raise InputError(f"{path}: feedback cannot be kept there ({error.strerror})") from error


def read_feedback(path: Path) -> tuple[Feedback, ...]:
    """The last word of each user on each diagnosis in each thread; raises InputError, which names a wrong line."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: feedback cannot be read ({error.strerror})") from error
    if len(data) > MOST_BYTES:
        raise InputError(f"{path} is larger than {MOST_BYTES:,} bytes and cannot be feedback")
    return latest(_line(path, number, line) for number, line in enumerate(data.splitlines(), start=1) if line.strip())


def latest(lines: Iterable[Feedback]) -> tuple[Feedback, ...]:
    """One record for each user, thread and diagnosis: the last line; a line that only names the cause completes it."""
    found: dict[tuple[str, str, str, str], Feedback] = {}
    for each in lines:
        key = each.platform, each.thread, each.user, each.diagnosis
        before = found.get(key)
        if each.actual and before is not None:
            each = before.model_copy(update={"right": False, "actual": each.actual, "at": each.at})
        found[key] = each
    return tuple(found.values())


def _line(path: Path, number: int, line: bytes) -> Feedback:
    try:
        return Feedback.model_validate_json(line)
    except ValidationError as error:
        raise InputError(f"{path}, line {number}: is no feedback as it is stored; remove the line") from error
