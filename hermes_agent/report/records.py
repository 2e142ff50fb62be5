"""Records of the contract made from the run: sources, breakdown, kernels, figures, and ranks that only records name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from case_library.retrieval.recall import Recall
from hermes_agent.evidence.ledger import Ledger, render
from hermes_agent.evidence.printable import printable
from hermes_agent.model import diagnosis as record
from hermes_agent.model.display import MAY_BE_DEVICE, NO_WORK_RECORDED, NOT_USED, span_list, spans
from hermes_agent.model.run_record import (
    DifferenceRecord,
    RankGroupRecord,
    ReadRankRecord,
    RecordedRecord,
    RunRecord,
    ScreeningRecord,
    SourceClockRecord,
    SourceRecord,
    StepTimeRecord,
    UnreadRecord,
    WaitedForRecord,
)
from tools.findings import Check, Sentence
from tools.judgement.hypotheses import Hypothesis
from tools.judgement.routes import Route
from tools.judgement.wanted_source import recorded_already
from tools.knowledge.recordings import record_next
from tools.metrics.attribution import ROLES, priority_attribution
from tools.run.device_use import ran_on_cpu, uses_device
from tools.run.model import Rank, Run, Source
from tools.run.recorded.job_log import DIFFERENCES
from tools.run.recorded.operations import StepOperations
from tools.run.recorded.step_times import step_times
from tools.run.screening import Screening
from tools.run.source_clock import SourceClock
from tools.views.device.kernels import kernel_table
from tools.views.parts import PARTS
from tools.views.profile import Profile

LONGEST_NAME = 80
UNNAMED = "accelerator of unknown model"
LONGEST_NOTE = 1000
LONGEST_HOST = 256
MOST_SPANS = 1000  # a log of every tenth step has as many spans as steps


def recorded_record(run: Run) -> RecordedRecord | None:
    """Ranks, spans of steps and hosts of the records and logs; None when the run has traces only."""
    of_output = None if run.job_log is None or run.job_log.steps.empty else run.job_log.steps
    of_tables = None if run.ascend is None or run.ascend.steps.empty or run.ranks else run.ascend.steps
    of_operations = None if run.operations is None or run.ranks else run.operations.steps
    if all(each is None for each in (run.records, run.step_log, of_output, of_tables, of_operations)):
        return None
    of_records = None if run.records is None else run.records.steps
    tables = [table for table in (of_records, run.step_log, of_output, of_tables, of_operations) if table is not None]
    ranks = [np.asarray(table["rank"], dtype=np.int64) for table in tables]
    steps = [np.asarray(table["step"], dtype=np.int64) for table in tables]
    started = () if run.records is None else run.records.ranks
    hosts = {*(each.host for each in started), *(rank.host for rank in run.ranks)}
    numbers = np.unique(np.concatenate(steps))
    spans = _spans(numbers)
    if len(tables) == 1 and run.job_log is not None and run.job_log.step_time == "bar":
        spans = _covered(run.job_log.steps)
        numbers = numbers[:0]
    return RecordedRecord(
        ranks=sorted({*np.unique(np.concatenate(ranks)).tolist(), *(each.rank for each in started)}),
        ranks_stated=len(tables) > 1 or of_output is None or run.job_log is None or run.job_log.ranks_stated,
        least_ranks=_least_ranks(run),
        workers="" if of_operations is None or run.operations is None else _workers(run.operations),
        steps=spans,
        steps_not_listed=max(len(numbers) - sum(last - first + 1 for first, last in spans), 0),
        epochs=_uncounted_epochs(run),
        between_lines=len(tables) == 1 and run.job_log is not None and run.job_log.step_time in DIFFERENCES,
        hosts=_named(hosts),
    )


def _uncounted_epochs(run: Run) -> int:
    """The epochs of the output's step lines where no line states how many steps one has; else 0."""
    epochs = None if run.job_log is None or run.records is not None or run.step_log is not None else run.job_log.epochs
    return 0 if epochs is None or epochs.length_stated else epochs.count


def _workers(operations: StepOperations) -> str:
    """The data-parallel ranks and pipeline stages whose product the rows are; not devices, whose number is not held."""
    return f"data parallel {operations.data_parallel} x pipeline {operations.stage_count}"


def _least_ranks(run: Run) -> int | None:
    """The ranks of NCCL's largest communicator, where the output names no rank."""
    if run.job_log is None or run.job_log.ranks_stated:
        return None
    return max((each.size for each in run.job_log.nccl.communicators), default=None)


def _named(hosts: Iterable[str]) -> list[str]:
    """Names of hosts in order, each once."""
    return sorted({printable(host, LONGEST_HOST) for host in hosts if host})


def _covered(steps: pd.DataFrame) -> list[tuple[int, int]]:
    """The steps that groups of updates are of, up to ``MOST_SPANS`` unbroken rows of them."""
    found: list[tuple[int, int]] = []
    ordered = steps.sort_values("step")
    for last, span in zip(ordered["step"].tolist(), ordered["span"].tolist(), strict=True):
        if found and last - span <= found[-1][1]:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        elif len(found) < MOST_SPANS:
            found.append((last - span + 1, last))
    return found


def _spans(steps: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Ascending numbers as first and last of each unbroken row of them; of more than ``MOST_SPANS`` the first ones and
    the last."""
    if not len(steps):
        return []
    breaks = np.flatnonzero(np.diff(steps) != 1)
    first, last = steps[np.r_[0, breaks + 1]], steps[np.r_[breaks, len(steps) - 1]]
    spans = list(zip(first.tolist(), last.tolist(), strict=True))
    return spans if len(spans) <= MOST_SPANS else [*spans[: MOST_SPANS - 1], spans[-1]]


def clean_notes(notes: Sequence[str]) -> list[str]:
    """Notes, which may quote names of files and of what is in them, made safe to print."""
    return [printable(note, LONGEST_NOTE) for note in notes]


def untraced_note(run: Run) -> list[str]:
    """Which ranks of the job have no trace that could be read; empty where all have one or their numbers are unknown.

    A cut trace is one: the answer speaks of it. Ranks that were not asked for would count as missing.
    """
    world = run.layout.world_size or 0
    known = {rank.rank for rank in run.profiled_ranks} | {each.rank for each in run.cut}
    if run.screening is not None:
        known |= set(run.screening.waiting.index)
    if not known or not all(0 <= rank < world for rank in known) or len(known) == world:
        return []
    traced = spans(sorted(known))  # the gaps between them: a trace may name any number of ranks
    edges = zip([-1, *(last for _, last in traced)], [*(first for first, _ in traced), world], strict=True)
    missing = span_list([(before + 1, after - 1) for before, after in edges if after - before > 1])
    have, none = "has" if len(known) == 1 else "have", "has" if len(known) == world - 1 else "have"
    return [
        f"{len(known):,} of the job's {world:,} ranks {have} a trace that could be read ({missing} {none} none); "
        "waiting for a rank without one looks like transfer"
    ]


def source_record(source: Source) -> SourceRecord:
    """One file and how much of it was read."""
    return SourceRecord(
        path=printable(str(source.path)),
        format=source.format,
        ranks=list(source.ranks),
        status=source.status,
        note=printable(source.note, LONGEST_NOTE),
    )


def _hosts(run: Run) -> list[str]:
    """The hosts that the job's output and records of collectives name."""
    of_output = run.job_log.nccl.hosts if run.job_log else ()
    of_samples = run.counters.hosts if run.counters else ()
    return [*of_output, *of_samples, *(run.collectives.hosts if run.collectives else ())]


def _sampled(run: Run) -> set[str]:
    """The models of devices that samples name, of a run without traces."""
    sources = run.counters.sources if run.counters is not None and not run.ranks else ()
    return {printable(model, LONGEST_NAME) for each in sources for _, model in each.devices}


def source_clock_record(clock: SourceClock) -> SourceClockRecord:
    """The place of one source on the time of day of another."""
    offset, residual = (None if each is None else each / 1e6 for each in (clock.offset_ns, clock.residual_ns))
    return SourceClockRecord(
        source=printable(clock.source, LONGEST_NAME),
        method=clock.method,
        to=printable(clock.to, LONGEST_NAME),
        offset_ms=offset,
        residual_ms=residual,
        steps=clock.matched,
        step_shift=clock.step_shift,
        why=printable(clock.why, LONGEST_NOTE),
    )


def run_record(run: Run) -> RunRecord:
    """The run as a record."""
    layout = run.layout
    return RunRecord(
        sources=[source_record(source) for source in run.sources],
        ranks=list(run.rank_numbers),
        cut_ranks=sorted({each.rank for each in run.cut}),
        steps=sorted({step.number for rank in run.ranks for step in rank.steps}),
        step_origin=", ".join(sorted({rank.step_origin for rank in run.ranks})),
        devices=sorted({name for rank in run.ranks for name in _devices(rank, run.layout.backend)} or _sampled(run)),
        hosts=_named([*(rank.host for rank in run.ranks), *_hosts(run)]),
        layout={
            "world_size": layout.world_size,
            "backend": None if layout.backend is None else printable(layout.backend, LONGEST_NAME),
            "dp": layout.data_parallel,
            "tp": layout.tensor_parallel,
            "pp": layout.pipeline_parallel,
            "ep": layout.expert_parallel,
        },
        clock=[
            {
                "rank": rank.rank,
                "offset_ns": rank.clock.offset_ns,
                "uncertainty_ns": rank.clock.uncertainty_ns,
                "method": rank.clock.method,
            }
            for rank in run.ranks
        ],
        notes=clean_notes(run.notes),
        conflicts=clean_notes(run.conflicts),
        unread="".join(clean_notes([run.unread])) if run.unread else "",
        step_times=[
            StepTimeRecord(source=each.source, median_ms=each.median_ms, steps=each.count, what=each.why)
            for each in step_times(run)
        ],
        source_clocks=[source_clock_record(each) for each in run.clocks],
        recorded=recorded_record(run),
        screening=None if run.screening is None else screening_record(run.screening),
    )


MOST_GROUPS, MOST_WAITED_FOR, MOST_UNREAD = 64, 16, 100  # in the record of a run of many ranks


def screening_record(screening: Screening) -> ScreeningRecord:
    """What was compared by summary, bounded."""
    waited = screening.waiting[screening.waiting["share"] > 0].nlargest(MOST_WAITED_FOR, "share")
    columns = (waited.index.tolist(), waited["share"].tolist(), waited["steps"].tolist())
    return ScreeningRecord(
        found=screening.found,
        summarized=screening.summarized,
        read_in_full=[ReadRankRecord(rank=rank, why=why) for rank, why in screening.why.items()],
        groups=[
            RankGroupRecord(
                ranks=spans(group.ranks),
                count=len(group.ranks),
                read=list(group.read),
                stage=group.stage,
                differs=[
                    DifferenceRecord(part=each.part, median_ms=each.median_ms, peers_ms=each.peers_ms)
                    for each in group.differs
                ],
                medians_ms=group.medians_ms,
            )
            for group in screening.groups[:MOST_GROUPS]
        ],
        more_groups=max(len(screening.groups) - MOST_GROUPS, 0),
        waited_for=[
            WaitedForRecord(rank=int(rank), share=float(share), steps=int(steps))
            for rank, share, steps in zip(*columns, strict=True)
        ],
        unread=[
            UnreadRecord(name=printable(each.name), reason=printable(each.reason, LONGEST_NOTE))
            for each in screening.unread[:MOST_UNREAD]
        ],
    )


def _devices(rank: Rank, backend: str | None) -> list[str]:
    """The names of a rank's devices, and words for those without a name or without work; [] where it has none."""
    known = (device for device in rank.devices if not device.possible)
    names = list(dict.fromkeys(printable(device.name).strip() or UNNAMED for device in known))
    unsure = [printable(device.name) for device in rank.devices if device.possible]
    if unsure and not names:
        return [f"{name} {MAY_BE_DEVICE}" for name in unsure]
    if rank.has_device:
        return names or [UNNAMED]
    if ran_on_cpu(rank, backend):
        return [f"{name} {NOT_USED}" for name in names]
    if not uses_device(rank, backend):
        return []
    return [f"{name} {NO_WORK_RECORDED}" for name in names or [UNNAMED]]


def breakdown_rows(profile: Profile) -> list[record.BreakdownRow]:
    """For every rank the mean over its steps (step null), then each step."""
    parts = ("wall", *PARTS, "overlapped_communication")
    rows: list[record.BreakdownRow] = []
    for rank in profile.ranks:
        numbers = [None, *map(int, rank.breakdown["number"])]
        table = rank.breakdown[[f"{part}_ns" for part in parts]]
        table = pd.concat([table.mean().to_frame().T, table]).set_axis([f"{part}_ms" for part in parts], axis=1) / 1e6
        for step, values in zip(numbers, table.to_dict("records"), strict=True):
            figures = {str(name): float(value) for name, value in values.items()}
            rows.append(record.BreakdownRow(rank=rank.rank.rank, step=step, **figures))
    return rows


def attribution_rows(profile: Profile) -> list[record.AttributionRow]:
    """The TensorBoard plugin's attribution of every rank that has a device and marked steps."""
    rows: list[record.AttributionRow] = []
    for rank in profile.ranks:
        if not rank.rank.has_device or rank.rank.step_origin != "profiler_step":
            continue
        mean_ms = priority_attribution(rank).mean() / 1e6
        roles = {role: float(mean_ms[f"{role}_ns"]) for role in (*ROLES, "other")}
        rows.append(record.AttributionRow(rank=rank.rank.rank, step_ms=float(mean_ms["step_ns"]), roles_ms=roles))
    return rows


def kernel_class_rows(profile: Profile) -> list[record.KernelClassRow]:
    """Time per class of kernels, largest first, rank by rank; empty without a device."""
    rows: list[record.KernelClassRow] = []
    for rank in profile.ranks:
        table = kernel_table(profile, rank.rank.rank)
        steps = max(len(rank.steps), 1)
        grouped = table.groupby("kernel_class", observed=True)["duration_ns"].agg(["sum", "count"])
        rows += [
            record.KernelClassRow(
                rank=rank.rank.rank,
                kernel_class=str(name),
                ms_per_step=float(values["sum"]) / 1e6 / steps,
                launches_per_step=float(values["count"]) / steps,
            )
            for name, values in grouped.sort_values("sum", ascending=False).iterrows()
        ]
    return rows


def case_numbers(recalls: Mapping[int, Recall]) -> dict[str, str]:
    """Ids C1, C2, ... for the recalled cases, in the order of the causes they belong to."""
    names = [hit.id for _, recall in sorted(recalls.items()) for hit in recall.hits]
    return {name: f"C{number}" for number, name in enumerate(dict.fromkeys(names), start=1)}


def next_measurements(checks: Sequence[Check], first: str = "") -> list[str]:
    """Return what to record for the checks that cannot answer, ``first`` before all; each once."""
    needs = [first, *(check.needs for check in checks if check.status == "cannot_answer")]
    return list(dict.fromkeys(need for need in needs if need))


def recordings_next(profile: Profile, checks: Sequence[Check], first: str = "") -> list[record.RecordNextRecord]:
    """Return the recordings that would answer most of the checks that cannot answer."""
    ascend = profile.run.ascend is not None
    needs = {check.name: check.needs for check in checks if check.status == "cannot_answer" and check.needs}
    here = frozenset() if profile.traced else recorded_already(profile)
    return [
        record.RecordNextRecord(
            recording=each.recording.id, do=each.recording.do, shows=each.recording.shows, checks=list(each.checks)
        )
        for each in record_next(needs, first, here, ascend)
    ]


def hypothesis_record(hypothesis: Hypothesis, ledger: Ledger) -> record.HypothesisRecord:
    """What testing a hypothesis gave, its figures cited."""
    undecided = hypothesis.status in ("open", "untestable")
    return record.HypothesisRecord(
        id=f"H{hypothesis.number}",
        cause=hypothesis.cause,
        mechanism=hypothesis.mechanism,
        ranks=list(hypothesis.ranks),
        place=f"L{hypothesis.lead}" if hypothesis.lead else "",
        status=hypothesis.status,
        evidence=[ledger.cite(fact) for fact in hypothesis.evidence],
        evidence_against=[ledger.cite(fact) for fact in hypothesis.against],
        judged_by="" if hypothesis.judged_by is None else render(hypothesis.judged_by, ledger),
        next_test=hypothesis.needs if undecided else "",
        proposed_by=hypothesis.proposed_by,
    )


def route_record(route: Route, shown: Sentence | None, ledger: Ledger) -> record.RouteRecord:
    """The decision on a deep look, and what it showed, cited."""
    facts = (*(() if shown is None else shown.facts), *route.reason.facts)
    return record.RouteRecord(
        look=route.look,
        part=route.part,
        rank=route.rank,
        share_pct=route.share_pct,
        taken=route.taken,
        reason=render(route.reason, ledger),
        text="" if shown is None else render(shown, ledger),
        evidence=[ledger.cite(fact) for fact in facts],
    )
