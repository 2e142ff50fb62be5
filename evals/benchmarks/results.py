"""Measured results as a file next to RESULTS.md, and what has become worse since."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from evals.benchmarks.process import Cost

HERE = Path(__file__).resolve().parent
COMMITTED = HERE / "results.json"
WORSE = 1.25  # a ratio may be so many times the committed one before the benchmark fails


@dataclass(frozen=True)
class Conditions:
    """When and on what something was measured; loads are averages over one minute."""

    commit: str
    cores: int
    python: str
    load_before: float
    load_after: float


@dataclass(frozen=True)
class Pair:
    """One round: the peer (None where it cannot read the trace), Hermes cold, Hermes warm."""

    peer: Cost | None
    cold: Cost
    warm: Cost


RATIOS = {"cold time / HTA time": 1 / 8, "cold memory / HTA memory": 1 / 3, "warm time / cold time": 1 / 100}


def ratios_of(pair: Pair) -> dict[str, float]:
    """The ratios of one pair; those against the peer are left out where it has no cost."""
    time, memory, warm = RATIOS
    against = {}
    if pair.peer is not None:
        against = {time: pair.cold.seconds / pair.peer.seconds, memory: pair.cold.peak_mib / pair.peer.peak_mib}
    return against | {warm: pair.warm.seconds / pair.cold.seconds}


@dataclass(frozen=True)
class ShapeResult:
    """All pairs on one big trace."""

    conditions: Conditions
    files: int
    events: int
    json_bytes: int
    compressed_bytes: int
    pairs: tuple[Pair, ...]
    peer_failure: str = ""  # why HTA cannot read it

    def medians(self) -> dict[str, float]:
        """The median of every ratio over the pairs."""
        rows = [ratios_of(pair) for pair in self.pairs]
        return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


@dataclass(frozen=True)
class CheckCosts:
    """CPU milliseconds on one trace, of each check by itself and of each view that checks share.

    ``rows`` are the events of the run.
    """

    rows: int
    checks: dict[str, float]
    views: dict[str, float]
    ranking_ms: float
    whole_ms: float


@dataclass(frozen=True)
class ChecksResult:
    """The cost of every check on every big trace."""

    conditions: Conditions
    shapes: dict[str, CheckCosts]


@dataclass(frozen=True)
class CommandCost:
    """Medians over several runs of a command; ``shown_s`` is the time to its first output on a terminal."""

    cpu_s: float
    seconds: float
    shown_s: float
    peak_mib: float
    packages: tuple[str, ...]  # top-level ones outside of the standard library


@dataclass(frozen=True)
class CommandsResult:
    """The cost of starting each command."""

    conditions: Conditions
    runs: int
    commands: dict[str, CommandCost]


@dataclass(frozen=True)
class RanksCost:
    """A run of many traced ranks: reduced from nothing, once more, and diagnosed from nothing."""

    conditions: Conditions
    trace_mb: float  # all traces, compressed
    reduced: Cost
    again: Cost
    diagnosed: Cost


@dataclass(frozen=True)
class EngineCost:
    """One engine's join; all engines have to find the same waiting."""

    seconds: float  # without its imports
    peak_mib: float
    caused_s: float  # waiting that all ranks cause


@dataclass(frozen=True)
class JoinResult:
    """The join of the collectives of all ranks, by engine."""

    conditions: Conditions
    ranks: int
    collectives: int  # of each rank
    engines: dict[str, EngineCost]


@dataclass(frozen=True)
class Results:
    """Everything that the benchmark measures; a part that was not measured is None. ``ranks`` is by their number."""

    shapes: dict[str, ShapeResult] = field(default_factory=dict)
    checks: ChecksResult | None = None
    commands: CommandsResult | None = None
    ranks: dict[int, RanksCost] = field(default_factory=dict)
    join: JoinResult | None = None

    def updated(self, newer: Results) -> Results:
        """These results with the parts of ``newer`` in place of their own."""
        return Results(
            self.shapes | newer.shapes,
            newer.checks or self.checks,
            newer.commands or self.commands,
            self.ranks | newer.ranks,
            newer.join or self.join,
        )


def read(path: Path = COMMITTED) -> Results:
    """The stored results; none where there is no file."""
    return msgspec.json.decode(path.read_bytes(), type=Results) if path.exists() else Results()


def write(results: Results, path: Path) -> None:
    """Store the results."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")


def conditions(load_before: float) -> Conditions:
    """The conditions of what was just measured."""
    return Conditions(commit(), os.cpu_count() or 1, platform.python_version(), load_before, load())


def load() -> float:
    """The machine's load, averaged over one minute."""
    return round(os.getloadavg()[0], 2)


def commit() -> str:
    """The commit of the checkout, with a plus sign where files differ from it."""
    words = ["git", "-C", str(HERE), "describe", "--always", "--abbrev=7", "--dirty=+", "--exclude=*"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def worse(now: Mapping[str, ShapeResult], before: Mapping[str, ShapeResult]) -> Sequence[str]:
    """One line for every ratio whose median is more than ``WORSE`` times the committed one."""
    lines = []
    for shape, result in now.items():
        known = before[shape].medians() if shape in before else {}
        for name, ratio in result.medians().items():
            if name in known and ratio > WORSE * known[name]:
                lines.append(f"{shape}: {name} is {ratio:.4f}, more than {WORSE} times the committed {known[name]:.4f}")
    return lines
