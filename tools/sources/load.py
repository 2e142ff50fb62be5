"""A run from its files: traces with the records next to them, or the records alone where no trace was made."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path

from tools.errors import InputError
from tools.run.clock import align
from tools.run.device_ranks import device_rank_notes
from tools.run.layout import JobFacts, describe
from tools.run.model import Layout, Rank, Run, Source
from tools.run.recorded.counters import joined_counters
from tools.run.recorded.job_log import JobLog
from tools.run.secrets import without_secrets
from tools.run.source_clocks import samples_left_out, slow_step_in_trace, source_clocks
from tools.run.steps import find_steps
from tools.sources.environment import ENVIRONMENT
from tools.sources.files import Failure, FilesRead, read_files
from tools.sources.formats import Anchor, Contribution, RecordFormat
from tools.sources.inventory import Inventory, take_inventory
from tools.sources.one_run import Account, Span, disagreements_of, of_one_run
from tools.sources.options import LoadOptions, Progress, Silent
from tools.sources.ranks import (
    FileFacts,
    Part,
    contradiction,
    cut_traces,
    file_facts,
    host_of,
    join_devices,
    join_tables,
    notes,
    parts_of,
    sources,
)
from tools.sources.registry import RECORDS, record_formats
from tools.sources.trace_file import TraceFacts, TraceFile

__all__ = ["LoadOptions", "Progress", "load_run"]

DEFAULT_OPTIONS = LoadOptions()
NO_TRACE = "no trace was read: what a step consists of is not known, only what records and logs hold of whole steps"


def load_run(
    paths: Sequence[Path],
    options: LoadOptions = DEFAULT_OPTIONS,
    progress: Progress | None = None,
    formats: Sequence[RecordFormat] | None = None,
) -> Run:
    """Read the traces at the paths (files or folders) into one run, or the records alone where no trace was made.

    A file that cannot be used is left out with a note, as long as another can; ``InputError`` when none can.
    """
    formats = record_formats(options.log_pattern) if formats is None else formats
    return load_found(paths, take_inventory(paths, options.limits, formats), options, progress, formats)


def load_found(
    paths: Sequence[Path],
    found: Inventory,
    options: LoadOptions = DEFAULT_OPTIONS,
    progress: Progress | None = None,
    formats: Sequence[RecordFormat] = RECORDS,
) -> Run:
    """The same of files that were listed already, perhaps not of all traces."""
    if not found.traces:
        return _untraced(paths, found, formats)
    read = read_files(found.traces, options, progress or Silent())
    traces = [result for result in read.results if isinstance(result, TraceFile)]
    failures = [result for result in read.results if isinstance(result, Failure)]
    if not traces:
        return load_records(paths, found, failures, formats)
    parts = parts_of_run(paths, [file_facts(trace) for trace in traces])
    layout = describe(job_facts(part.file.facts) for part in parts if not part.rejected)
    return _run(found, parts, read, layout, formats)


def load_records(
    paths: Sequence[Path], found: Inventory, failures: Sequence[Failure], formats: Sequence[RecordFormat] = RECORDS
) -> Run:
    """The run of the records alone, where none of its traces can be used; InputError where records make no run."""
    if all(path.is_dir() for path in paths) and any(each.format.makes_run for each in found.records):
        return _untraced(paths, found, formats, failures)
    raise unusable(failures)


def load_ranks(
    found: Inventory,
    parts: Sequence[Part],
    ranks: Collection[int],
    layout: Layout,
    failures: Sequence[Failure] = (),
    options: LoadOptions = DEFAULT_OPTIONS,
    progress: Progress | None = None,
    formats: Sequence[RecordFormat] = RECORDS,
) -> Run:
    """Read some ranks of a run whose files are known: ``parts`` of all its traces, ``failures`` of those that cannot
    be read, and the layout that they describe."""
    chosen = dict.fromkeys(part.file.path for part in parts if part.guess.rank in ranks and not part.rejected)
    read = read_files(list(chosen), options, progress or Silent())
    if not any(isinstance(result, TraceFile) for result in read.results):
        raise unusable([result for result in read.results if isinstance(result, Failure)])
    return _run(found, parts, replace(read, results=(*read.results, *failures)), layout, formats)


def unusable(failures: Sequence[Failure]) -> InputError:
    """The error where no trace can be used."""
    first = failures[0].reason
    several = f"none of the {len(failures)} files can be used; the first: {first}"
    return InputError(first if len(failures) == 1 else several)


def parts_of_run(paths: Sequence[Path], files: Sequence[FileFacts]) -> list[Part]:
    """Every trace with its rank; InputError where the traces are not of one run."""
    parts = parts_of(files)
    if reason := contradiction(parts):
        names = ", ".join(str(path) for path in paths)
        raise InputError(f"{names}: the traces {reason}, so they are not of one run; give the files of one run")
    return parts


def job_facts(facts: TraceFacts) -> JobFacts:
    """What a trace says of the job."""
    return JobFacts(facts.metadata.world_size, facts.metadata.backend, facts.metadata.groups, facts.groups)


def _run(
    found: Inventory, parts: Sequence[Part], read: FilesRead, layout: Layout, formats: Sequence[RecordFormat]
) -> Run:
    """The run of the traces that were read, which may be those of some ranks only."""
    traces = {result.digest: result for result in read.results if isinstance(result, TraceFile)}
    failures = [result for result in read.results if isinstance(result, Failure)]
    used = _by_rank(part for part in parts if not part.rejected and part.file.digest in traces)
    whole = _by_rank(part for own in used.values() for part in own if not part.file.facts.cut)
    origin_ns, shifts = _common_axis(whole or used)
    read_records = _records(found, formats, Anchor(tuple(used), layout.world_size, origin_ns))
    records = of_one_run(read_records, _traces(whole or used, layout, origin_ns))
    aligned = align([_rank(own, traces, shifts[number], records.variables) for number, own in whole.items()])
    run = Run(
        ranks=aligned.ranks,
        sources=(*sources(found.traces, parts, failures), *records.sources),
        layout=layout,
        origin_unix_ns=None if origin_ns is None else origin_ns + aligned.moved_origin_ns,
        notes=(*found.notes, *read.notes, *notes(parts, failures), *records.notes, *aligned.notes),
        records=records.records,
        step_log=records.step_log,
        job_log=records.job_log,
        ascend=records.ascend,
        counters=joined_counters(
            records.counters, *(traces[part.file.digest].counters for own in used.values() for part in own)
        ),
        operations=records.operations,
        collectives=records.collectives,
        host_stacks=records.host_stacks,
        snapshots=records.snapshots,
        environments=records.environments,
        variables={} if aligned.ranks else records.variables,
        cut=cut_traces(parts),
        unread=found.unread,
        transient=any(failure.transient for failure in failures),
    )
    return _with_conflicts(run, records.conflicts)


def _with_conflicts(run: Run, left_out: Sequence[str]) -> Run:
    """The run with what was left out as another run's, and where the sources that are left disagree."""
    run = replace(run, clocks=source_clocks(run))
    conflicts = (*left_out, *disagreements_of(run))
    return replace(
        run,
        notes=(*run.notes, *samples_left_out(run), *slow_step_in_trace(run), *device_rank_notes(run), *conflicts),
        conflicts=conflicts,
    )


def _traces(by_rank: Mapping[int, Sequence[Part]], layout: Layout, origin_ns: int | None) -> Account:
    """What the traces state of their job."""
    longest_ns = max((part.file.last_ns for own in by_rank.values() for part in own), default=0)
    span = None if origin_ns is None else Span(origin_ns, origin_ns + longest_ns)
    return Account("the traces", True, layout.world_size, tuple(by_rank), span)


def _untraced(
    paths: Sequence[Path], found: Inventory, formats: Sequence[RecordFormat], failures: Sequence[Failure] = ()
) -> Run:
    """A run without ranks of a trace; InputError where nothing there can be read."""
    read = of_one_run(_records(found, formats, Anchor()), Account("the traces"))
    parts = (
        read.records,
        read.step_log,
        read.job_log,
        read.ascend,
        read.counters,
        read.operations,
        read.collectives,
        read.host_stacks,
        read.snapshots or None,
        read.environments or None,
    )
    if all(each is None for each in parts):
        reasons = [_reason(source) for source in read.sources if source.note] or read.notes
        raise InputError(
            f"{', '.join(map(str, paths))}: holds no trace, and what else lies there cannot be used"
            + (f": {reasons[0]}" if reasons else "; capture some steps of the running training")
        )
    sizes = set() if read.records is None else {each.world_size for each in read.records.ranks}
    sizes |= set() if read.ascend is None or read.ascend.world_size is None else {read.ascend.world_size}
    if read.collectives is not None and read.collectives.flight is not None:
        sizes |= {read.collectives.flight.world_size} - {None}
    stated = Layout() if read.job_log is None else layout_of(read.job_log)
    if read.operations is not None:
        sizes_of = read.operations
        stated = replace(stated, data_parallel=sizes_of.data_parallel, pipeline_parallel=sizes_of.stage_count)
    listed = read.sources or _environments(found)
    run = Run(
        ranks=(),
        sources=(*sources(found.traces, (), failures), *listed),
        layout=replace(stated, world_size=sizes.pop()) if len(sizes) == 1 else stated,
        origin_unix_ns=None,
        notes=(*found.notes, NO_TRACE, *notes((), failures), *read.notes),
        records=read.records,
        step_log=read.step_log,
        job_log=read.job_log,
        ascend=read.ascend,
        counters=read.counters,
        operations=read.operations,
        collectives=read.collectives,
        host_stacks=read.host_stacks,
        snapshots=read.snapshots,
        environments=read.environments,
        variables=read.variables,
        unread=found.unread,
        transient=any(failure.transient for failure in failures),
    )
    return _with_conflicts(run, read.conflicts)


def _environments(found: Inventory) -> tuple[Source, ...]:
    """The files that state the environment, which are listed where there is nothing else."""
    own = (file for each in found.of(ENVIRONMENT) for file in each.files)
    return tuple(Source(file, ENVIRONMENT.name, (), "complete") for file in own)


def layout_of(log: JobLog) -> Layout:
    """The parallel sizes that the job prints."""
    return Layout(
        world_size=log.whole("world_size"),
        data_parallel=log.whole("data_parallel_size"),
        tensor_parallel=log.whole("tensor_model_parallel_size"),
        pipeline_parallel=log.whole("pipeline_model_parallel_size"),
        expert_parallel=log.whole("expert_model_parallel_size"),
    )


def _records(found: Inventory, formats: Sequence[RecordFormat], anchor: Anchor) -> Contribution:
    """The contributions of every format that the run has files of."""
    read = (files[0].format.read(files, anchor) for each in formats if (files := found.of(each)))
    return reduce(Contribution.joined, read, Contribution())


def _reason(source: Source) -> str:
    """The note of a source, which is named."""
    return source.note if source.path.name in source.note else f"{source.path.name}: {source.note}"


def _by_rank(parts: Iterable[Part]) -> dict[int, list[Part]]:
    """The parts of each rank in order of time, by ascending rank."""
    found: dict[int, list[Part]] = {}
    for part in sorted(parts, key=lambda part: part.guess.rank):
        found.setdefault(part.guess.rank, []).append(part)
    return found


def _common_axis(by_rank: dict[int, list[Part]]) -> tuple[int | None, dict[int, int]]:
    """The Unix time of the run's zero (None when not known) and what to add to each rank's times."""
    first = {rank: own[0].file.facts for rank, own in by_rank.items()}
    if len({facts.epoch for facts in first.values()}) > 1:
        return None, dict.fromkeys(first, 0)
    origin_ns = min(facts.origin_ns for facts in first.values())
    known = next(iter(first.values())).epoch
    return (origin_ns if known else None), {rank: facts.origin_ns - origin_ns for rank, facts in first.items()}


def _rank(own: Sequence[Part], read: Mapping[str, TraceFile], shift_ns: int, variables: Mapping[str, str]) -> Rank:
    traces = [read[part.file.digest] for part in own]
    table = join_tables(traces).moved(shift_ns)
    origin_ns = traces[0].facts.origin_ns - shift_ns
    steps = find_steps(table, [trace.facts.origin_ns - origin_ns for trace in traces[1:]])
    return Rank(
        rank=own[0].guess.rank,
        rank_origin=own[0].guess.origin,
        events=table,
        steps=steps.steps,
        step_origin=steps.origin,
        marks=steps.marks,
        devices=join_devices(traces),
        host=traces[0].facts.metadata.host or host_of(traces[0].path),
        metadata={**variables, **without_secrets(traces[0].facts.metadata.plain)},
    )
