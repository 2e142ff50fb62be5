"""What speaks against a finding from a few profiled steps: unprofiled ones, or that no steps are marked."""

from __future__ import annotations

from dataclasses import replace

from tools.analyzers.support.figures import measured, saving
from tools.findings import Finding, Sentence
from tools.judgement.ranked_cause import steps_marked
from tools.metrics.registry import measure
from tools.views.profile import Profile
from tools.views.steps.coarse import own_ms

OF_ONE_RANK = ("straggler", "slow_device")  # causes that say: this rank takes longer than the others, always
SEEN_SHARE = 1.0 / 3.0  # of the excess that the trace shows must be there without the profiler too
BORNE_SHARE = 0.5  # of the share of the traced step: where steps differ in length, shares say more than times
REFUTED_SHARE = 0.5  # of what is called a problem: with less than that it costs the run nothing
CHANCE = "seen in the profiled steps alone, so the run loses nothing to it"
UNPROFILED_WAIT = "time that the unprofiled steps near the traced ones wait for data"
DOUBTED = 0.4  # a chance of the profiled steps is a hypothesis at most


def doubted(profile: Profile, finding: Finding) -> Finding:
    """The finding, with less confidence where unprofiled steps contradict it or no step shows that its cost lasts.

    A recording without steps may be all start-up: what it shows of its own time is a hypothesis on the training.
    """
    if not profile.traced:
        return finding
    weighed = _series_doubted(profile, finding)
    if steps_marked(profile.run) or (weighed.saving is not None and weighed.saving.of_series):
        return weighed
    return replace(weighed, confidence=round(weighed.confidence * profile.thresholds["unmarked_confidence"], 3))


def _series_doubted(profile: Profile, finding: Finding) -> Finding:
    if finding.family == "io" and finding.change:
        return _data_doubted(profile, finding)
    if finding.cause not in OF_ONE_RANK or not finding.ranks or len(finding.ranks) == len(profile.ranks):
        return finding
    if not set(finding.ranks) <= set(profile.run.rank_numbers):  # records of collectives name ranks without a trace
        return finding
    traced = max(_traced_excess_pct(profile, rank) for rank in finding.ranks)
    facts = {rank: measured(profile, "own_excess_pct", rank=rank) for rank in finding.ranks}
    recorded = {rank: fact for rank, fact in facts.items() if fact is not None}
    if not recorded or traced <= 0:
        return finding
    most = max(recorded, key=lambda rank: recorded[rank].value)
    if recorded[most].value >= SEEN_SHARE * traced:
        return finding
    gone = recorded[most].value < REFUTED_SHARE * profile.thresholds["cause_share_pct"]
    text = f"In steps that no profiler touched rank {most} takes only {{0}} of a step longer than the others."
    return _weakened(finding, Sentence(text, (recorded[most],)), gone)


def _traced_excess_pct(profile: Profile, rank: int) -> float:
    """Excess of a rank's own time over the others in the traced steps, in percent of a step."""
    own = own_ms(profile)
    return 100.0 * (float(own.loc[rank]) - float(own.drop(index=rank).median())) / profile.mean_step_ms


def _data_doubted(profile: Profile, finding: Finding) -> Finding:
    """A wait for data that the trace shows and the unprofiled steps near its own do not (a run may change midway)."""
    ranks = finding.ranks or profile.run.rank_numbers
    facts = {rank: measured(profile, "series_near_part_ms", rank=rank, part="data_wait") for rank in ranks}
    recorded = {rank: fact for rank, fact in facts.items() if fact is not None and fact.value > 0}  # 0: nobody watched
    table = profile.breakdown
    traced_ms = table[table["rank"].isin(ranks)].groupby("rank")["data_wait_ns"].mean().max() / 1e6
    if len(recorded) < len(ranks):
        return finding
    most = max(recorded, key=lambda rank: recorded[rank].value)
    if recorded[most].value >= SEEN_SHARE * traced_ms or _borne_out(profile, recorded[most].value, most):
        # What records show where ranks have no trace: a replay does not know how long those take.
        cost = measured(profile, "data_wait_cost_ms")
        if profile.series is None or cost is None or set(profile.series.ranks) <= set(profile.run.rank_numbers):
            return finding
        worth = saving(profile, min(recorded[most].value, cost.value), 0.5, 1.15, UNPROFILED_WAIT)
        return replace(finding, change=(), saving=worth)
    step_ms = measure(profile, "series_step_ms", rank=most).value
    gone = recorded[most].value < REFUTED_SHARE * profile.thresholds["cause_share_pct"] / 100.0 * step_ms
    text = f"In steps near these that no profiler touched rank {most} waits for data only {{0}} per step."
    weaker = _weakened(finding, Sentence(text, (recorded[most],)), gone)
    if gone:
        return weaker
    return replace(weaker, change=(), saving=saving(profile, recorded[most].value, 0.5, 1.15, UNPROFILED_WAIT))


def _borne_out(profile: Profile, wait_ms: float, rank: int) -> bool:
    """Return whether the rank waits for a like share of unprofiled steps: a profiler slows a loader's many calls."""
    step_ms = measure(profile, "series_near_part_ms", rank=rank, part="wall").value
    traced_pct = measure(profile, "part_pct", rank=rank, part="data_wait").value
    return 100.0 * wait_ms / step_ms >= BORNE_SHARE * traced_pct


def _weakened(finding: Finding, against: Sentence, gone: bool) -> Finding:
    return replace(
        finding,
        confidence=round(finding.confidence * DOUBTED, 3),
        against=(*finding.against, against),
        change=() if gone else finding.change,
        impact_ms=0.0 if gone else finding.impact_ms,
        impact_method=CHANCE if gone else finding.impact_method,
        saves_nothing=gone,
    )
