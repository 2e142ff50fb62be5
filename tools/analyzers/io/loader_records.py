"""What the monitor's records say about a data loader: whether its workers, or the training process, compute or wait."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tools.analyzers.support.answers import affected, clean, confidence, say, values, worst_of
from tools.analyzers.support.figures import BEHIND_DEVICE, behind_device, measured, not_recorded, saving
from tools.findings import Check, Fact, Finding, Sentence
from tools.metrics.recorded.own_time import least_data_wait_ms
from tools.metrics.registry import measure
from tools.views.host.records import HostRecords
from tools.views.profile import Profile
from tools.views.steps.series import RunSeries

BUSY_PCT = 65.0  # of a worker's time: it computes
WAITING_PCT = 35.0  # a worker that is waited for and yet runs less than this waits itself, for bytes
BLOCKED = 0.5  # of the time in a loader within the training process
SPARE_CORES = 0.5
PREFETCHED = 2  # batches that a DataLoader asks of each worker ahead of time, by default
SATURATED = 0.8  # of the cores that the workers may use
UNREAD = 0.65  # that data is waited for is measured; whether for reading or for processing is not recorded
OPEN = "Whether batches are slow to read or slow to make is not recorded."
OTHERS_OPEN = (
    "Whether other ranks compute as long meanwhile is not recorded, and then the step loses nothing to it;"
    " `monitor.watch_model(model)` records each rank's own time."
)
METHOD = "data wait as far as it makes the longest own time longer"
METHOD_AT_MOST = "the longest data wait of each step, which is the most that it can cost"


@dataclass(frozen=True)
class LoaderReading:
    """Cause and mechanism that the records speak for, the sentences that show it, and the most confidence it allows."""

    cause: str
    mechanism: str | None
    sentences: tuple[Sentence, ...]
    at_most: float


UNEXPLAINED = LoaderReading("slow_data_processing", "unexplained_wait", (), UNREAD)


def loader_reading(profile: Profile, rank: int, kind: str) -> LoaderReading | None:
    """None where the records do not show what the loader does."""
    records = profile.host_records
    if records is None or rank not in records.ranks:
        return None
    return _workers(profile, records, rank) if kind == "workers" else _in_process(profile, records, rank)


def _workers(profile: Profile, records: HostRecords, rank: int) -> LoaderReading | None:
    busy = measured(profile, "worker_busy_pct", rank=rank)
    if busy is None:
        return None
    bound = _bound(profile, records, rank, busy)
    if bound is not None:
        return bound
    text = "The loader's workers run for {0} of the time"
    if _busiest_pct(records, rank, busy) < WAITING_PCT:
        sentence = say(f"{text}, although the step waits for a batch: they are blocked, as in reading.", busy)
        return LoaderReading("slow_data_reading", None, (sentence,), 0.85)
    if busy.value < BUSY_PCT:
        return None
    if (spare_cores(records, rank) or 0.0) >= SPARE_CORES:
        cores = measure(profile, "sampled_cores", rank=rank, whose="run")
        sentence = say(f"{text}; the run uses {{1}} of the machine and leaves others to more workers.", busy, cores)
        return LoaderReading("slow_data_processing", "too_few_workers", (sentence,), 0.9)
    return LoaderReading("slow_data_processing", "heavy_transform", (say(f"{text}.", busy),), 0.85)


def _bound(profile: Profile, records: HostRecords, rank: int, busy: Fact) -> LoaderReading | None:
    """Workers that may use fewer cores than there are, and share what they may use with each other or the training."""
    allowed = measured(profile, "sampled_level", rank=rank, field="children_allowed_cores")
    machine = records.environment(rank)
    used, own = records.share(rank, "children_cpu_us"), records.share(rank, "process_cpu_us")
    spare = spare_cores(records, rank, granted=False)
    if allowed is None or machine is None or not machine.cores or used is None or own is None or spare is None:
        return None
    shared = own if len(machine.allowed_cores) <= allowed.value else 0.0
    if allowed.value >= machine.cores or spare < SPARE_CORES or used + shared < SATURATED * allowed.value:
        return None
    text = "The loader's workers run for {0} of the time, bound to {1} of the machine's cores; other cores are idle."
    return LoaderReading("slow_data_processing", "process_binding", (say(text, busy, allowed),), 0.95)


def _in_process(profile: Profile, records: HostRecords, rank: int) -> LoaderReading | None:
    """A loader in the training process: does the thread run while a batch is made, or is it blocked?"""
    wait = measured(profile, "series_part_ms", part="data_wait", rank=rank)
    blocked = measured(profile, "loader_blocked_ms", rank=rank)
    if wait is None or blocked is None or wait.value <= 0:
        return None
    if blocked.value >= BLOCKED * wait.value:
        text = "Of {0} per step in the loader the training thread is off its core for {1}: it waits for bytes."
        return LoaderReading("slow_data_reading", None, (say(text, wait, blocked),), 0.85)
    if not profile.traced:  # what is not known to be blocked there may be blocked there all the same
        blocked = measure(profile, "off_core_ms", rank=rank)
        if blocked.value >= BLOCKED * wait.value:
            return None
    text = "Of {0} per step in the loader the training thread is off its core for {1} at most: it computes."
    sentence = say(text, wait, blocked)
    spare = spare_cores(records, rank)
    if spare is None:
        return None
    if spare < SPARE_CORES:
        busy = measure(profile, "sampled_cores", rank=rank, whose="run")
        full = say("The run uses {0} already, all that it may use: workers would find none free.", busy)
        return LoaderReading("slow_data_processing", "heavy_transform", (sentence, full), 0.9)
    return LoaderReading("slow_data_processing", "too_few_workers", (sentence,), 0.95)


def _busiest_pct(records: HostRecords, rank: int, busy: Fact) -> float:
    """The most that a worker can run: idle children that are no workers may leave all of the CPU time to the others."""
    children, queued = records.children(rank), float(records.series.of(rank)["in_flight"].max())
    if children is None or not queued >= 1.0:  # NaN where the loader's queue was not seen
        return busy.value
    workers = max(math.floor(queued / PREFETCHED), 1)
    return min(busy.value * max(children[0] / workers, 1.0), 100.0)


def spare_cores(records: HostRecords, rank: int, granted: bool = True) -> float | None:
    """Cores of the rank's machine or quota, ``granted`` to some rank, that the run leaves unused; None if unknown."""
    machine, own = records.environment(rank), records.own_cores(rank)
    if machine is None or not machine.cores or own is None:
        return None
    others = [each for rank in records.neighbours(rank) if (each := records.environment(rank)) is not None]
    allowed = set().union(*(each.allowed_cores for each in others)) if granted else set()
    return min(machine.cores, len(allowed) or machine.cores, machine.quota_cores or machine.cores) - own


UNTIMED = "a trace of some steps: the monitor times torch's DataLoader, and this run waited for none"


def recorded_data_wait(profile: Profile) -> Check | Finding:
    """The time that training threads wait for their loaders, as far as the step waits for it."""
    series = profile.series
    ranks = () if series is None else series.ranks
    waits = {rank: measured(profile, "series_part_ms", part="data_wait", rank=rank) for rank in ranks}
    facts = {rank: fact for rank, fact in waits.items() if fact is not None}
    if series is None or not any(fact.value > 0 for fact in facts.values()):
        return not_recorded(profile, "no wait for a data loader is recorded", otherwise=UNTIMED)
    cost = measured(profile, "data_wait_cost_ms")
    worst = worst_of(values(facts))
    if cost is None or 100.0 * cost.value < profile.thresholds["noted_pct"] * series.mean_ms:
        text = f"Rank {worst} waits {{0}} per step for its data loader, and hardly a step is longer for it."
        return clean(say(text, facts[worst]))
    shares = {rank: 100.0 * fact.value / series.mean_ms for rank, fact in facts.items()}
    finding = _finding(profile, series, affected(shares, profile.thresholds["noted_pct"]), worst, cost)
    # Where workers usually have no batch ready when one is asked for, the device is faster than they are.
    depths = series.of(worst).reindex(columns=["result_queue", "pinned_queue"])
    starved = bool(depths.sum(axis=1, min_count=1).median() == 0.0)  # not where no depth is known
    return behind_device(finding) if profile.accelerated and not starved else finding


def _kind(profile: Profile, rank: int) -> str:
    """``workers`` where batches are on their way from other processes, ``single`` where the rank has no children."""
    records, series = profile.host_records, profile.series
    if series is not None and "in_flight" in series.usual and float(series.of(rank)["in_flight"].max()) >= 1.0:
        return "workers"
    return "single" if records is not None and not records.level(rank, "children") else "other"


def _finding(profile: Profile, series: RunSeries, ranks: tuple[int, ...], worst: int, cost: Fact) -> Finding:
    wait = measure(profile, "series_part_ms", part="data_wait", rank=worst)
    kind = _kind(profile, worst)
    reading = loader_reading(profile, worst, kind) or UNEXPLAINED
    # That other ranks' loaders keep up speaks against the number of workers.
    spared = any(_kind(profile, rank) == kind for rank in series.ranks if rank not in ranks)
    mechanism = "heavy_transform" if reading.mechanism == "too_few_workers" and spared else reading.mechanism
    least_ms, limit_pct = least_data_wait_ms(series), profile.thresholds["data_wait_pct"]
    unsure = least_ms is not None and 100.0 * least_ms < limit_pct * series.mean_ms
    against = (() if reading.sentences else (say(OPEN),)) + ((say(OTHERS_OPEN),) if unsure else ())
    return Finding(
        cause=reading.cause,
        mechanism=mechanism,
        claim=say(
            f"The training thread of rank {worst} waits {{0}} per step for its data loader"
            + (", others do not" if len(ranks) < len(series.ranks) else "")
            + f"; steps would be {'' if least_ms is None else 'at most '}{{1}} shorter without any wait for data.",
            wait,
            cost,
        ),
        confidence=confidence(
            (100.0 * cost.value / series.mean_ms, limit_pct),
            at_most=min(reading.at_most, BEHIND_DEVICE) if unsure else reading.at_most,
        ),
        ranks=ranks,
        # From what all ranks wait to what the longest waits, where the cost itself is not known.
        saving=saving(profile, cost.value, 0.5, 1.1, METHOD)
        if least_ms is None
        else saving(profile, cost.value, min(least_ms / cost.value, 0.5), 1.0, METHOD_AT_MOST),
        details=reading.sentences,
        against=against,
        signals=("data wait",),
    )
