"""What became of every file, for the run's record: which were used, how far, and what was assumed or left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.run.model import Source
from tools.sources.files import Failure
from tools.sources.kineto.reader import FORMAT, TraceFile
from tools.sources.ranks import RankGuess

HOUR_NS = 3600 * 10**9


@dataclass(frozen=True)
class Part:
    """A trace and whose it is; ``rejected`` says why it is not used, "" when it is."""

    trace: TraceFile
    guess: RankGuess
    rejected: str = ""


def sources(files: Sequence[Path], parts: Sequence[Part], failures: Sequence[Failure]) -> tuple[Source, ...]:
    """One record per file, in the order of the files."""
    found = {part.trace.path: _source(part) for part in parts}
    found |= {failure.path: Source(failure.path, "unknown", (), "excluded", failure.reason) for failure in failures}
    return tuple(found[path] for path in files if path in found)


def _source(part: Part) -> Source:
    facts = part.trace.facts
    return Source(
        path=part.trace.path,
        format=FORMAT,
        ranks=(part.guess.rank,),
        status="excluded" if part.rejected else facts.status,
        note="; ".join(text for text in (part.rejected, facts.note, _assumed(part)) if text),
        bytes=facts.bytes,
        events=facts.events,
        digest=part.trace.digest,
    )


def _assumed(part: Part) -> str:
    if part.guess.origin == "file_name":
        return f"rank {part.guess.rank} is taken from the file name"
    if part.guess.origin == "order":
        return f"the trace does not tell its rank; {part.guess.rank} was assumed"
    return ""


def notes(parts: Sequence[Part], failures: Sequence[Failure]) -> list[str]:
    """What a reader of the run has to know about its files, one sentence each."""
    found = []
    for part in parts:
        name = part.trace.path.name
        if part.rejected:
            found.append(f"{name} was left out: it {part.rejected}")
            continue
        found += [f"{name}: {text}" for text in (part.trace.facts.note, _assumed(part)) if text]
    found += [f"left out: {failure.reason}" for failure in failures]
    if len({part.trace.facts.epoch for part in parts if not part.rejected}) > 1:
        found.append("not all traces tell the time of day, so times of different ranks may not be comparable")
    return found


def contradiction(parts: Sequence[Part]) -> str:
    """Why the ranks' traces cannot be those of one run; "" when they can."""
    first = {part.guess.rank: part.trace for part in reversed(parts) if not part.rejected}
    facts = [trace.facts for trace in first.values()]
    sizes = sorted({each.metadata.world_size for each in facts if each.metadata.world_size is not None})
    found = []
    if len(sizes) > 1:
        found.append(f"are of jobs of different sizes ({', '.join(map(str, sizes))} ranks)")
    if all(each.epoch for each in facts):
        apart_ns = max(each.origin_ns for each in facts) - min(each.origin_ns for each in facts)
        if apart_ns > HOUR_NS:
            found.append(f"were recorded up to {apart_ns / HOUR_NS:.1f} hours apart")
    return " and ".join(found)
