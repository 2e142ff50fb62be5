"""A damaged trace never gets an answer that the whole one contradicts: ``python -m evals.fuzz.cuts RUN...``

Every trace of a run is cut at every 1/200 of its bytes, overwritten there, or has that 1/200 of its text taken out as
a lost gzip member. The answer may hold what the whole run's answer holds and what is said without that trace at all;
any other cause, share of a step, step time or "healthy" is a contradiction.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.report.compose import Findings, compose
from tools.analyzers.registry import all_checks
from tools.errors import InputError
from tools.judgement.ranking import ranking
from tools.sources.decompress import GZIP_MAGIC
from tools.sources.inventory import take_inventory
from tools.sources.load import load_run
from tools.sources.options import Limits, LoadOptions
from tools.views.profile import Profile
from tools.views.steps.recorded import require_steps

PARTS = 200
HOLE_BYTES = 4096  # a page of a disk
ALONE = LoadOptions(workers=1)

Damaging = Callable[[bytes, float], bytes]  # the file's bytes and a place in it, 0..1


def cut(data: bytes, place: float) -> bytes:
    """The file up to that place."""
    return data[: int(len(data) * place)]


def overwritten(data: bytes, place: float) -> bytes:
    """The file with a page of zeros at that place."""
    at = int(len(data) * place)
    return data[:at] + bytes(min(HOLE_BYTES, len(data) - at)) + data[at + HOLE_BYTES :]


def without_member(data: bytes, place: float) -> bytes:
    """The text as gzip members of 1/200 each, without the one at that place."""
    text = gzip.decompress(data) if data.startswith(GZIP_MAGIC) else data
    first, last = int(len(text) * place), int(len(text) * (place + 1 / PARTS))
    return b"".join(gzip.compress(part, 1) for part in (text[:first], text[last:]))


DAMAGES: Mapping[str, Damaging] = {"cut": cut, "overwritten": overwritten, "member": without_member}


@dataclass(frozen=True)
class Answer:
    """Everything in a diagnosis that a damaged file may have made wrong."""

    verdict: str
    causes: frozenset[tuple[str, str | None]]
    rows: frozenset[tuple[object, ...]]  # of the breakdown: rank, step and parts in whole ns
    step_ms: float | None
    refused: str = ""  # the sentence in the place of an answer

    @property
    def silent(self) -> bool:
        """True where nothing is claimed."""
        return self.verdict == "inconclusive" and not self.causes and not self.rows and self.step_ms is None


REFUSED = Answer("inconclusive", frozenset(), frozenset(), None)


def diagnosed(path: Path) -> Diagnosis:
    """The diagnosis of the run there, without a search for cases; raises InputError."""
    run = load_run([path], ALONE)
    require_steps(run, [path])
    profile = Profile(run)
    return compose(Findings(profile, all_checks(profile), ranking(profile), {}))


def answer_of(path: Path) -> Answer:
    """The answer on the run there."""
    try:
        said = diagnosed(path)
    except InputError as error:
        return Answer(REFUSED.verdict, REFUSED.causes, REFUSED.rows, None, str(error))
    rows = (tuple(round(v * 1e6) if isinstance(v, float) else v for _, v in row) for row in said.breakdown)
    step_ms = None if said.step_time_ms is None else round(said.step_time_ms.median, 6)
    return Answer(
        said.verdict, frozenset((each.cause, each.mechanism) for each in said.causes), frozenset(rows), step_ms
    )


def contradictions(answer: Answer, known: Sequence[Answer]) -> list[str]:
    """What the answer holds and none of the known ones does."""
    if answer.silent or answer in known:
        return []
    found = [f"cause {cause}" for cause in answer.causes - frozenset().union(*(each.causes for each in known))]
    if answer.rows - frozenset().union(*(each.rows for each in known)):
        found.append("shares of a step")
    if answer.step_ms is not None and answer.step_ms not in [each.step_ms for each in known]:
        found.append(f"step time {answer.step_ms} ms")
    if answer.verdict == "healthy":
        found.append("healthy")
    return found


@dataclass(frozen=True)
class Outcome:
    """The answer on a run with one damaged trace."""

    file: str
    damage: str
    place: float
    kind: str  # "nothing", "without it", "whole", "refused", or "CONTRADICTION"
    contradictions: tuple[str, ...] = ()


def outcomes(run: Path, damages: Sequence[str], parts: int, least: int = 1) -> Iterator[Outcome]:
    """Damage every trace of the run at ``parts`` places, one at a time, and compare the answers."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "run"
        if run.is_dir():
            shutil.copytree(run, copy, copy_function=shutil.copyfile)
        else:
            copy.mkdir()
            shutil.copyfile(run, copy / run.name)
        whole = answer_of(copy)
        for trace in take_inventory([copy], Limits()).traces:
            data = trace.read_bytes()
            trace.unlink()
            rest = answer_of(copy)
            for damage in damages:
                for part in range(least, parts):
                    trace.write_bytes(DAMAGES[damage](data, part / parts))
                    answer = answer_of(copy)
                    wrong = tuple(contradictions(answer, [whole, rest]))
                    yield Outcome(trace.name, damage, part / parts, _kind(answer, whole, rest, wrong), wrong)
            trace.write_bytes(data)


def _kind(answer: Answer, whole: Answer, rest: Answer, wrong: Sequence[str]) -> str:
    if wrong:
        return "CONTRADICTION"
    if answer.refused:
        return "refused"
    if answer == whole:
        return "as the whole run"
    return "nothing claimed" if answer.silent else "as without it" if answer == rest else "less than both"


def main(argv: Sequence[str] | None = None) -> int:
    """Print the outcomes per run and damage; 1 where an answer contradicts."""
    parser = argparse.ArgumentParser(prog="python -m evals.fuzz.cuts", description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--damage", nargs="+", choices=tuple(DAMAGES), default=tuple(DAMAGES))
    parser.add_argument("--parts", type=int, default=PARTS)
    args = parser.parse_args(argv)
    failed = 0
    for run in args.runs:
        counts: Counter[tuple[str, str]] = Counter()
        for each in outcomes(run, args.damage, args.parts):
            counts[each.damage, each.kind] += 1
            if each.contradictions:
                failed += 1
                print(f"  {each.file} {each.damage} at {each.place:.3f}: {', '.join(each.contradictions)}", flush=True)
        for (damage, kind), count in sorted(counts.items()):
            print(f"{run.name}: {damage}: {count} {kind}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
