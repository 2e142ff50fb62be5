"""The request of a session as it is stored: what names the run, not where data or keys go."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from hermes_agent.model.record import Record
from hermes_agent.model.request import Request


class StoredRequest(Record):
    """Paths, restrictions and thresholds. The caches, a team's cases and cluster addresses come from the settings."""

    paths: list[str]
    baseline: list[str] = Field(default_factory=list)
    steps: tuple[int, int] | None = None
    ranks: list[int] = Field(default_factory=list)
    thresholds: dict[str, float] = Field(default_factory=dict)
    log_pattern: str = ""

    @classmethod
    def of(cls, request: Request) -> StoredRequest:
        """The stored form; relative paths become absolute, because a session is opened from another directory."""
        return cls(
            paths=[str(path.absolute()) for path in request.paths],
            baseline=[str(path.absolute()) for path in request.baseline],
            steps=request.steps,
            ranks=list(request.ranks),
            thresholds=dict(request.thresholds),
            log_pattern=request.log_pattern,
        )

    def request(self, cache_dir: Path) -> Request:
        """The request again."""
        return Request(
            paths=tuple(map(Path, self.paths)),
            baseline=tuple(map(Path, self.baseline)),
            steps=self.steps,
            ranks=tuple(self.ranks),
            thresholds=dict(self.thresholds),
            log_pattern=self.log_pattern,
            cache_dir=cache_dir,
        )
