"""How well the clocks of an emulated job are aligned, and what that does to its replay."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from evals.replay.emulator import Emulated, emulate
from evals.replay.error import explained, finish_ns
from tools.run.model import Run, Step
from tools.sources.load import load_run
from tools.views.profile import Profile
from tools.whatif.build import graph_of


@dataclass(frozen=True)
class Alignment:
    """Largest error of an offset and largest uncertainty that is stated, and the error of the replayed step."""

    offset_us: float
    uncertainty_us: float
    method: str
    replay_pct: float  # signed, without delays that no dependency explains
    not_aligned_pct: float  # the same with the clocks as recorded


@cache  # seconds each
def alignment(hosts_known: bool = True, slow: float = 1.0, cross: float = 1.0) -> Alignment:
    """The alignment of one emulated job of 16 ranks on 4 hosts (see ``emulate``)."""
    with tempfile.TemporaryDirectory() as folder:
        made = emulate(Path(folder) / "run", slow=slow, cross=cross, hosts_named=hosts_known)
        return compared(made, load_run([made.folder]))


def compared(made: Emulated, run: Run) -> Alignment:
    """The run as it was aligned, against the truth."""
    offset_us = np.array([rank.clock.offset_ns for rank in run.ranks]) / 1e3
    return Alignment(
        offset_us=float(np.abs(offset_us - offset_us[0] - made.offset_us).max()),
        uncertainty_us=max((rank.clock.uncertainty_ns or 0) / 1e3 for rank in run.ranks),
        method=run.ranks[-1].clock.method,
        replay_pct=100.0 * (_step_ms(run) / made.step_ms - 1.0),
        not_aligned_pct=100.0 * (_step_ms(as_recorded(run)) / made.step_ms - 1.0),
    )


def _step_ms(run: Run) -> float:
    graph = graph_of(Profile(run))
    return finish_ns(graph, explained(graph)) / 1e6 / len(graph.window.steps)


def as_recorded(run: Run) -> Run:
    """The run with the clock of each rank as it was; the axis still begins with the earliest event or before."""
    latest_ns = max(rank.clock.offset_ns for rank in run.ranks)
    ranks = []
    for rank in run.ranks:
        by_ns = latest_ns - rank.clock.offset_ns
        steps = tuple(Step(step.number, step.start_ns + by_ns, step.end_ns + by_ns) for step in rank.steps)
        ranks.append(replace(rank, events=rank.events.moved(by_ns), steps=steps))
    return replace(run, ranks=tuple(ranks))


CASES: dict[str, dict[str, float]] = {
    "equal ranks": {},
    "one rank computes 1.5 times as long": {"slow": 1.5},
    "links between hosts 3 times as slow": {"cross": 3.0},
    "both": {"slow": 1.5, "cross": 3.0},
}


def clock_text(cases: Mapping[str, Mapping[str, float]] = CASES) -> str:
    """The table as Markdown, with two rows for each case: hosts known and unknown."""
    lines = [
        "16 emulated ranks on 4 hosts with clocks up to 5 ms off (a ring played chunk by chunk, see `emulator.py`):",
        "largest error of an offset (goal 50 us), largest uncertainty stated, error of the replayed step (goal 2 %),",
        "and the same without alignment. Behind a slow link ranks leave a ring one after another, which in traces of",
        "collectives looks like clocks that are off.",
        "",
        "| job | host names | method | offset us | stated us | replay % | not aligned % |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, options in cases.items():
        for known in (True, False):
            one = alignment(hosts_known=known, **options)
            lines.append(
                f"| {name} | {'known' if known else 'unknown'} | {one.method} | {one.offset_us:.0f} |"
                f" {one.uncertainty_us:.0f} | {one.replay_pct:+.2f} |"
                f" {one.not_aligned_pct:+.2f} |"
            )
    return "\n".join(lines) + "\n"
