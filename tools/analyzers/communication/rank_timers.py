"""By a job's own timers and step lines: does one rank, or one stage of its pipeline, take longer than the others?"""

from __future__ import annotations

from tools.analyzers.support.answers import clean, confidence, say, symptom
from tools.analyzers.support.spec import check
from tools.errors import UsageError
from tools.findings import Check, Finding, Saving
from tools.metrics.recorded.rank_times import OwnTimes, line_times, own_times, stage_ranks
from tools.metrics.registry import measure
from tools.views.profile import Profile

CAP = 0.75  # the timers are the job's own, and what they enclose is not in the output
SECOND = 0.5  # of its lead: a rank that is so far ahead of the next one stands out
MOSTLY = 0.5  # of the steps: a mean that a few steps make longer names no rank
SHOWN = 8


@check(
    *("communication.rank_timers", "Ranks by the job's timers", "Does one rank take longer by the job's own timers?"),
    causes=("straggler", "pipeline_imbalance"),
    from_records="output",
)
def rank_timers(profile: Profile) -> Check | Finding | None:
    """Timers of forward and backward of every rank, which all-reduces do not make equal; else the ranks' step lines."""
    if profile.run.job_log is None or profile.traced:
        return None
    try:
        own = own_times(profile)
    except UsageError:
        return _by_lines(profile)
    stage = _heavy_stage(profile, own)
    if stage is not None:
        return _of_stage(profile, stage)
    rank = int(str(own.ms.idxmax()))
    facts = measure(profile, "rank_timers_ms", rank=rank), measure(profile, "other_ranks_timers_ms", rank=rank)
    timers, take = " and ".join(f"`{name}`" for name in own.names), "takes" if len(own.names) == 1 else "take"
    if not _stands_out(profile, own):
        longest = f"By the job's timers {timers} {take} {{0}} per step on the longest rank, {rank}; the median"
        return clean(say(f"{longest} of the others is {{1}}.", *facts))
    text = f"By the job's timers {timers} {take} {{0}} per step on rank {rank}, {{1}} in the median on the others."
    claim = say(text, *facts)
    if profile.series is None:
        return symptom(claim)
    saved_ms, step_ms, limits = facts[0].value - facts[1].value, profile.mean_step_ms, profile.thresholds
    return Finding(
        cause="straggler",
        claim=claim,
        confidence=confidence(
            (100.0 * saved_ms / facts[1].value, limits["rank_spread_pct"]),
            (100.0 * saved_ms / step_ms, limits["noted_pct"]),
            at_most=CAP,
        ),
        ranks=(rank,),
        saving=Saving(
            step_ms, saved_ms, 0.5 * saved_ms, saved_ms, "the job's timers: the rank as fast as the median one"
        ),
        hints={"rank": str(rank)},
    )


def _stands_out(profile: Profile, own: OwnTimes) -> bool:
    """Whether the longest rank is alone: above the median of the others by the limit, far above the next one, and the
    longest in most steps."""
    ordered = own.ms.sort_values(ascending=False)
    if own.longest.get(int(str(ordered.index[0])), 0.0) < MOSTLY:
        return False
    most, second, others = float(ordered.iloc[0]), float(ordered.iloc[1]), float(ordered.iloc[1:].median())
    over = most - others
    return 100.0 * over >= profile.thresholds["rank_spread_pct"] * others and most - second >= SECOND * over


def _heavy_stage(profile: Profile, own: OwnTimes) -> int | None:
    """The stage of which every rank takes longer than every rank of the other stages, by the limit; None where the
    ranks of the stages are not known, or none is so."""
    groups = stage_ranks(profile)
    if not groups:
        return None
    means = [float(own.ms[list(ranks)].mean()) for ranks in groups]
    heavy = max(range(len(groups)), key=lambda stage: means[stage])
    others = own.ms.drop(list(groups[heavy]))
    over_pct = 100.0 * (means[heavy] / float(own.ms.mean()) - 1.0)
    apart = float(own.ms[list(groups[heavy])].min()) > float(others.max())
    return heavy if apart and over_pct >= profile.thresholds["rank_spread_pct"] else None


def _of_stage(profile: Profile, stage: int) -> Check | Finding:
    groups = stage_ranks(profile)
    own, mean = measure(profile, "stage_timers_ms", stage=stage), measure(profile, "mean_stage_timers_ms")
    ranks = groups[stage]
    named = ", ".join(map(str, ranks[:SHOWN])) + (" and more" if len(ranks) > SHOWN else "")
    where = f"rank{'s' * (len(ranks) > 1)} {named}"
    claim = say(
        f"Pipeline stage {stage} ({where}) computes {{0}} per step by the job's timers; the mean stage takes {{1}}.",
        *(own, mean),
    )
    if profile.series is None:
        return symptom(claim)
    saved_ms, step_ms, limits = own.value - mean.value, profile.mean_step_ms, profile.thresholds
    return Finding(
        cause="pipeline_imbalance",
        claim=claim,
        confidence=confidence(
            (100.0 * saved_ms / mean.value, limits["rank_spread_pct"]),
            (100.0 * saved_ms / step_ms, limits["noted_pct"]),
            at_most=CAP,
        ),
        ranks=ranks,
        saving=Saving(step_ms, saved_ms, 0.5 * saved_ms, 1.1 * saved_ms, "the job's timers: stages computing alike"),
        details=tuple(
            say(f"Stage {each} computes {{0}} per step.", measure(profile, "stage_timers_ms", stage=each))
            for each in range(min(len(groups), SHOWN))
        ),
    )


def _by_lines(profile: Profile) -> Check | None:
    """A rank whose lines state longer steps; ranks that wait for each other in a step would state equal ones."""
    try:
        own = line_times(profile)
    except UsageError:
        return None
    if not _stands_out(profile, own):
        return None
    rank = int(str(own.ms.idxmax()))
    text = (
        f"Rank {rank} takes {{0}} per step by its own lines, the other ranks {{1}} in the median: by these lines the "
        "ranks do not wait for each other within a step, or a line times the rank's own work."
    )
    return symptom(
        say(text, measure(profile, "rank_lines_ms", rank=rank), measure(profile, "other_ranks_lines_ms", rank=rank))
    )
