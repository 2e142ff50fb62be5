"""What a cause costs and what removing it would bring, by replay."""

from __future__ import annotations

import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, Metric
from tools.profilers.profile import Profile
from tools.ranking import RankedCause, ranking

BOUNDS = ("expected", "low", "high")


def named_cause(profile: Profile, cause: str, mechanism: str, ranks: str) -> RankedCause:
    """The ranked cause of that name, mechanism ("" for none) and ranks ("0,3"; "" for all)."""
    known = ranking(profile)
    for each in (*known.causes, *known.below):
        if cause_key(each) == (cause, mechanism, ranks):
            return each
    have = ", ".join(each.finding.cause for each in known.causes) or "none"
    raise UsageError(f"the cause {cause} was not found in this run; found are: {have}")


def cause_key(ranked: RankedCause) -> tuple[str, str, str]:
    """What names a ranked cause in the arguments of a metric."""
    finding = ranked.finding
    return finding.cause, finding.mechanism or "", ",".join(str(rank) for rank in finding.ranks)


def cause_impact_ms(profile: Profile, cause: str, mechanism: str = "", ranks: str = "") -> Measurement:
    """Step time lost to the cause, after the causes ranked above it are gone."""
    ranked = named_cause(profile, cause, mechanism, ranks)
    return _measured(profile, ranked, ranked.impact_ms)


def cause_impact_pct(profile: Profile, cause: str, mechanism: str = "", ranks: str = "") -> Measurement:
    """The same as a share of the mean step."""
    ranked = named_cause(profile, cause, mechanism, ranks)
    return _measured(profile, ranked, ranked.impact_pct)


def predicted_speedup(
    profile: Profile, cause: str, mechanism: str = "", ranks: str = "", bound: str = "expected"
) -> Measurement:
    """Step time now over step time with only this cause gone; ``bound`` low or high for the ends of the interval."""
    ranked = named_cause(profile, cause, mechanism, ranks)
    return _measured(profile, ranked, _speedup(ranked, bound))


def predicted_step_ms(
    profile: Profile, cause: str, mechanism: str = "", ranks: str = "", bound: str = "expected"
) -> Measurement:
    """Mean step time with only this cause gone; the bound low is the shorter time's end (high speedup)."""
    ranked = named_cause(profile, cause, mechanism, ranks)
    speedup = _speedup(ranked, {"low": "high", "high": "low"}.get(bound, bound))
    return _measured(profile, ranked, profile.mean_step_ms / speedup)


def _speedup(ranked: RankedCause, bound: str) -> float:
    if ranked.alone is None:
        raise UsageError(f"{ranked.finding.cause} cannot be replayed, so there is no prediction for it")
    if ranked.alone.withheld:
        raise UsageError(f"there is no prediction for {ranked.finding.cause}: {ranked.alone.withheld}")
    match bound:
        case "expected":
            return ranked.alone.speedup
        case "low":
            return ranked.alone.speedup_low
        case "high":
            return ranked.alone.speedup_high
        case _:
            raise UsageError(f"there is no bound {bound!r}; choose one of {', '.join(BOUNDS)}")


def _measured(profile: Profile, ranked: RankedCause, value: float) -> Measurement:
    finding = ranked.finding
    return Measurement(
        value,
        lambda: _rows(profile),
        f"replay without {finding.cause}" + (f" ({finding.mechanism})" if finding.mechanism else ""),
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


METRICS = (
    Metric("cause_impact_ms", "ms", "What does a step lose to this cause?", cause_impact_ms),
    Metric("cause_impact_pct", "%", "What share of a step is lost to this cause?", cause_impact_pct),
    Metric("predicted_speedup", "x", "How much faster would a step be without this cause?", predicted_speedup),
    Metric("predicted_step_ms", "ms", "How long would a step take without this cause?", predicted_step_ms),
)
