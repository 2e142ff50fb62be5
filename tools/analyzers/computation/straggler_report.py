"""By Megatron-LM's straggler report: which rank is slowest, and is its device slower than the others?"""

from __future__ import annotations

from tools.analyzers.support.answers import clean, confidence, say, symptom
from tools.analyzers.support.figures import measured
from tools.analyzers.support.spec import check
from tools.findings import Check, Fact, Finding
from tools.metrics.recorded.rank_times import report_rank
from tools.metrics.registry import measure
from tools.views.profile import Profile

CAP = 0.7  # the report gives the ends of a range alone, and not what is usual
NO_COST = "what it costs is not in the report"
HOTTEST = ("temperature", True, "reported_temperature_c")
LEAST_POWER = ("power", False, "reported_power_w")


@check(
    *("computation.straggler_report", "Straggler report", "Which rank is slowest by the job's straggler report?"),
    causes=("slow_device", "straggler"),
    from_records="output",
)
def straggler_report(profile: Profile) -> Check | Finding | None:
    """Times, clocks, temperatures and power of the first and the last rank by the report."""
    log = profile.run.job_log
    if log is None or log.rank_reports.empty or measured(profile, "reported_rank_ms") is None:
        return None
    times = [measure(profile, "reported_rank_ms", most=most) for most in (1, 0)]
    reports = measure(profile, "straggler_reports")
    rank = report_rank(profile, "time", True)
    apart = times[0].value - times[1].value >= profile.thresholds["rank_spread_pct"] / 100.0 * times[1].value
    if rank is None or not apart:
        who = "no rank is the slowest in most of them" if rank is None else f"rank {rank} is the slowest"
        text = (
            f"By Megatron-LM's straggler reports ({{2}}) {who}: the timed work of a rank takes {{0}} per step at most "
            "and {1} at least."
        )
        return clean(say(text, *times, reports))
    text = (
        f"By Megatron-LM's straggler reports ({{0}}) rank {rank} is the slowest: its timed work takes {{1}} per step, "
    )
    text += "that of the fastest rank {2}."
    clocks = _of_rank(profile, rank, "clock", False, "reported_clock_mhz")
    parts = [
        ("Its device has the lowest clock, {low} (the highest is {high}).", clocks),
        ("It is the hottest at {high} (the coolest is at {low}).", _of_rank(profile, rank, *HOTTEST)),
        ("It draws the least power, {low} (another draws {high}).", _of_rank(profile, rank, *LEAST_POWER)),
    ]
    facts = [reports, *times]
    for words, ends in parts:
        if ends:
            words = words if len(facts) > 3 else words.replace("It ", "Its device ", 1)
            text += " " + words.format(low=f"{{{len(facts)}}}", high=f"{{{len(facts) + 1}}}")
            facts += ends
    said = say(text, *facts)
    below_pct = 100.0 * (1.0 - clocks[0].value / clocks[1].value) if clocks else 0.0
    limit = profile.thresholds["clock_below_highest_pct"]
    if below_pct < limit:
        return symptom(said)
    return Finding(
        cause="slow_device",
        mechanism="down_clock",
        claim=said,
        confidence=confidence((below_pct, limit), at_most=CAP),
        ranks=(rank,),
        impact_ms=0.0,
        impact_method=NO_COST,
    )


def _of_rank(profile: Profile, rank: int, figure: str, most: bool, metric: str) -> list[Fact]:
    """The least and the most of a figure where the rank has that end of it in most reports; else none."""
    if report_rank(profile, figure, most) != rank:
        return []
    return [measure(profile, metric, most=end) for end in (0, 1)]
