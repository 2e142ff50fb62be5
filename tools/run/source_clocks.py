"""The clocks of a run's sources placed on one time of day: by the ends of steps, or by time stamps where these leave
less doubt. What cannot be placed keeps no offset, and a reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from tools.run.first_printed import PLAIN_TABLE, without_idle_tables
from tools.run.model import Rank, Run
from tools.run.recorded.counters import CounterRecords
from tools.run.recorded.step_times import printed_by
from tools.run.source_clock import SourceClock, clock_of, step_shift
from tools.run.step_match import (
    LARGEST_RESIDUAL_NS,
    LEAST_LENGTHS,
    SECOND_NS,
    SMALLEST_NS,
    StepMatch,
    TimedSteps,
    match_by_lengths,
    match_by_times,
    shift_by_times,
)

ZONES_APART_NS = 26 * 3600 * 10**9  # UTC-12 to UTC+14
ZONE_NS = 900e9  # zones differ by quarters of an hour
SKEW_NS = 2e9  # clocks of one job that a time service keeps, and a line that is printed some time after its step
NS_PER_MS = 1e6
NEAR_FIRST = 10  # steps: a first line so near to the first step is of a training that began with it
LEAST_READINGS = 3  # within the training: fewer show no usual reading
HALF_HOUR_NS = 1800e9  # the zones of a job's output and of samples are taken to differ by a whole number of these
MET_SHARE = 0.8  # of the shorter of both: samples in another zone that meet less of the steps may be of another time
TRACES, MONITOR, STEP_LOG = "the traces", "the monitor", "the step log"


def source_clocks(run: Run) -> tuple[SourceClock, ...]:
    """The clocks of the sources with steps or samples, the reference first; empty where there are fewer than two."""
    steps = list(_timed_sources(run))
    known = [each for each in steps if each.clock == "unix" and each.timed]
    references = known or [each for each in steps if each.timed][:1]
    placed = [_reference(each) for each in references[:1]]
    zones: list[tuple[float, float]] = []
    for other in sorted(steps, key=lambda each: each not in references):  # each on those before it
        if references and other is references[0]:
            continue
        before = references[: references.index(other)] if other in references else references
        found = _placed(other, before)
        placed.append(found)
        if other.clock == "local" and found.offset_ns is not None and found.residual_ns is not None and known:
            zones.append((round(found.offset_ns / ZONE_NS) * ZONE_NS, found.residual_ns))
    to = placed[0].source if known else ""
    local = [each for each in references[:1] if not known and each.clock == "local"]
    sampled = list(_of_samples(run.counters, to, _span(known), zones, local))
    return (*placed, *sampled) if len(placed) + len(sampled) > 1 else ()


Span = tuple[float, float]


def training_spans(run: Run) -> Mapping[int, Span]:
    """From the first to the last step of the training by files of samples, on the clock of the file: those that can be
    placed, where the monitor, a tracker or the job's output holds every step. Traced steps are a few of them only."""
    spans = [span for each in _timed_sources(run) if (span := _training_span(run, each)) is not None]
    found: dict[int, Span] = {}
    for file, source in enumerate([] if run.counters is None else run.counters.sources):
        clock = clock_of(run.clocks, source.path.rpartition("/")[2])
        if spans and clock is not None and clock.offset_ns is not None:
            begin_ns, end_ns = min(each[0] for each in spans), max(each[1] for each in spans)
            found[file] = begin_ns - clock.offset_ns, end_ns - clock.offset_ns
    return found


def samples_in_training(run: Run) -> CounterRecords | None:
    """The samples without those before the first and after the last training step, as far as that is known, and
    without tables of idle devices that a job prints next to those of its work."""
    counters = without_idle_tables(run)
    if counters is None or not (spans := training_spans(run)):
        return counters
    samples = counters.samples
    kept = np.ones(len(samples), dtype=bool)
    for file, (begin_ns, end_ns) in spans.items():
        own = (samples["file"] == file).to_numpy()
        inside = own & samples["time_unix_ns"].between(begin_ns, end_ns).to_numpy()
        if samples.loc[inside, "tick"].nunique() >= LEAST_READINGS:
            kept &= ~own | inside
    return counters if kept.all() else replace(counters, samples=samples[kept].reset_index(drop=True))


def sampled_apart(run: Run) -> Mapping[int, int]:
    """The ns between the printed steps and the samples of a file, by file, negative where these come before; only of
    files of which no reading can be of these steps, in whatever time zones clocks without one are."""
    log, counters = run.job_log, run.counters
    if log is None or counters is None or log.clock == "none":
        return {}
    written = log.steps["written_ns"].dropna()
    found: dict[int, int] = {}
    for file, source in enumerate(counters.sources):
        times = counters.samples.loc[(counters.samples["file"] == file).to_numpy(), "time_unix_ns"].dropna()
        if source.clock == "none" or times.empty or written.empty:
            continue
        least_ns = 0 if log.clock == source.clock == "unix" else ZONES_APART_NS
        before, after = int(written.min() - times.max()), int(times.min() - written.max())
        if max(before, after) > least_ns:
            found[file] = after if after > 0 else -before
    return found


def samples_left_out(run: Run) -> Iterator[str]:
    """One sentence for each file of which some readings are left out."""
    kept = samples_in_training(run)
    if run.counters is None or kept is None or kept is run.counters:
        return
    for file, source in enumerate(run.counters.sources):
        tables = (each.samples[(each.samples["file"] == file).to_numpy()] for each in (run.counters, kept))
        every, inside = (table["tick"].nunique() for table in tables)
        if inside < every:
            name = source.path.rpartition("/")[2]
            why = "from before or after the training"
            if source.tool == PLAIN_TABLE and not training_spans(run):
                why = "tables of devices without any process"
            yield f"{name}: {every - inside} of {every} readings are {why} and left out"


def slow_step_in_trace(run: Run) -> Iterator[str]:
    """A sentence on the slowest printed step of those that were traced, and which step of the trace that is."""
    name = printed_by(run)
    shift = step_shift(run.clocks, name, TRACES)
    if run.job_log is None or shift is None:
        return
    traced = {step.number for rank in run.profiled_ranks for step in rank.steps}
    steps = run.job_log.steps
    steps = steps[((steps["span"] == 1) & (steps["step"] + shift).isin(traced)).to_numpy() & steps["wall_ms"].notna()]
    if len(steps) >= LEAST_READINGS:
        slowest = steps.iloc[int(steps["wall_ms"].to_numpy().argmax())]
        number, wall_ms = int(slowest["step"]), float(slowest["wall_ms"])
        yield f"{name}: its slowest traced step is {number} with {wall_ms:.4g} ms, step {number + shift} of the traces"


def _training_span(run: Run, steps: TimedSteps) -> Span | None:
    """The time of day of all steps of a source; None of traces and of sources that cannot be placed."""
    clock = clock_of(run.clocks, steps.source)
    if steps.source == TRACES or clock is None or clock.offset_ns is None or not steps.timed:
        return None
    begin_ns, end_ns = _whole(steps)
    return begin_ns + clock.offset_ns, end_ns + clock.offset_ns


def _whole(steps: TimedSteps) -> Span:
    begins = steps.end_ns - np.nan_to_num(steps.wall_ms) * NS_PER_MS
    begin_ns = float(np.nanmin(begins)) if steps.begin_ns is None else steps.begin_ns
    return begin_ns, float(np.nanmax(steps.end_ns))


def _reference(steps: TimedSteps) -> SourceClock:
    return SourceClock(steps.source, "reference", steps.source, 0.0, 0.0, len(steps.numbers), 0)


def _timed_sources(run: Run) -> Iterator[TimedSteps]:
    """The steps of each source, the one with the finest clock first; of one rank each, the lowest that several hold."""
    rank = _common_rank(run)
    traced = next((each for each in run.profiled_ranks if each.rank == rank), None)
    if traced is not None and traced.step_origin != "window":
        yield _of_trace(traced, run.origin_unix_ns)
    if run.records is not None and len(own := _of_rank(run.records.steps, rank)):
        last = own[own["attempt"] == own["attempt"].max()].sort_values("step")
        yield _steps(MONITOR, "unix", last, last["end_unix_ns"])
    if run.step_log is not None and len(own := _of_rank(run.step_log, rank)):
        yield _steps(STEP_LOG, "none", own, pd.Series(np.nan, index=own.index))
    if run.job_log is not None and len(own := _of_rank(run.job_log.steps, rank)):
        clock = run.job_log.clock
        single = own.assign(wall_ms=own["wall_ms"].where(own["span"] == 1))
        printed = _steps(printed_by(run), clock, single, own["written_ns"] * (np.nan if clock == "none" else 1.0))
        yield replace(printed, begin_ns=_printed_begin_ns(own))


def _printed_begin_ns(steps: pd.DataFrame) -> float:
    """The begin of the first step of the training, on the clock of the lines; minus infinity where the lines begin
    later, as those of a part of the output or of a training that goes on do."""
    timed = steps[steps["written_ns"].notna()]
    wall_ms = float(steps["wall_ms"].median())
    if timed.empty or np.isnan(wall_ms):
        return -np.inf
    first = timed.iloc[0]
    number, span = int(first["step"]), int(first["span"])
    if number > span + NEAR_FIRST:
        return -np.inf
    own_ms = wall_ms if np.isnan(first["wall_ms"]) else float(first["wall_ms"])
    behind = max(number, 1) + (span > 1)  # steps are counted from 0 or from 1: where it may matter, the earlier begin
    return float(first["written_ns"]) - behind * own_ms * NS_PER_MS


def _of_rank(steps: pd.DataFrame, rank: int) -> pd.DataFrame:
    """The steps of the rank; those of the lowest one where the rank has none."""
    known = set(steps["rank"].unique())
    own = rank if rank in known else min(known, default=rank)
    return steps[(steps["rank"] == own).to_numpy()].sort_values("step", kind="stable")


def _common_rank(run: Run) -> int:
    traced = {each.rank for each in run.profiled_ranks if each.step_origin != "window"}
    recorded = set() if run.records is None else set(map(int, run.records.steps["rank"].unique()))
    return min(traced & recorded or traced or recorded, default=0)


def _steps(source: str, clock: str, table: pd.DataFrame, end_ns: pd.Series[float]) -> TimedSteps:
    numbers, at = np.unique(table["step"].to_numpy(dtype=np.int64), return_index=True)
    ends, walls = (each.to_numpy(dtype=np.float64)[at] for each in (end_ns, table["wall_ms"]))
    known = "unix" if clock == "unix" else "local" if clock == "local" else "none"
    return TimedSteps(source, known, numbers, ends, walls)  # type: ignore[arg-type]


def _of_trace(rank: Rank, origin_ns: int | None) -> TimedSteps:
    steps = sorted(rank.steps, key=lambda step: step.number)
    ends = np.array([step.end_ns for step in steps], dtype=np.float64) + float(origin_ns or 0)
    walls = np.array([step.wall_ns / NS_PER_MS for step in steps])
    numbers = np.array([step.number for step in steps], dtype=np.int64)
    return TimedSteps(TRACES, "none" if origin_ns is None else "unix", numbers, ends, walls)


def _placed(other: TimedSteps, references: Sequence[TimedSteps]) -> SourceClock:
    """The place with the least doubt against any of the references: one that steps show, if one does, as time stamps
    leave the difference of two clocks out."""
    found = [place for each in references for place in _places(other, each)]
    if found:
        shown = [each for each in found if each.step_shift is not None]
        best = min(shown or found, key=lambda each: each.residual_ns or 0.0)
        to = next(each for each in references if each.source == best.to)
        shift = shift_by_times(to, other, best.offset_ns or 0.0, best.residual_ns or 0.0)
        return replace(best, step_shift=shift if best.step_shift in (None, shift) else None)
    lengths = [(each, match) for each in references if (match := match_by_lengths(each, other)) is not None]
    if lengths:
        to, match = lengths[0]
        why = "by the lengths of the steps; it states no time of day"
        return SourceClock(other.source, "steps", to.source, None, match.residual_ns, match.matched, match.shift, why)
    return SourceClock(other.source, "none", why=_why_not(other, references))


def _places(other: TimedSteps, reference: TimedSteps) -> Iterator[SourceClock]:
    if other.clock == reference.clock == "unix":
        yield from _stamped_places(other, reference)
        return
    matches = match_by_times(reference, other) if other.timed else ()
    for match in matches:
        off_ns = _less_zone(match, other, reference)
        if abs(off_ns) > match.residual_ns + SKEW_NS:
            continue
        # Equal numbers of steps that fit elsewhere too: what is left behind the zone may be a wrong number.
        sure = _sole(matches) is not None
        residual_ns = match.residual_ns if sure else max(match.residual_ns, abs(off_ns))
        if residual_ns <= LARGEST_RESIDUAL_NS:
            yield _by_ends(
                other, reference, replace(match, residual_ns=residual_ns, shift=match.shift if sure else None)
            )


def _stamped_places(other: TimedSteps, reference: TimedSteps) -> Iterator[SourceClock]:
    """By time stamps, and by the steps where enough of them fit at one place alone within the skew of clocks. A place
    that contradicts the stamps and is not sure either is part of their residual."""
    found, far = (_sole(match_by_times(reference, other, most_ns)) for most_ns in (SKEW_NS, np.inf))
    if far is not None and far.matched >= LEAST_LENGTHS and abs(far.offset_ns) > far.residual_ns + SKEW_NS:
        found = far
    elif (
        found is not None
        and found.matched >= LEAST_LENGTHS
        and shift_by_times(reference, other, found.offset_ns, found.residual_ns) == found.shift
    ):
        yield _by_ends(other, reference, found)
    residual_ns = max(other.resolution_ns, reference.resolution_ns)
    why = "by time stamps; a difference of the clocks of two hosts is not in the residual"
    if found is not None and abs(found.offset_ns) > max(found.residual_ns, residual_ns):
        residual_ns = abs(found.offset_ns) + found.residual_ns
        why = f"by time stamps, though the ends of its steps fit up to {residual_ns / SECOND_NS:.3g} s apart"
    yield SourceClock(other.source, "stamps", reference.source, 0.0, residual_ns, 0, None, why)


def _sole(matches: Sequence[StepMatch]) -> StepMatch | None:
    """The match where the steps fit at one place alone."""
    return matches[0] if len(matches) == 1 and matches[0].shift is not None else None


def _by_ends(other: TimedSteps, reference: TimedSteps, match: StepMatch) -> SourceClock:
    why = f"by the ends of {match.matched} steps"
    place = (other.source, "steps", reference.source, match.offset_ns, match.residual_ns)
    return SourceClock(*place, match.matched, match.shift, why)  # type: ignore[arg-type]


def _less_zone(match: StepMatch, other: TimedSteps, reference: TimedSteps) -> float:
    """What is left of an offset behind the difference of time zones, which only a clock without a zone may have."""
    if "local" in (other.clock, reference.clock):
        return match.offset_ns - round(match.offset_ns / ZONE_NS) * ZONE_NS
    return match.offset_ns if other.clock == reference.clock else 0.0


def _why_not(other: TimedSteps, references: Sequence[TimedSteps]) -> str:
    if not references:
        return "no other source states when its steps ended"
    if not other.timed:
        return "its lines hold no date, and the lengths of its steps fit at no single place"
    zone = "it names no time zone, and " if other.clock == "local" else ""
    return f"{zone}its steps fit at no single place of those of {' or '.join(each.source for each in references)}"


def _span(known: Sequence[TimedSteps]) -> Span | None:
    """The time of day from the first to the last step of all sources; None where none states it."""
    spans = [_whole(each) for each in known]
    return (min(each[0] for each in spans), max(each[1] for each in spans)) if spans else None


def _of_samples(
    counters: CounterRecords | None,
    to: str,
    span: Span | None,
    zones: Sequence[tuple[float, float]],
    local: Sequence[TimedSteps],
) -> Iterator[SourceClock]:
    """The files of samples: by their time stamps, those without a zone by the zone of the job's output; next to steps
    whose times name no zone (``local``) on the clock of these."""
    for file, source in enumerate([] if counters is None else counters.sources):
        assert counters is not None
        name = source.path.rpartition("/")[2]
        own = counters.samples.loc[(counters.samples["file"] == file).to_numpy(), "time_unix_ns"].dropna()
        times = own.to_numpy(dtype=np.float64)
        resolution_ns = SECOND_NS if not (times % SECOND_NS).any() else SMALLEST_NS
        found = SourceClock(name, "none", why="its readings hold no time")
        if source.clock == "none" or not len(times):
            yield found
            continue
        if local:
            yield _on_local(name, times, source.clock == "unix", local[0], resolution_ns)
            continue
        if source.clock == "unix" and to:
            why = "by time stamps; a difference of the clocks of two hosts is not in the residual"
            found = SourceClock(name, "stamps", to, 0.0, resolution_ns, why=why)
        elif source.clock == "unix":
            found = replace(found, why="no other source states the time of day")
        else:
            found = _by_zone(name, times, to, span, zones) or replace(
                found, why="its times name no time zone, and no other source shows which it is"
            )
        yield found


Times = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def _on_local(name: str, times: Times, zoned: bool, steps: TimedSteps, resolution_ns: float) -> SourceClock:
    """Samples on the clock of steps that name no time zone: as the same clock where they meet and the samples name none
    either, else by the only whole number of half hours that makes them meet."""
    begin_ns, end_ns = _whole(steps)
    begin_ns = max(begin_ns, float(np.nanmin(steps.end_ns)) if np.isinf(begin_ns) else begin_ns)
    residual_ns = max(resolution_ns, steps.resolution_ns)
    to = steps.source
    if not zoned and times.min() <= end_ns and times.max() >= begin_ns:
        why = (
            "as the same clock, which is an assumption (neither names a time zone, and their times meet); a difference"
            " of the clocks of two hosts is not in the residual"
        )
        return SourceClock(name, "stamps", to, 0.0, residual_ns, why=why)
    most = int(ZONES_APART_NS // HALF_HOUR_NS)
    shifts = np.arange(-most, most + 1) * HALF_HOUR_NS
    met_ns = np.minimum(times.max() + shifts, end_ns) - np.maximum(times.min() + shifts, begin_ns)
    shorter_ns = max(min(times.max() - times.min(), end_ns - begin_ns), 1.0)
    meeting = np.flatnonzero(met_ns >= 0.0)
    whose = "it names its time zone, and the steps do not" if zoned else "neither names a time zone"
    if len(meeting) == 1 and met_ns[meeting[0]] >= MET_SHARE * shorter_ns:
        why = f"by the only whole number of half hours that makes them meet, which is an assumption ({whose})"
        return SourceClock(name, "stamps", to, float(shifts[meeting[0]]), residual_ns, why=why)
    if len(meeting) > 1:
        return SourceClock(name, "none", why=f"{whose}, and several zones would make them meet")
    why = "no whole number of half hours makes its readings meet the steps"
    return SourceClock(name, "none", why=f"{whose}, and {why}")


def _by_zone(
    name: str,
    times: Times,
    to: str,
    span: Span | None,
    zones: Sequence[tuple[float, float]],
) -> SourceClock | None:
    """The samples in the zone of the job's output, where they then meet the run."""
    if span is None or len({zone for zone, _ in zones}) != 1:
        return None
    zone_ns, residual_ns = zones[0]
    if times.max() + zone_ns < span[0] or times.min() + zone_ns > span[1]:
        return None
    why = "by the time zone of the job's output, which is taken to be theirs"
    resolution_ns = SECOND_NS if not (times % SECOND_NS).any() else SMALLEST_NS
    return SourceClock(name, "stamps", to, zone_ns, max(residual_ns, resolution_ns), why=why)
