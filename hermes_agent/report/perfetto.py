"""A trimmed trace with Hermes' own tracks on top, to open in Perfetto or chrome://tracing on this machine."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hermes_agent.evidence.printable import printable
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.display import PART_TITLES, cause_heading
from hermes_agent.model.request import Request
from hermes_agent.report.files import profile_behind, write_report
from tools.intervals import merge
from tools.judgement.ranking import ranking
from tools.views.parts import PARTS
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.whatif.change import Scale

STEPS_SHOWN = 3  # around the median step
EVENTS_PER_RANK = 60_000  # the longest ones; the browser stays usable
RANKS_SHOWN = 16
NAME_CHARS = 300
HERMES_PID = 1_000_000  # above any rank

Event = dict[str, Any]


def write_perfetto(request: Request, diagnosis: Diagnosis, target: Path) -> None:
    """Write a Chrome trace of the steps around the median with the causes; UsageError when it cannot."""
    profile = profile_behind(request, diagnosis)
    events = list(_events(profile, diagnosis))
    text = json.dumps({"displayTimeUnit": "ms", "traceEvents": events}).encode()
    content = gzip.compress(text, mtime=0) if target.suffix == ".gz" else text
    write_report(target, content, request)


def _events(profile: Profile, diagnosis: Diagnosis) -> Iterator[Event]:
    yield named_event("process_name", HERMES_PID, 0, "Hermes")
    for rank in profile.ranks[:RANKS_SHOWN]:
        window = _window(rank, profile.median_step_ms)
        yield from _hermes_tracks(rank, window, diagnosis)
        yield from _cause_slices(profile, diagnosis, rank.rank.rank, window)
        yield from _recorded(rank, window)


def _window(rank: RankProfile, median_ms: float) -> tuple[int, int]:
    steps = rank.rank.steps
    nearest = int(np.argmin([abs(step.wall_ns / 1e6 - median_ms) for step in steps]))
    first = max(0, min(nearest - STEPS_SHOWN // 2, len(steps) - STEPS_SHOWN))
    shown = steps[first : first + STEPS_SHOWN]
    return shown[0].start_ns, shown[-1].end_ns


def named_event(what: str, pid: int, tid: int, name: str) -> Event:
    """The metadata event that names a process or thread."""
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _slice(name: str, pid: int, tid: int, start_ns: int, end_ns: int, **args: object) -> Event:
    timing = {"ts": start_ns / 1e3, "dur": (end_ns - start_ns) / 1e3}
    return {"ph": "X", "cat": "hermes", "name": name, "pid": pid, "tid": tid, **timing, "args": args}


def _hermes_tracks(rank: RankProfile, window: tuple[int, int], diagnosis: Diagnosis) -> Iterator[Event]:
    """Per rank: its steps and the parts of the time; the causes found on it have a track of their own.

    Every slice names the figures of the diagnosis that are about it.
    """
    number = rank.rank.rank
    of_steps = {"evidence": _listed(diagnosis.step_time_ms.evidence)} if diagnosis.step_time_ms else {}
    for offset, title in enumerate(("steps", "time by part", "causes")):
        yield named_event("thread_name", HERMES_PID, 3 * number + offset + 1, f"rank {number}: {title}")
    for step in rank.rank.steps:
        if step.start_ns < window[0] or step.end_ns > window[1]:
            continue
        yield _slice(f"step {step.number}", HERMES_PID, 3 * number + 1, step.start_ns, step.end_ns, **of_steps)
    for part in PARTS:
        of_part = {"evidence": _listed(_about_part(diagnosis, part, number))}
        for start, end in np.clip(getattr(rank.parts, part), *window).tolist():
            if end > start:
                yield _slice(PART_TITLES[part], HERMES_PID, 3 * number + 2, start, end, **of_part)


def _about_part(diagnosis: Diagnosis, part: str, rank: int) -> list[str]:
    """The ids of figures about a part of the step, of this rank or of all ranks together."""
    return [
        row.id
        for row in diagnosis.evidence
        if row.run == "run" and row.arguments.get("part") == part and row.arguments.get("rank") in (None, rank)
    ]


def _listed(identifiers: Iterable[str]) -> str:
    return ", ".join(identifiers) or "none cited"


def _cause_slices(profile: Profile, diagnosis: Diagnosis, rank: int, window: tuple[int, int]) -> Iterator[Event]:
    """The causes on a rank: the time that fixing each would change."""
    causes = {(cause.cause, cause.mechanism): cause for cause in diagnosis.causes}
    for ranked in ranking(profile).causes:
        finding = ranked.finding
        name = cause_heading(finding.cause, finding.mechanism)
        known = causes.get((finding.cause, finding.mechanism))
        about = {} if known is None else {"claim": known.claim, "evidence": _listed(known.evidence)}
        spans = [part.intervals for part in finding.change if isinstance(part, Scale) and part.rank == rank]
        for start, end in np.clip(merge(*spans), *window).tolist():
            if end > start:
                yield _slice(name, HERMES_PID, 3 * rank + 3, start, end, **about)


def _recorded(rank: RankProfile, window: tuple[int, int]) -> Iterator[Event]:
    number = rank.rank.rank
    yield named_event("process_name", number, 0, f"rank {number}")
    for track, row in enumerate(rank.events.tracks.itertuples(index=False)):
        yield named_event("thread_name", number, track, _name(str(row.label) or f"{row.pid}/{row.tid}"))
    inside = np.flatnonzero((rank.end > window[0]) & (rank.start < window[1]) & (rank.end > rank.start))
    if len(inside) > EVENTS_PER_RANK:
        longest = np.argsort(rank.start[inside] - rank.end[inside], kind="stable")[:EVENTS_PER_RANK]
        inside = np.sort(inside[longest])
    names = rank.names(inside)
    starts, ends, tracks = rank.start[inside].tolist(), rank.end[inside].tolist(), rank.track[inside].tolist()
    for name, start, end, track in zip(names, starts, ends, tracks, strict=True):
        timing = {"ts": start / 1e3, "dur": (end - start) / 1e3}
        yield {"ph": "X", "cat": "run", "name": _name(name), "pid": number, "tid": track, **timing}


def _name(text: str) -> str:
    return printable(text, NAME_CHARS)
