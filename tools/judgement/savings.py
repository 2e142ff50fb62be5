"""Metrics of savings: the cost of a cause, and the step without it by replay."""

from __future__ import annotations

import pandas as pd

from tools.errors import InputError, UsageError
from tools.judgement.ranked_cause import RankedCause
from tools.judgement.ranking import ranking
from tools.metrics.measurement import Measurement, choice, metric
from tools.views.profile import Profile
from tools.whatif.predict import Prediction, predict

SHORTER = {"low": "high", "high": "low"}  # the shorter time is the higher speedup


def named_cause(profile: Profile, cause: str, mechanism: str, ranks: str) -> RankedCause:
    """The ranked cause of that name, mechanism ("" for none) and ranks ("0,3"; "" for all)."""
    known = ranking(profile)
    for each in (*known.causes, *known.below):
        if cause_key(each) == (cause, mechanism, ranks):
            return each
    have = ", ".join(each.finding.cause for each in known.causes) or "none"
    raise UsageError(f"the cause {cause} was not found in this run; found are: {have}")


def cause_key(ranked: RankedCause) -> tuple[str, str, str]:
    """Return what names a ranked cause in the arguments of a metric."""
    finding = ranked.finding
    return finding.cause, finding.mechanism or "", ",".join(str(rank) for rank in finding.ranks)


@metric("ms", "step time lost to {cause} {mechanism} {ranks}", "How much does a step lose to this cause?")
def cause_impact_ms(profile: Profile, cause: str, mechanism: str = "", ranks: str = "") -> Measurement:
    """Step time lost to the cause after those ranked above it, of the mean traced or unprofiled step."""
    ranked = named_cause(profile, cause, mechanism, ranks)
    return _measured(profile, ranked, ranked.impact_ms)


@metric("%", "share of the step lost to {cause} {mechanism} {ranks}", "Which share of a step is lost to this cause?")
def cause_impact_pct(profile: Profile, cause: str, mechanism: str = "", ranks: str = "") -> Measurement:
    """The same as a share of the mean step."""
    ranked = named_cause(profile, cause, mechanism, ranks)
    return _measured(profile, ranked, ranked.impact_pct)


@metric(
    "x",
    "predicted speedup without {cause} {mechanism} {ranks} {bound}",
    "How much faster would a step be without this cause?",
)
def predicted_speedup(
    profile: Profile, cause: str, mechanism: str = "", ranks: str = "", bound: str = "expected"
) -> Measurement:
    """Step time now over step time with only this cause gone; ``bound`` low or high for the ends of the interval."""
    ranked = named_cause(profile, cause, mechanism, ranks)
    return _measured(profile, ranked, _speedup(ranked, bound))


@metric(
    "ms",
    "predicted step time without {cause} {mechanism} {ranks} {bound}",
    "How long would a step take without this cause?",
)
def predicted_step_ms(
    profile: Profile, cause: str, mechanism: str = "", ranks: str = "", bound: str = "expected"
) -> Measurement:
    """Mean step time with only this cause gone, unprofiled where records hold it; the bound low is the shorter time."""
    ranked = named_cause(profile, cause, mechanism, ranks)
    speedup = _speedup(ranked, SHORTER.get(bound, bound))
    saving = ranked.finding.saving
    return _measured(profile, ranked, (ranked.step_ms + (saving.outside_ms if saving else 0.0)) / speedup)


@metric(
    "x", "predicted speedup without {causes} {bound}", "How much faster would a step be without several causes at once?"
)
def joint_speedup(profile: Profile, causes: str, bound: str = "expected") -> Measurement:
    """Step time over that without several causes (``cause`` or ``cause/mechanism``, with commas), replayed together."""
    chosen = _together(profile, causes)
    return _measured_together(profile, chosen, _bounded(_joint(profile, chosen), causes, bound))


@metric(
    "ms", "predicted step time without {causes} {bound}", "How long would a step take without several causes at once?"
)
def joint_step_ms(profile: Profile, causes: str, bound: str = "expected") -> Measurement:
    """Mean step time with several causes gone at once; the bound low is the shorter time's end (high speedup)."""
    chosen = _together(profile, causes)
    speedup = _bounded(_joint(profile, chosen), causes, SHORTER.get(bound, bound))
    return _measured_together(profile, chosen, chosen[0].step_ms / speedup)


@metric(
    "ms",
    "predicted step time with {buckets} gradient buckets",
    "How long would a step take with gradient buckets of other sizes?",
)
def predicted_bucket_step_ms(profile: Profile, buckets: str = "planned") -> Measurement:
    """Step time by the simulation of ``hermes-dx plan gradient-buckets``: with the planned or the present buckets."""
    from tools.whatif.planners.recorded_gradients import plan_run

    try:
        made = profile.memo("plan:gradient-buckets", lambda: plan_run(profile))
    except InputError as error:
        raise UsageError(f"gradient buckets cannot be planned from this run: {error}") from error
    times = {"planned": made.after_ms, "present": made.before_ms}
    value = times[choice("buckets", buckets, times)]
    if value is None:
        raise UsageError("the present gradient buckets are not known")
    rows = pd.DataFrame({"buckets": list(times), "step_ms": list(times.values())})
    return Measurement(value, lambda: rows, "simulation of gradient buckets", profile.run.rank_numbers, ())


def _together(profile: Profile, causes: str) -> tuple[RankedCause, ...]:
    known = ranking(profile)
    chosen: list[RankedCause] = []
    for key in causes.split(","):
        cause, _, mechanism = key.strip().partition("/")
        same = [
            each
            for each in (*known.causes, *known.below)
            if each.finding.cause == cause and mechanism in ("", each.finding.mechanism)
        ]
        if not same:
            raise UsageError(f"the cause {key.strip()} was not found in this run")
        chosen += [each for each in same if each not in chosen]
    for each in chosen:
        if not each.finding.change:
            raise UsageError(f"{each.finding.cause} cannot be replayed, so there is no prediction with it gone")
    return tuple(chosen)


def _joint(profile: Profile, chosen: tuple[RankedCause, ...]) -> Prediction:
    keys = sorted("/".join(cause_key(each)) for each in chosen)
    change = tuple(part for each in chosen for part in each.finding.change)
    return profile.memo(f"joint:{';'.join(keys)}", lambda: predict(profile, change))


def _measured_together(profile: Profile, chosen: tuple[RankedCause, ...], value: float) -> Measurement:
    causes = ", ".join(dict.fromkeys(each.finding.cause for each in chosen))
    steps = tuple(sorted({step for each in chosen for step in each.finding.steps}))
    return Measurement(value, lambda: _rows(profile), f"replay without {causes}", profile.run.rank_numbers, steps)


def _speedup(ranked: RankedCause, bound: str) -> float:
    if ranked.alone is None:
        raise UsageError(f"{ranked.finding.cause} cannot be replayed, so there is no prediction for it")
    return _bounded(ranked.alone, ranked.finding.cause, bound)


def _bounded(prediction: Prediction, name: str, bound: str) -> float:
    if prediction.withheld:
        raise UsageError(f"there is no prediction for {name}: {prediction.withheld}")
    if prediction.at_most and bound != "expected":
        raise UsageError(f"the gain without {name} is known as the most that it can be, without an interval")
    ends = {"expected": prediction.speedup, "low": prediction.speedup_low, "high": prediction.speedup_high}
    return ends[choice("bound", bound, ends)]


def _measured(profile: Profile, ranked: RankedCause, value: float) -> Measurement:
    finding = ranked.finding
    return Measurement(
        value,
        lambda: _rows(profile),
        (f"replay without {finding.cause}" if finding.change else f"{ranked.method}; {finding.cause}")
        + (f" ({finding.mechanism})" if finding.mechanism else ""),
        finding.ranks or profile.run.rank_numbers,
        finding.steps,
    )


def _rows(profile: Profile) -> pd.DataFrame:
    known = ranking(profile)
    return pd.DataFrame(
        [
            {
                "cause": each.finding.cause,
                "mechanism": each.finding.mechanism or "",
                "impact_ms": each.impact_ms,
                "step_ms_before": each.alone.step_ms_before if each.alone else None,
                "step_ms_after": each.alone.step_ms_after if each.alone else None,
                "method": each.method,
            }
            for each in (*known.causes, *known.below)
        ]
    )
