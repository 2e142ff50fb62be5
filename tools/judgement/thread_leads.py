"""The lead of training threads without a trace: they compute, they are blocked, or ranks wait for one of them."""

from __future__ import annotations

from tools.errors import UsageError
from tools.findings import Fact, Sentence
from tools.judgement.lead import EVERY_STEP, Candidate, Lead, Place
from tools.judgement.verdict import Judgement
from tools.knowledge.tables import table
from tools.metrics.registry import measure
from tools.views.profile import Profile
from tools.views.steps.series import RunSeries

SAID = {
    "blocked_ranks": (
        "Every training thread is blocked for at least {0} of each {1} step: it neither computes nor waits for a core."
    ),
    "awaited_rank": (
        "Of each {1} step the training thread of rank {n1} is blocked for {0}, that of rank {n0} for {2} only:"
        " the others may wait for rank {n0}."
    ),
    "blocked_host": (
        "The training thread is blocked for {0} of each {1} step: it neither computes nor waits for a core."
    ),
    "computing": (
        "Every training thread computes for at least {0} of each {1} step, and what it computes is not recorded."
    ),
}
PARTS = {"blocked_host": "host", "computing": "compute"}  # of a step, in the words of a trace


def thread_lead(profile: Profile, series: RunSeries, judged: Judgement) -> Lead | None:
    """The lead; None with devices, whose work the thread waits for as well, and where its time is not recorded."""
    if profile.accelerated or series.mean_ms <= 0.0:
        return None
    try:
        blocked = {rank: measure(profile, "off_core_ms", rank=rank) for rank in series.ranks}
        waits = [measure(profile, "series_part_ms", part="data_wait", rank=rank).value for rank in series.ranks]
        ran = [measure(profile, "series_part_ms", part="thread_cpu", rank=rank) for rank in series.ranks]
    except UsageError:
        return None
    step, limits = measure(profile, "series_step_ms", statistic="mean"), profile.thresholds
    noted_ms = limits["unexplained_part_pct"] / 100.0 * series.mean_ms
    if max(waits) >= noted_ms:
        return None  # that has a lead of its own
    least, most = (pick(blocked.values(), key=lambda fact: fact.value) for pick in (min, max))
    if (
        len(blocked) > 1
        and most.value - least.value >= noted_ms
        and most.value >= limits["straggler_lead"] * least.value
    ):
        return _lead(profile, judged, "awaited_rank", (most, step, least), least.ranks)
    if least.value >= noted_ms:
        kind = "blocked_ranks" if len(blocked) > 1 else "blocked_host"
        return _lead(profile, judged, kind, (least, step), tuple(blocked))
    computing = min(ran, key=lambda fact: fact.value)
    if computing.value >= series.mean_ms - noted_ms:
        return _lead(profile, judged, "computing", (computing, step), tuple(blocked))
    return None


def _lead(profile: Profile, judged: Judgement, kind: str, facts: tuple[Fact, ...], ranks: tuple[int, ...]) -> Lead:
    size, step = facts[0], facts[1]
    names = tuple(str(rank) for fact in (facts[-1], size) for rank in fact.ranks[:1])
    claim = Sentence(SAID[kind], facts, names if kind == "awaited_rank" else ())
    candidates = tuple(
        Candidate(each["cause"], each["likelihood"], each["why"]) for each in table("leads")[kind]["candidates"]
    )
    place = Place(PARTS.get(kind, "exposed_communication"), ranks, EVERY_STEP)
    return Lead(place, size.value, 100.0 * size.value / step.value, claim, candidates, judged.needs)
