"""Does the training wait for a core, and who has it?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tools.analyzers.support.answers import affected, clean, confidence, say, values, worst_of
from tools.analyzers.support.figures import by_rank, host_saving, measured, not_recorded, overlapped, saving
from tools.analyzers.support.spec import Need, check
from tools.findings import Check, Finding, Sentence
from tools.metrics.registry import measure
from tools.views.host.records import HostRecords
from tools.views.profile import Profile

UNNAMED = 0.45  # without a sign of who has the cores it is a hypothesis
PASSING = 0.5  # of the waiting in one run of samples: then it is a stretch of the run, not the run
NOBODY = "What keeps the cores busy is not in the records."
SELDOM = "In the median sample it waits for {0} of its time, so the waiting is not steady."
HELD_BACK = "share of its time that the training thread waits for a core"


@dataclass(frozen=True)
class Reading:
    """Why the training waits for a core, and the figures that say so."""

    mechanism: str | None
    facts: tuple[Sentence, ...]
    at_most: float
    signals: tuple[str, ...]
    against: tuple[Sentence, ...] = ()


@check(
    *("cpu.contention", "CPU contention", "Does the training thread wait for a core?"),
    causes=("cpu_contention",),
    mechanisms=("cgroup_throttling", "affinity", "thread_oversubscription", "foreign_process"),
    needs=(Need.RECORDS,),
    from_records="host",
)
def contention(profile: Profile) -> Check | Finding:
    """Time that the training thread is ready to run without a core, and the sign of who has the cores."""
    records = profile.host_records
    assert records is not None
    delays = by_rank(profile, records, "counter_share_pct", field="training_run_delay_us")
    if not delays:
        return _throttled_at_least(profile, records) or not_recorded(
            profile, "the records do not show how long the training thread waits for a core", "training_run_delay_us"
        )
    worst, limit = worst_of(delays), profile.thresholds["run_delay_pct"]
    share = delays[worst]
    if share.value < limit:
        return clean(say("The training thread waits for a core for {0} of its time at most.", share))
    candidates = (find(profile, records, worst) for find in (_throttled, _bound, _own_threads, _foreign))
    nobody = Reading(None, (), UNNAMED, ("run-queue pressure",), (say(NOBODY),))
    reading = next((each for each in candidates if each is not None), nobody)
    usual = measure(profile, "usual_counter_share_pct", rank=worst, field="training_run_delay_us")
    seldom = reading.mechanism is None and usual.value < limit
    if seldom and _passing(records, worst, limit):
        text = "The training thread waits for a core {0} of its time, {1} in the median sample: a passing stretch."
        return clean(say(text, share, usual))
    if seldom:
        reading = replace(reading, against=(say(SELDOM, usual), *reading.against))
    chosen = affected(delays, profile.thresholds["noted_pct"])
    waited = measure(profile, "counter_ms_per_step", rank=worst, field="training_run_delay_us")
    others = " on some ranks only" if len(chosen) < len(records.ranks) else ""
    text = f"The training thread is ready to run but has no core for {{0}} per step ({{1}} of its time){others}."
    return overlapped(profile, chosen, waited) or Finding(
        cause="cpu_contention",
        mechanism=reading.mechanism,
        claim=say(text, waited, share),
        confidence=confidence((share.value, limit), at_most=reading.at_most),
        ranks=chosen,
        saving=host_saving(profile, chosen, waited.value, (0.5, 1.25), HELD_BACK),
        details=reading.facts,
        against=reading.against,
        signals=reading.signals,
    )


def _throttled_at_least(profile: Profile, records: HostRecords) -> Finding | None:
    """A quota that holds threads back even if all time of profiled steps between the samples was spent waiting.

    For runs with so few samples that none lie around unprofiled steps alone; None where that bound says nothing.
    """
    limits = profile.thresholds
    delays, held = (
        by_rank(profile, records, "least_counter_share_pct", field=field)
        for field in ("training_run_delay_us", "throttled_us")
    )
    throttled = {rank: fact for rank, fact in held.items() if fact.value >= limits["throttled_pct"]}
    waiting = {rank: delays[rank] for rank in throttled if rank in delays}
    if not waiting or profile.series is None:
        return None
    worst = worst_of(values(waiting))
    share = waiting[worst]
    if share.value < limits["run_delay_pct"]:
        return None
    quota = measured(profile, "sampled_level", rank=worst, field="quota_cores")
    text = "The control group's CPU quota holds its threads back for at least {0} of that time, summed over cores"
    facts = (throttled[worst],) if quota is None else (throttled[worst], quota)
    only = ", on some ranks only" if len(waiting) < len(records.ranks) else ""
    claim = f"The training thread is ready to run but has no core for at least {{0}} of the unprofiled steps{only}."
    return Finding(
        cause="cpu_contention",
        mechanism="cgroup_throttling",
        claim=say(claim, share),
        confidence=confidence((share.value, limits["run_delay_pct"])),
        ranks=affected(values(waiting), limits["noted_pct"]),
        saving=saving(profile, share.value / 100.0 * profile.series.mean_ms, 0.5, 1.5, f"at least this {HELD_BACK}"),
        details=(say(text + ("." if quota is None else "; it grants {1} cores."), *facts),),
        signals=("cgroup CPU quota used up", "run-queue pressure"),
    )


def _passing(records: HostRecords, rank: int, limit_pct: float) -> bool:
    """Whether most of the waiting for a core lies in samples that follow one another."""
    spans = records.spans(rank)
    waited = spans["training_run_delay_us"].fillna(0.0).to_numpy(dtype=float)
    share_pct = 100.0 * 1e3 * waited / (spans["end_ns"] - spans["begin_ns"]).to_numpy(dtype=float)
    run = np.cumsum(share_pct < limit_pct)  # the same for all samples between two that hardly wait
    often = share_pct >= limit_pct
    longest = float(np.bincount(run[often], weights=waited[often]).max(initial=0.0))
    return longest >= PASSING * float(waited.sum())


def _throttled(profile: Profile, records: HostRecords, rank: int) -> Reading | None:
    held = measured(profile, "counter_share_pct", rank=rank, field="throttled_us")
    if held is None or held.value < profile.thresholds["throttled_pct"]:
        return None
    quota = measured(profile, "sampled_level", rank=rank, field="quota_cores")
    text = "The control group's CPU quota holds its threads back for {0} of the time, summed over cores"
    facts = (held,) if quota is None else (held, quota)
    sentence = say(text + ("." if quota is None else "; it grants {1} cores."), *facts)
    return Reading("cgroup_throttling", (sentence,), 0.95, ("cgroup CPU quota used up", "run-queue pressure"))


def _bound(profile: Profile, records: HostRecords, rank: int) -> Reading | None:
    known = [records.environment(each) for each in records.neighbours(rank)]
    sets = [set(each.allowed_cores) for each in known if each is not None and each.allowed_cores]
    cores = max((each.cores or 0 for each in known if each is not None), default=0)
    busy = measured(profile, "sampled_cores", rank=rank, whose="all")
    if len(sets) < len(records.neighbours(rank)) or busy is None:
        return None
    usable = set().union(*sets)
    idle = cores - busy.value >= profile.thresholds["foreign_cores"]
    crowded = len(sets) > len(usable)  # more ranks than cores they may use: they wait for each other, whoever else runs
    if len(usable) >= cores or not (idle or crowded):
        return None
    allowed = measure(profile, "sampled_level", rank=rank, field="allowed_cores")
    meanwhile = "{1} are busy while others are idle." if idle else "{1} are busy in all."
    sentence = say(f"The rank may use {{0}} of the machine's cores, and so may the others; {meanwhile}", allowed, busy)
    return Reading("affinity", (sentence,), 0.95, ("processes bound to few cores while others are idle",))


def _own_threads(profile: Profile, records: HostRecords, rank: int) -> Reading | None:
    known = [records.environment(each) for each in records.neighbours(rank)]
    threads = [each.threads.get("torch_intra", 0) for each in known if each is not None]
    cores = len(set().union(*(each.allowed_cores for each in known if each is not None)))
    own = measured(profile, "sampled_cores", rank=rank, whose="run")
    foreign = measured(profile, "sampled_cores", rank=rank, whose="foreign")
    all_delay = records.share(rank, "run_delay_us")
    one_delay = records.share(rank, "training_run_delay_us")
    if own is None or foreign is None or not cores or all_delay is None or one_delay is None:
        return None
    if sum(threads) <= cores or own.value < foreign.value or all_delay < 1.5 * one_delay:
        return None
    count = measure(profile, "operator_threads", rank=rank)
    share = measure(profile, "counter_share_pct", rank=rank, field="run_delay_us")
    text = "Operators use {0} on each rank, more than there are cores; all its threads wait for a core {1} of the time."
    sentence = say(text, count, share)
    return Reading("thread_oversubscription", (sentence,), 0.95, ("more threads than cores", "run-queue pressure"))


def _foreign(profile: Profile, records: HostRecords, rank: int) -> Reading | None:
    foreign = measured(profile, "sampled_cores", rank=rank, whose="foreign")
    if foreign is None or foreign.value < profile.thresholds["foreign_cores"]:
        return None
    busy = measure(profile, "sampled_cores", rank=rank, whose="all")
    sentence = say("Processes outside the run keep {0} of the machine busy, of {1} busy in all.", foreign, busy)
    signals = ("foreign processes with high CPU", "involuntary context switches")
    return Reading("foreign_process", (sentence,), 0.95, signals)
