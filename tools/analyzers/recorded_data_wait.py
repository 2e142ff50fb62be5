"""Does the step wait for data, by the records alone?"""

from __future__ import annotations

from tools.analyzers.affected import affected, worst_of
from tools.analyzers.loader_records import LoaderReading, loader_reading
from tools.analyzers.margin import confidence
from tools.analyzers.recorded import BEHIND_DEVICE, behind_device, measured, not_recorded, saving, values
from tools.findings import Check, Fact, Finding, Saving, Sentence, clean, found
from tools.metrics.registry import measure
from tools.profilers.own_time import least_data_wait_ms
from tools.profilers.profile import Profile
from tools.profilers.series import RunSeries

NAME = "io.data_loader"
UNREAD = 0.65  # that data is waited for is measured; whether for reading or for processing is not told
OPEN = "Whether batches are slow to read or slow to make is not told by the records."
OTHERS_OPEN = (
    "Whether other ranks compute as long meanwhile is not recorded, and then the step loses nothing to it;"
    " `monitor.watch_model(model)` tells each rank's own time."
)
METHOD = "data wait as far as it makes the longest own time longer"
METHOD_AT_MOST = "the longest data wait of each step, which is the most that it can cost"


def recorded_data_wait(profile: Profile) -> Check:
    """The time that training threads wait for their loaders, as far as the step waits for it."""
    series = profile.series
    facts = {} if series is None else _waits(profile, series)
    if series is None or not any(fact.value > 0 for fact in facts.values()):
        return not_recorded(NAME, "no wait for a data loader is recorded")
    cost = measured(profile, "data_wait_cost_ms")
    worst = worst_of(values(facts))
    if cost is None or 100.0 * cost.value < profile.thresholds["noted_pct"] * series.mean_ms:
        text = "Rank {rank} waits {{0}} per step for its data loader, and hardly a step is longer for it."
        return clean(NAME, Sentence(text.format(rank=worst), (facts[worst],)))
    shares = {rank: 100.0 * fact.value / series.mean_ms for rank, fact in facts.items()}
    finding = _finding(profile, series, affected(shares, profile.thresholds["noted_pct"]), worst, cost)
    return found(NAME, behind_device(finding) if profile.accelerated and not _starved(series, worst) else finding)


def _waits(profile: Profile, series: RunSeries) -> dict[int, Fact]:
    told = {rank: measured(profile, "series_part_ms", part="data_wait", rank=rank) for rank in series.ranks}
    return {rank: fact for rank, fact in told.items() if fact is not None}


def _starved(series: RunSeries, rank: int) -> bool:
    """Whether workers usually have no batch ready when one is asked for: the device is faster than they are."""
    depths = series.of(rank).reindex(columns=["result_queue", "pinned_queue"])
    return bool(depths.sum(axis=1, min_count=1).median() == 0.0)  # not where no depth is known


def _kind(profile: Profile, rank: int) -> str:
    """``workers`` where batches are on their way from other processes, ``single`` where the rank has no children."""
    records, series = profile.host_records, profile.series
    if series is not None and "in_flight" in series.usual and float(series.of(rank)["in_flight"].max()) >= 1.0:
        return "workers"
    return "single" if records is not None and not records.level(rank, "children") else "other"


def _finding(profile: Profile, series: RunSeries, ranks: tuple[int, ...], worst: int, cost: Fact) -> Finding:
    wait = measure(profile, "series_part_ms", part="data_wait", rank=worst)
    told = _read(profile, series, ranks, worst)
    least_ms, limit_pct = least_data_wait_ms(series), profile.thresholds["data_wait_pct"]
    unsure = least_ms is not None and 100.0 * least_ms < limit_pct * series.mean_ms
    against = (() if told.sentences else (Sentence(OPEN),)) + ((Sentence(OTHERS_OPEN),) if unsure else ())
    return Finding(
        cause=told.cause,
        mechanism=told.mechanism,
        claim=Sentence(
            f"The training thread of rank {worst} waits {{0}} per step for its data loader"
            + (", others do not" if len(ranks) < len(series.ranks) else "")
            + f"; steps would be {'' if least_ms is None else 'at most '}{{1}} shorter without any wait for data.",
            (wait, cost),
        ),
        confidence=confidence(
            (100.0 * cost.value / series.mean_ms, limit_pct),
            at_most=min(told.at_most, BEHIND_DEVICE) if unsure else told.at_most,
        ),
        ranks=ranks,
        saving=_saving(profile, cost, least_ms),
        details=told.sentences,
        against=against,
        disproved_by="the same batch, held in memory and used again for every step, gives the same step time",
        signals=("data wait",),
    )


def _saving(profile: Profile, cost: Fact, least_ms: float | None) -> Saving:
    """From what all ranks wait to what the longest waits, where the cost itself is not known."""
    if least_ms is None:
        return saving(profile, cost.value, 0.5, 1.1, METHOD)
    return saving(profile, cost.value, min(least_ms / cost.value, 0.5), 1.0, METHOD_AT_MOST)


def _read(profile: Profile, series: RunSeries, ranks: tuple[int, ...], worst: int) -> LoaderReading:
    """What the loader does; that other ranks' loaders keep up speaks against the number of workers."""
    told = loader_reading(profile, worst, _kind(profile, worst))
    if told is None:
        return LoaderReading("slow_data_processing", None, (), UNREAD)
    spared = [rank for rank in series.ranks if rank not in ranks and _kind(profile, rank) == _kind(profile, worst)]
    if told.mechanism == "too_few_workers" and spared:
        return LoaderReading(told.cause, "heavy_transform", told.sentences, told.at_most)
    return told
