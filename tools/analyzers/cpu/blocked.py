"""Is the training thread blocked: by other Python threads, or in calls of the script's own such as a log line?"""

from __future__ import annotations

from math import comb

import pandas as pd

from tools.analyzers.support.answers import affected, cannot_answer, clean, confidence, say, values, worst_of
from tools.analyzers.support.figures import by_rank, host_saving, measured, not_recorded, overlapped, saving
from tools.analyzers.support.spec import Need, check
from tools.errors import UsageError
from tools.findings import Check, Fact, Finding
from tools.knowledge.name_patterns import matching
from tools.metrics.host.pauses import BUILT_IN, covering
from tools.metrics.host.program import NEARBY
from tools.metrics.recorded.series import part_ms, rank_stalls
from tools.metrics.registry import measure
from tools.views.host.blocking import bursts
from tools.views.host.records import HostRecords
from tools.views.profile import Profile

EXPLAINS = 0.5  # of the blocked time that other threads' computing must be able to account for
UNSEEN = "That the blocked time is spent waiting for the interpreter itself is not recorded."
SWITCHES = "A traced step has {0} between operators as long as the interpreter's switch interval, of {1} about as long."
CHANCE = 0.01  # that pauses of any length would be of that length so often
DUMP = "a `py-spy dump --native` of the process while it is blocked"
UNSEEN_CAP = 0.45  # below the confidence of a verdict: neither writes nor frames that write are recorded
BETWEEN = 0.5  # of the blocked time must lie between the operators of the trace: there the script's own calls are


@check(
    *("cpu.interpreter_lock", "GIL contention", "Do other Python threads hold the interpreter lock (GIL)?"),
    causes=("operator_dispatch",),
    mechanisms=("gil_contention",),
    needs=(Need.RECORDS,),
    from_records="host",
)
def interpreter_lock(profile: Profile) -> Check | Finding:
    """Other Python threads that compute while the training thread sleeps without waiting for data or other ranks."""
    records = profile.host_records
    assert records is not None
    others = by_rank(profile, records, "counter_share_pct", field="python_threads_cpu_us")
    if not others:
        return not_recorded(
            profile, "the records do not show the CPU time of other Python threads", "python_threads_cpu_us"
        )
    lost = {rank: interpreter_wait_ms(profile, records, rank) for rank in others}
    shares = {rank: 100.0 * ms / records.series.mean_ms for rank, ms in lost.items()}
    late = worst_of(shares)
    off = measured(profile, "off_core_ms", rank=late)
    if off is None or shares[late] < profile.thresholds["noted_pct"]:
        text = (
            "Other Python threads run for {0} of the time at most, and the training thread is not blocked for as long."
        )
        return clean(say(text, others[worst_of(values(others))]))
    chosen = affected(shares, profile.thresholds["noted_pct"])
    if answer := overlapped(profile, chosen, off):
        return answer
    share = measure(profile, "counter_share_pct", rank=late, field="python_threads_cpu_us")
    off, limits = measure(profile, "off_core_ms", rank=late), profile.thresholds
    step_pct = 100.0 * lost[late] / (profile.series.mean_ms if profile.series else 1.0)
    pauses = _switch_pauses(profile, late)
    method = "time the training thread is blocked while other threads run"
    text = "Other Python threads compute for {0} of the time while the training thread is blocked for {1} per step."
    return Finding(
        cause="operator_dispatch",
        mechanism="gil_contention",
        claim=say(text, share, off),
        confidence=confidence(
            (step_pct, limits["cause_share_pct"]),
            (share.value, limits["side_thread_pct"]),
            at_most=0.9 if pauses else 0.75,
        ),
        ranks=chosen,
        saving=host_saving(profile, chosen, lost[late], (0.4, 1.2), method),
        details=(say(SWITCHES, *pauses),) if pauses else (),
        against=() if pauses else (say(UNSEEN),),
    )


def _switch_pauses(profile: Profile, rank: int) -> tuple[Fact, ...]:
    """Pauses of the switch interval and those about as long, where chance would hardly make so many of the former."""
    hits = measured(profile, "switch_pauses_per_step", rank=rank)
    near = measured(profile, "near_switch_pauses_per_step", rank=rank)
    if hits is None or near is None:
        return ()
    least, tried = (round(each.value * len(each.steps)) for each in (hits, near))
    share = 1.0 / NEARBY  # the binomial probability of that many hits or more:
    chance = sum(comb(tried, n) * share**n * (1.0 - share) ** (tried - n) for n in range(least, tried + 1))
    return (hits, near) if chance <= CHANCE else ()


def interpreter_wait_ms(profile: Profile, records: HostRecords, rank: int) -> float:
    """Time per step for which other Python threads can have kept the interpreter from the training thread.

    Only a thread that runs can keep it: 0 where it is blocked for much longer than those run, or nothing is recorded.
    """
    share = measured(profile, "counter_share_pct", rank=rank, field="python_threads_cpu_us")
    if share is None or share.value < profile.thresholds["side_thread_pct"]:
        return 0.0
    blocked = blocked_ms(profile, records, rank)
    side = measure(profile, "counter_ms_per_step", rank=rank, field="python_threads_cpu_us").value
    return min(side, blocked) if side >= EXPLAINS * blocked else 0.0


def blocked_ms(profile: Profile, records: HostRecords, rank: int) -> float:
    """Time per step off a core that data and waiting for devices or ranks do not explain; 0 if not recorded."""
    off = measured(profile, "off_core_ms", rank=rank)
    if off is None:
        return 0.0
    exposed_ms = device_ms = 0.0  # per traced step: in communication, and in calls that wait for a working device
    if rank in profile.run.rank_numbers:
        exposed_ms = measure(profile, "part_ms", part="exposed_communication", rank=rank).value
        if profile.rank(rank).rank.has_device:
            waited_ns = float(bursts(profile, rank)["waited_ns"].sum())
            device_ms = waited_ns / 1e6 / max(len(profile.rank(rank).steps), 1)
    # Ranks in step wait for the one that collects longest.
    collected = max((_part(profile, "gc", other) for other in records.ranks), default=0.0) - _part(profile, "gc", rank)
    explained = _part(profile, "data_wait", rank) + device_ms
    explained += max(exposed_ms, _part(profile, "waiting", rank), collected)
    return max(off.value - explained, 0.0)


def _part(profile: Profile, part: str, rank: int) -> float:
    assert profile.series is not None
    try:
        return float(part_ms(profile.series, part, rank).mean())
    except UsageError:
        return 0.0


@check(
    *("storage.step_writes", "Blocking logging", "Does logging block every step?"),
    causes=("checkpoint_stall",),
    mechanisms=("remote_logging",),
    needs=(Need.RECORDS,),
)
def step_writes(profile: Profile) -> Check | Finding:
    """Time off a core in the script's own calls, in every step, and what reaches storage meanwhile."""
    records = profile.host_records
    assert records is not None
    blocked = {rank: _steadily_blocked_ms(profile, records, rank) for rank in records.ranks}
    known = {rank: ms for rank, ms in blocked.items() if ms is not None}
    if not known:
        why = "the records do not show when the training thread ran, or only behind a device"
        return not_recorded(profile, why, "training_run_delay_us", otherwise=DUMP)
    shares = {rank: 100.0 * ms / records.series.mean_ms for rank, ms in known.items()}
    worst = worst_of(shares)
    off = measure(profile, "off_core_ms", rank=worst)
    if shares[worst] < profile.thresholds["blocked_pct"]:
        text = "The training thread is off its core for {0} per step; data, other ranks and pauses account for that."
        return clean(say(text, off))
    framed = covering(profile, worst)
    names = tuple(filter(None, (framed.name, framed.inner)))
    if framed.framed and not matching(pd.Series(names, dtype="category"), "writing_frame").any():
        if not names[-1].startswith(BUILT_IN):
            return cannot_answer("the frames of the pauses do not show which call blocks the thread", DUMP)
        text = "The training thread is off its core for {0} per step; the frames of its pauses, {n0}, write nothing."
        return clean(say(text, off, names=names[-1:]))
    between = measure(profile, "part_ms", part="host", rank=worst)
    written = measured(profile, "steady_writes_per_step", rank=worst)
    seen = written is not None and written.value >= profile.thresholds["step_write_bytes"]
    share_pct = 100.0 * known[worst] / (profile.series.mean_ms if profile.series else known[worst])
    details = (say("A usual step writes {0} to storage.", written),) if seen and written is not None else ()
    text = "Every step the thread is off its core for {0}; {1} lie between operators, as in calls that write log lines."
    return Finding(
        cause="checkpoint_stall",
        mechanism="remote_logging",
        claim=say(text, off, between),
        confidence=confidence(
            (share_pct, profile.thresholds["blocked_pct"] / 1.5), at_most=0.85 if seen or framed.framed else UNSEEN_CAP
        ),
        ranks=affected(shares, profile.thresholds["noted_pct"]),
        saving=saving(profile, known[worst], 0.5, 1.15, "blocked time that neither data nor other ranks explain"),
        details=details,
    )


def _steadily_blocked_ms(profile: Profile, records: HostRecords, rank: int) -> float | None:
    """Blocked time per step without occasional stalls; None where it is not recorded, 0 where it is other."""
    off = measured(profile, "off_core_ms", rank=rank)
    if off is None or rank not in profile.run.rank_numbers or profile.rank(rank).rank.has_device:
        return None
    stalls = rank_stalls(profile).get(rank)
    blocked = blocked_ms(profile, records, rank) - interpreter_wait_ms(profile, records, rank)
    blocked -= 0.0 if stalls is None else stalls.cost_ms
    # A collection runs on the core: what it takes between operators is no time off it.
    between = measure(profile, "part_ms", part="host", rank=rank).value - _part(profile, "gc", rank)
    return max(min(blocked, between), 0.0) if between >= BETWEEN * blocked else 0.0
