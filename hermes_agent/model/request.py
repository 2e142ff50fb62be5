"""The request for a diagnosis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from case_library.retrieval.embedding_choice import HASHED, EmbeddingChoice


@dataclass(frozen=True)
class Request:
    """One diagnosis to make."""

    paths: tuple[Path, ...]
    baseline: tuple[Path, ...] = ()
    steps: tuple[int, int] | None = None
    ranks: tuple[int, ...] = ()
    thresholds: Mapping[str, float] = field(default_factory=dict)
    cache_dir: Path | None = None  # None: nothing is kept between calls
    workers: int | None = None
    summaries: str = ""  # folder or URL with the summaries of many ranks; "": in the cache
    dask: str = ""  # scheduler whose workers make the summaries, "local" for a cluster of this machine; "": processes
    private_cases: Path | None = None  # a team's own cases, recalled with the public ones
    embedding: EmbeddingChoice = HASHED  # by which recall compares texts
    log_pattern: str = ""  # how step lines of the job's output look; "": as known programs print them
