"""Records of a folder held against each other and its traces: those of another job are left out, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pandas as pd

from tools.run.kinds import ASCEND_FORMAT, FLIGHT_FORMAT, INSPECTOR_FORMAT, JOB_LOG_FORMAT, RAS_FORMAT
from tools.run.model import Run
from tools.run.recorded.collective_records import CollectiveRecords, FlightRecords
from tools.run.recorded.counters import CounterRecords
from tools.run.recorded.job_log import JobLog
from tools.run.recorded.records import MonitorRecords
from tools.run.recorded.step_times import disagreements, other_disagreements, step_times
from tools.run.source_clocks import sampled_apart
from tools.sources.formats import Contribution

DAY_NS = 86_400 * 10**9
LONGEST_RUN_NS = 60 * DAY_NS  # a trace may be of a training's begin and a dump of its end, weeks later
HOUR_NS = 3600 * 10**9


@dataclass(frozen=True)
class Span:
    """The Unix times between which something was recorded."""

    begin_ns: int
    end_ns: int

    def gap_ns(self, other: Span) -> int:
        """The time between the two, 0 where they meet."""
        return max(self.begin_ns - other.end_ns, other.begin_ns - self.end_ns, 0)


@dataclass(frozen=True)
class Account:
    """What one source states of its job, None and empty where it does not; ``name`` is the subject of a sentence."""

    name: str
    plural: bool = True
    world_size: int | None = None
    ranks: tuple[int, ...] = ()
    span: Span | None = None


@dataclass(frozen=True)
class _Records:
    """One kind of records in a contribution: the format of its files, its account, and how to leave it out."""

    format: str
    account: Account
    leave_out: Callable[[Contribution], Contribution]


def contradiction(known: Account, other: Account) -> str:
    """The reason why two sources cannot be of one run, said of the second ("of a job of ..."); "" when they can."""
    size = known.world_size
    if size is not None and other.world_size is not None and other.world_size != size:
        return f"of a job of {_ranks(other.world_size)} ({known.name}: of {_ranks(size)})"
    if size is not None and other.ranks and max(other.ranks) >= size:
        return f"of a job with a rank {max(other.ranks)} ({known.name}: of a job of {_ranks(size)})"
    if known.span is not None and other.span is not None and known.span.gap_ns(other.span) > LONGEST_RUN_NS:
        return f"of {_day(other.span.begin_ns)} ({known.name}: of {_day(known.span.begin_ns)})"
    return ""


def of_one_run(read: Contribution, traced: Account) -> Contribution:
    """The records without those that cannot be of the run of the traces, or of what states its job more surely."""
    known = [traced]
    for each in list(_kinds(read)):
        reason = next((text for account in known if (text := contradiction(account, each.account))), "")
        if not reason:
            known.append(each.account)
            continue
        be, it = ("are", "they are") if each.account.plural else ("is", "it is")
        sources = tuple(
            replace(source, status="excluded", note=f"left out: it is {reason}, so it is of another run")
            if source.format == each.format
            else source
            for source in read.sources
        )
        note = f"{each.account.name} {be} {reason}, so {it} of another run and left out"
        left = each.leave_out(read)
        read = replace(left, sources=sources, conflicts=(*read.conflicts, note))
    return read


def _kinds(read: Contribution) -> Iterator[_Records]:
    """The records that state anything of their job, the surest first; the monitor's were held against the traces."""
    if read.records is not None:
        yield _Records("", _of_monitor(read.records), lambda found: found)
    if read.ascend is not None:
        account = Account("the profiler's tables", world_size=read.ascend.world_size)
        yield _Records(ASCEND_FORMAT, account, lambda found: replace(found, ascend=None))
    collectives = read.collectives or CollectiveRecords()
    if (flight := collectives.flight) is not None:
        yield _Records(FLIGHT_FORMAT, _of_dumps(flight), lambda found: _collectives(found, flight=False))
    if (inspector := collectives.inspector) is not None:
        ranks = tuple(int(rank) for rank in inspector.collectives["rank"].unique() if rank >= 0)
        account = Account("the lines of NCCL Inspector", ranks=ranks)
        yield _Records(INSPECTOR_FORMAT, account, lambda found: _collectives(found, inspector=False))
    if (ras := collectives.ras) is not None:
        size = max((each.size for each in ras.communicators), default=0)
        account = Account("the answers of NCCL RAS", ranks=(size - 1,) if size else ())
        yield _Records(RAS_FORMAT, account, lambda found: _collectives(found, ras=False))
    if (log := read.job_log) is not None:
        account = Account(output_of(log), False, log.whole("world_size"), log.ranks)
        yield _Records(JOB_LOG_FORMAT, account, lambda found: replace(found, job_log=None))


def _collectives(read: Contribution, flight: bool = True, inspector: bool = True, ras: bool = True) -> Contribution:
    """The contribution with those records of collectives that are to stay."""
    own = read.collectives or CollectiveRecords()
    left = CollectiveRecords(
        own.flight if flight else None, own.inspector if inspector else None, own.ras if ras else None
    )
    some = left.flight is not None or left.inspector is not None or left.ras is not None
    return replace(read, collectives=left if some else None)


def _of_monitor(records: MonitorRecords) -> Account:
    sizes = {each.world_size for each in records.ranks} - {None}
    size = sizes.pop() if len(sizes) == 1 else None
    ends = records.steps["end_unix_ns"]
    span = None if ends.empty else Span(int(ends.min()), int(ends.max()))
    return Account("the monitor's records", True, size, tuple(each.rank for each in records.ranks), span)


def _of_dumps(flight: FlightRecords) -> Account:
    made: pd.Series[int] = flight.calls["created_ns"]
    made = made[made > 0]
    span = None if made.empty else Span(int(made.min()), int(made.max()))
    return Account(
        "the flight recorder's dumps", True, flight.world_size, tuple(each.rank for each in flight.dumps), span
    )


def output_of(log: JobLog) -> str:
    """The job's output as a sentence names it."""
    return log.files[0] if len(log.files) == 1 else "the job's output"


def _ranks(count: int) -> str:
    return f"{count} rank" if count == 1 else f"{count} ranks"


def _day(unix_ns: int) -> str:
    return f"{datetime.fromtimestamp(unix_ns // 10**9, UTC):%Y-%m-%d}"


def disagreements_of(run: Run) -> tuple[str, ...]:
    """One sentence for each disagreement that does not rule out one run: on hosts, times and the time of a step."""
    return (
        *_hosts(run),
        *_sampled_elsewhen(run),
        *_sampled_another_day(run),
        *disagreements(step_times(run)),
        *other_disagreements(run),
    )


def _hosts(run: Run) -> Iterator[str]:
    """Hosts of NCCL's lines, records of collectives and samples against those of the traces, without their domains."""
    traced = {_short(rank.host) for rank in run.ranks if rank.host}
    named = [
        (
            "" if run.job_log is None else f"{output_of(run.job_log)} holds NCCL lines of",
            run.job_log and run.job_log.nccl.hosts,
        ),
        ("the records of collectives are of", run.collectives and run.collectives.hosts),
        ("counters were sampled on", run.counters and run.counters.hosts),
    ]
    for said, hosts in named:
        others = {_short(host) for host in hosts or ()}
        if others and traced and others.isdisjoint(traced):
            yield f"{said} {min(others)}, the traces are of {min(traced)}: it may be another run"


def _short(host: str) -> str:
    return host.partition(".")[0].lower()


def _sampled_elsewhen(run: Run) -> Iterator[str]:
    """Files of samples of which none was taken while the traced steps ran, as far as both state the time of day."""
    traced = traced_span(run)
    if run.counters is None or traced is None:
        return
    for path, span in _sampled(run.counters):
        gap_ns = traced.gap_ns(span)
        if gap_ns:
            when = "before" if span.end_ns < traced.begin_ns else "after"
            away = f"{gap_ns / HOUR_NS:.1f} hours" if gap_ns >= HOUR_NS else f"{gap_ns / 1e9:.0f} s"
            yield f"{path} was sampled {away} {when} the traced steps: it shows another time of the run, or another run"


def _sampled_another_day(run: Run) -> Iterator[str]:
    """Files of samples that were taken before or after all lines of the job's output, next to no trace."""
    if run.job_log is None or run.counters is None or traced_span(run) is not None:
        return
    for file, gap_ns in sampled_apart(run).items():
        away = f"{abs(gap_ns) / HOUR_NS:.1f} hours" if abs(gap_ns) >= HOUR_NS else f"{abs(gap_ns) / 1e9:.0f} s"
        path, when = run.counters.sources[file].path.rpartition("/")[2], "before" if gap_ns < 0 else "after"
        lines = f"the steps of {output_of(run.job_log)}"
        yield f"{path} was sampled {away} {when} {lines}: it shows another time, or another run"


def traced_span(run: Run) -> Span | None:
    """The time that the traces cover; None where they do not state it."""
    steps = [step for rank in run.profiled_ranks for step in rank.steps]
    if run.origin_unix_ns is None or not steps:
        return None
    begin, end = min(step.start_ns for step in steps), max(step.end_ns for step in steps)
    return Span(run.origin_unix_ns + begin, run.origin_unix_ns + end)


def _sampled(counters: CounterRecords) -> Iterator[tuple[str, Span]]:
    """The files whose samples have Unix times, and between which."""
    for file, source in enumerate(counters.sources):
        times = counters.samples.loc[counters.samples["file"] == file, "time_unix_ns"].dropna()
        if source.clock == "unix" and len(times):
            yield source.path.rpartition("/")[2], Span(int(times.min()), int(times.max()))
