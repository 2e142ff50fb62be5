"""What the monitor's records say about a data loader: whether its workers, or the training process, compute or wait."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tools.analyzers.recorded import measured
from tools.findings import Fact, Sentence
from tools.metrics.registry import measure
from tools.profilers.host_records import HostRecords
from tools.profilers.profile import Profile

BUSY_PCT = 65.0  # of a worker's time: it computes
WAITING_PCT = 35.0  # a worker that is waited for and yet runs less than this waits itself, for bytes
BLOCKED = 0.5  # of the time in a loader within the training process
SPARE_CORES = 0.5
PREFETCHED = 2  # batches that a DataLoader asks of each worker ahead of time, unless told otherwise
SATURATED = 0.8  # of the cores that the workers may use


@dataclass(frozen=True)
class LoaderReading:
    """Cause and mechanism that the records speak for, the sentences that show it, and the most confidence it allows."""

    cause: str
    mechanism: str | None
    sentences: tuple[Sentence, ...]
    at_most: float


def loader_reading(profile: Profile, rank: int, kind: str) -> LoaderReading | None:
    """None where the records do not tell what the loader does."""
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
        sentence = Sentence(f"{text}, although a batch is waited for: they wait themselves.", (busy,))
        return LoaderReading("slow_data_reading", None, (sentence,), 0.85)
    if busy.value < BUSY_PCT:
        return None
    spare = spare_cores(records, rank)
    if spare is not None and spare >= SPARE_CORES:
        cores = measure(profile, "sampled_cores", rank=rank, whose="run")
        sentence = Sentence(
            f"{text}; the run uses {{1}} of the machine and leaves others to more workers.", (busy, cores)
        )
        return LoaderReading("slow_data_processing", "too_few_workers", (sentence,), 0.9)
    return LoaderReading("slow_data_processing", "heavy_transform", (Sentence(f"{text}.", (busy,)),), 0.85)


def _bound(profile: Profile, records: HostRecords, rank: int, busy: Fact) -> LoaderReading | None:
    """Workers that may use fewer cores than there are, and share what they may use with each other or the training."""
    allowed = measured(profile, "sampled_level", rank=rank, field="children_allowed_cores")
    told = records.environment(rank)
    used, own = records.share(rank, "children_cpu_us"), records.share(rank, "process_cpu_us")
    spare = spare_cores(records, rank, granted=False)
    if allowed is None or told is None or not told.cores or used is None or own is None or spare is None:
        return None
    shared = own if len(told.allowed_cores) <= allowed.value else 0.0
    if allowed.value >= told.cores or spare < SPARE_CORES or used + shared < SATURATED * allowed.value:
        return None
    text = (
        "The loader's workers run for {0} of the time and are bound to {1} of the machine's cores; the run leaves"
        " the others alone."
    )
    return LoaderReading("slow_data_processing", "process_binding", (Sentence(text, (busy, allowed)),), 0.95)


def _in_process(profile: Profile, records: HostRecords, rank: int) -> LoaderReading | None:
    """A loader in the training process: does the thread run while a batch is made, or is it blocked?"""
    wait = measured(profile, "series_part_ms", part="data_wait", rank=rank)
    blocked = measured(profile, "loader_blocked_ms", rank=rank)
    if wait is None or blocked is None or wait.value <= 0:
        return None
    if blocked.value >= BLOCKED * wait.value:
        text = "Of {0} per step in the loader the training thread is off its core for {1}: it waits for bytes."
        return LoaderReading("slow_data_reading", None, (Sentence(text, (wait, blocked)),), 0.85)
    if not profile.traced:  # what is not known to be blocked there may be blocked there all the same
        blocked = measure(profile, "off_core_ms", rank=rank)
        if blocked.value >= BLOCKED * wait.value:
            return None
    text = "Of {0} per step in the loader the training thread is off its core for {1} at most: it computes."
    sentence = Sentence(text, (wait, blocked))
    spare = spare_cores(records, rank)
    if spare is None:
        return None
    if spare < SPARE_CORES:
        busy = measure(profile, "sampled_cores", rank=rank, whose="run")
        full = Sentence("The run uses {0} already, all that it may use: workers would find none free.", (busy,))
        return LoaderReading("slow_data_processing", "heavy_transform", (sentence, full), 0.9)
    return LoaderReading("slow_data_processing", "too_few_workers", (sentence,), 0.95)


def _busiest_pct(records: HostRecords, rank: int, busy: Fact) -> float:
    """The share of its time that a worker runs at most.

    The rank may have children that are no workers and idle: then the workers alone may have used all of the CPU time.
    """
    children, queued = records.level(rank, "children"), float(records.series.of(rank)["in_flight"].max())
    if not children or not queued >= 1.0:  # NaN where the loader's queue was not seen
        return busy.value
    workers = max(math.floor(queued / PREFETCHED), 1)
    return min(busy.value * max(children / workers, 1.0), 100.0)


def spare_cores(records: HostRecords, rank: int, granted: bool = True) -> float | None:
    """Cores of the rank's machine that the run leaves unused, or of its quota where that is less; None if not told.

    With ``granted`` only cores count that some rank of the machine may use. What other processes use counts as unused:
    they are not there every day.
    """
    told, own = records.environment(rank), records.own_cores(rank)
    if told is None or not told.cores or own is None:
        return None
    others = [each for rank in records.neighbours(rank) if (each := records.environment(rank)) is not None]
    allowed = set().union(*(each.allowed_cores for each in others)) if granted else set()
    return min(told.cores, len(allowed) or told.cores, told.quota_cores or told.cores) - own
