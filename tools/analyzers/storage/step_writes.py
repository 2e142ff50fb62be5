"""Is the training blocked in every step outside of computation, data and collectives: by a log line on its way?"""

from __future__ import annotations

from tools.analyzers.cpu.interpreter_lock import blocked_ms, kept_ms
from tools.analyzers.support.answers import affected, clean, confidence, say, worst_of
from tools.analyzers.support.recorded import measured, not_recorded, saving
from tools.analyzers.support.spec import Need, check
from tools.findings import Check, Finding
from tools.metrics.recorded.series import rank_stalls
from tools.metrics.registry import measure
from tools.views.host_records import HostRecords
from tools.views.profile import Profile

BETWEEN = 0.5  # of the blocked time must lie between the operators of the trace: there the script's own calls are


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
        return not_recorded("the records do not show when the training thread ran")
    shares = {rank: 100.0 * ms / records.series.mean_ms for rank, ms in known.items()}
    worst = worst_of(shares)
    off = measure(profile, "off_core_ms", rank=worst)
    if shares[worst] < profile.thresholds["blocked_pct"]:
        text = "The training thread is off its core for {0} per step; data, other ranks and pauses account for that."
        return clean(say(text, off))
    return _finding(profile, affected(shares, profile.thresholds["noted_pct"]), worst, known[worst])


def _finding(profile: Profile, ranks: tuple[int, ...], worst: int, lost_ms: float) -> Finding:
    off = measure(profile, "off_core_ms", rank=worst)
    between = measure(profile, "part_ms", part="host", rank=worst)
    written = measured(profile, "steady_writes_per_step", rank=worst)
    seen = written is not None and written.value >= profile.thresholds["step_write_bytes"]
    share_pct = 100.0 * lost_ms / (profile.series.mean_ms if profile.series else lost_ms)
    details = (say("A usual step writes {0} to storage.", written),) if seen and written is not None else ()
    return Finding(
        cause="checkpoint_stall",
        mechanism="remote_logging",
        claim=say(
            "In every step the training thread is off its core for {0}, and {1} of a traced step lie between its"
            " operators: it is blocked in calls of the script's own, as by log lines written to a slow place.",
            *(off, between),
        ),
        confidence=confidence((share_pct, profile.thresholds["blocked_pct"] / 1.5), at_most=0.85 if seen else 0.65),
        ranks=ranks,
        saving=saving(profile, lost_ms, 0.5, 1.15, "blocked time that neither data nor other ranks explain"),
        details=details,
        against=(say("Which call it is blocked in is not recorded; any request to a server looks like this."),),
        disproved_by="the steps are as long with logging turned off",
        signals=("log writes in every step", "training thread blocked without run-queue delay"),
    )


def _steadily_blocked_ms(profile: Profile, records: HostRecords, rank: int) -> float | None:
    """Blocked time per step without occasional stalls; None where it is not recorded, 0 where it is other."""
    off = measured(profile, "off_core_ms", rank=rank)
    if off is None or rank not in profile.run.rank_numbers or profile.rank(rank).rank.has_device:
        return None
    stalls = rank_stalls(profile).get(rank)
    blocked = blocked_ms(profile, records, rank) - kept_ms(profile, records, rank)
    blocked -= 0.0 if stalls is None else stalls.cost_ms
    between = measure(profile, "part_ms", part="host", rank=rank).value
    return max(blocked, 0.0) if between >= BETWEEN * blocked else 0.0
