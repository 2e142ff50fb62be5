"""A run of which no trace was made: its monitor records and step logs are all there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tools.errors import InputError
from tools.run.clock import align
from tools.run.layout import JobFacts, describe
from tools.run.model import Layout, Rank, Run, Source
from tools.run.steps import find_steps
from tools.sources.environment import read_environment
from tools.sources.files import Failure, read_files
from tools.sources.inventory import discover
from tools.sources.kineto.reader import TraceFile
from tools.sources.options import LoadOptions, Progress, Silent
from tools.sources.ranks import assign_ranks, clash, host_of, join_devices, join_tables
from tools.sources.run_records import Anchor, Companions, read_companions
from tools.sources.source_status import Part, contradiction, notes, sources

NO_TRACE = "no trace was read: what a step consists of is not known, only what records and logs tell of whole steps"


def load_records(paths: Sequence[Path], notes: Sequence[str] = ()) -> Run:
    """A run without ranks of a trace, read from what lies beside where traces would be.

    Raises InputError where nothing there can be read.
    """
    beside = read_companions(paths, Anchor((), None, None))
    if beside.records is None and beside.step_log is None:
        reasons = [_told(source) for source in beside.sources if source.note] or list(beside.notes)
        raise InputError(
            f"{', '.join(map(str, paths))}: holds no trace, and what else lies there cannot be used"
            + (f": {reasons[0]}" if reasons else "; capture some steps of the running training")
        )
    variables, environment_notes = read_environment(paths)
    return Run(
        ranks=(),
        sources=beside.sources,
        layout=Layout(world_size=_world_size(beside)),
        origin_unix_ns=None,
        notes=(*notes, NO_TRACE, *environment_notes, *beside.notes),
        records=beside.records,
        step_log=beside.step_log,
        variables=variables,
    )


def _told(source: Source) -> str:
    """What is wrong with a source, which is named."""
    return source.note if source.path.name in source.note else f"{source.path.name}: {source.note}"


def _world_size(beside: Companions) -> int | None:
    """What the ranks' own records say, where they agree."""
    told = set() if beside.records is None else {each.world_size for each in beside.records.ranks}
    return told.pop() if len(told) == 1 else None


__all__ = ["LoadOptions", "Progress", "load_run"]

DEFAULT_OPTIONS = LoadOptions()


def load_run(paths: Sequence[Path], options: LoadOptions = DEFAULT_OPTIONS, progress: Progress | None = None) -> Run:
    """Read the traces at the paths (files or folders) into one run, or the records alone where no trace was made.

    A file that cannot be used is left out with a note, as long as another can; ``InputError`` when none can.
    """
    found = discover(paths, options.limits)
    if not found.files:
        return load_records(paths, found.notes)
    read = read_files(found.files, options, progress or Silent())
    traces = [result for result in read.results if isinstance(result, TraceFile)]
    failures = [result for result in read.results if isinstance(result, Failure)]
    if not traces:
        raise InputError(_nothing_usable(failures))
    parts = _parts(traces)
    if reason := contradiction(parts):
        names = ", ".join(str(path) for path in paths)
        raise InputError(f"{names}: the traces {reason}, so they are not of one run; give the files of one run")
    by_rank = _by_rank(parts)
    origin_ns, shifts = _common_axis(by_rank)
    variables, environment_notes = read_environment(paths)
    layout = describe(_job(part.trace) for own in by_rank.values() for part in own)
    beside = read_companions(paths, Anchor(tuple(by_rank), layout.world_size, origin_ns))
    aligned = align([_rank(own, shifts[number], variables) for number, own in by_rank.items()])
    return Run(
        ranks=aligned.ranks,
        sources=(*sources(found.files, parts, failures), *beside.sources),
        layout=layout,
        origin_unix_ns=None if origin_ns is None else origin_ns + aligned.moved_origin_ns,
        notes=(
            *found.notes,
            *read.notes,
            *notes(parts, failures),
            *environment_notes,
            *beside.notes,
            *aligned.notes,
        ),
        records=beside.records,
        step_log=beside.step_log,
    )


def _nothing_usable(failures: Sequence[Failure]) -> str:
    if len(failures) == 1:
        return failures[0].reason
    return f"none of the {len(failures)} files can be used; the first: {failures[0].reason}"


def _parts(traces: Sequence[TraceFile]) -> list[Part]:
    """Every trace with its rank, those rejected that repeat or contradict another one."""
    guesses = assign_ranks([trace.path for trace in traces], [trace.facts.metadata.rank for trace in traces])
    ordered = sorted(map(Part, traces, guesses), key=lambda part: (part.guess.rank, part.trace.facts.origin_ns))
    parts: list[Part] = []
    first_with: dict[str, Path] = {}
    last_of: dict[int, TraceFile] = {}
    for part in ordered:
        before = last_of.get(part.guess.rank)
        same = first_with.setdefault(part.trace.digest, part.trace.path)
        if same != part.trace.path:
            reason = f"holds the same bytes as {same.name}"
        else:
            reason = clash(before, part.trace) if before else ""
        parts.append(replace(part, rejected=reason))
        if not reason:
            last_of[part.guess.rank] = part.trace
    return parts


def _by_rank(parts: Sequence[Part]) -> dict[int, list[Part]]:
    """The used parts of each rank in order of time."""
    used = [part for part in parts if not part.rejected]
    return {number: [p for p in used if p.guess.rank == number] for number in sorted({p.guess.rank for p in used})}


def _common_axis(by_rank: dict[int, list[Part]]) -> tuple[int | None, dict[int, int]]:
    """The Unix time of the run's zero (None when not known) and what to add to each rank's times."""
    first = {rank: own[0].trace.facts for rank, own in by_rank.items()}
    if len({facts.epoch for facts in first.values()}) > 1:
        return None, dict.fromkeys(first, 0)
    origin_ns = min(facts.origin_ns for facts in first.values())
    known = next(iter(first.values())).epoch
    return (origin_ns if known else None), {rank: facts.origin_ns - origin_ns for rank, facts in first.items()}


def _rank(own: Sequence[Part], shift_ns: int, variables: Mapping[str, str]) -> Rank:
    traces = [part.trace for part in own]
    table = join_tables(traces)
    if shift_ns:
        frame = table.frame.assign(start_ns=table.frame["start_ns"] + shift_ns, end_ns=table.frame["end_ns"] + shift_ns)
        table = replace(table, frame=frame)
    steps = find_steps(table)
    return Rank(
        rank=own[0].guess.rank,
        rank_origin=own[0].guess.origin,
        events=table,
        steps=steps.steps,
        step_origin=steps.origin,
        devices=join_devices(traces),
        host=host_of(traces[0].path),
        metadata={**variables, **traces[0].facts.metadata.plain},
    )


def _job(trace: TraceFile) -> JobFacts:
    metadata = trace.facts.metadata
    return JobFacts(metadata.world_size, metadata.backend, metadata.groups, trace.facts.groups)
