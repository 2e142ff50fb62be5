"""Who does the work of a map: requests that know nothing of each other go out, answers come back as they complete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tools.sources.workers import Lost, Request, answered

TRIES = 2  # a worker may be killed for what another one does; twice with the same rank is no accident


class Executor(Protocol):
    """Answers picklable requests somewhere else."""

    def map(self, requests: Sequence[Request]) -> Iterator[tuple[int, Any | Lost]]:
        """Yield the place of each request and its answer, in the order in which they complete."""


@dataclass(frozen=True)
class LocalProcesses:
    """So many processes of this machine."""

    workers: int

    def map(self, requests: Sequence[Request]) -> Iterator[tuple[int, Any | Lost]]:
        """Yield place and answer; a request whose process is killed is tried once more."""
        return answered(requests, min(self.workers, len(requests)), TRIES)
