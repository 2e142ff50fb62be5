"""Do other Python threads keep the interpreter while the training thread wants it?"""

from __future__ import annotations

from tools.analyzers.affected import affected, worst_of
from tools.analyzers.margin import confidence
from tools.analyzers.recorded import by_rank, host_saving, measured, not_recorded, overlapped, values
from tools.errors import UsageError
from tools.findings import Check, Finding, Sentence, clean, found
from tools.metrics.registry import measure
from tools.metrics.series import part_ms
from tools.profilers.blocking import bursts
from tools.profilers.host_records import HostRecords
from tools.profilers.profile import Profile

NAME = "cpu.interpreter_lock"


def interpreter_lock(profile: Profile) -> Check:
    """Other Python threads that compute while the training thread sleeps without waiting for data or other ranks."""
    records = profile.host_records
    if records is None:
        return not_recorded(NAME)
    others = by_rank(profile, records, "counter_share_pct", field="python_threads_cpu_us")
    if not others:
        return not_recorded(NAME, "the records do not tell the CPU time of other Python threads")
    worst = worst_of(values(others))
    if others[worst].value < profile.thresholds["side_thread_pct"]:
        text = "Python threads beside the training thread run for {0} of the time at most."
        return clean(NAME, Sentence(text, (others[worst],)))
    blocked = {rank: blocked_ms(profile, records, rank) for rank in others}
    shares = {
        rank: 100.0 * ms / records.series.mean_ms if others[rank].value >= others[worst].value / 5.0 else 0.0
        for rank, ms in blocked.items()
    }
    late = worst_of(shares)
    off = measured(profile, "off_core_ms", rank=late)
    if off is None or shares[late] < profile.thresholds["noted_pct"]:
        text = "Other Python threads run for {0} of the time, but the training thread is not blocked meanwhile."
        return clean(NAME, Sentence(text, (others[late],)))
    chosen = affected(shares, profile.thresholds["noted_pct"])
    hidden = overlapped(profile, NAME, chosen, off)
    return hidden or found(NAME, _finding(profile, chosen, late, blocked[late]))


def _finding(profile: Profile, ranks: tuple[int, ...], rank: int, lost_ms: float) -> Finding:
    share = measure(profile, "counter_share_pct", rank=rank, field="python_threads_cpu_us")
    off = measure(profile, "off_core_ms", rank=rank)
    limits = profile.thresholds
    step_pct = 100.0 * lost_ms / (profile.series.mean_ms if profile.series else 1.0)
    return Finding(
        cause="operator_dispatch",
        mechanism="gil_contention",
        claim=Sentence(
            "Other Python threads of the process compute for {0} of the time, and the training thread is blocked for"
            " {1} per step without waiting for a core.",
            (share, off),
        ),
        confidence=confidence(
            (share.value, limits["side_thread_pct"]), (step_pct, limits["cause_share_pct"]), at_most=0.9
        ),
        ranks=ranks,
        saving=host_saving(
            profile, ranks, lost_ms, (0.4, 1.2), "time the training thread is blocked while other threads run"
        ),
        against=(Sentence("That the blocked time is spent waiting for the interpreter itself is not recorded."),),
        disproved_by="the steps are as long with the side thread's work moved to a process of its own",
        signals=("busy Python threads beside the training thread", "training thread blocked without run-queue delay"),
    )


def blocked_ms(profile: Profile, records: HostRecords, rank: int) -> float:
    """Time per step off a core that neither data nor the wait for devices or other ranks explains; 0 if not told.

    Waiting for others is what exceeds the rank's own time; a process with a busy side thread dawdles there as well, so
    the least of the ranks counts as what the step cannot do without.
    """
    off = measured(profile, "off_core_ms", rank=rank)
    if off is None:
        return 0.0
    explained = _part(profile, "data_wait", rank) + max(_exposed_ms(profile, rank), _part(profile, "waiting", rank))
    explained += _device_wait_ms(profile, rank)
    return max(off.value - explained, 0.0)


def _part(profile: Profile, part: str, rank: int) -> float:
    assert profile.series is not None
    try:
        return float(part_ms(profile.series, part, rank).mean())
    except UsageError:
        return 0.0


def _exposed_ms(profile: Profile, rank: int) -> float:
    """Exposed communication per step in the trace, where the rank was traced."""
    if rank not in profile.run.rank_numbers:
        return 0.0
    return measure(profile, "part_ms", part="exposed_communication", rank=rank).value


def _device_wait_ms(profile: Profile, rank: int) -> float:
    """Time per traced step in calls that wait for a working device: a thread may sleep in them."""
    if rank not in profile.run.rank_numbers or not profile.rank(rank).rank.has_device:
        return 0.0
    waited_ns = float(bursts(profile, rank)["waited_ns"].sum())
    return waited_ns / 1e6 / max(len(profile.rank(rank).steps), 1)
