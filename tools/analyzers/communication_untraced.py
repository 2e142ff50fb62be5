"""Do collectives wait for a rank whose trace is missing? From traced ranks alone it is a hypothesis at best."""

from __future__ import annotations

from tools.analyzers.collective_change import scaled
from tools.analyzers.communication_limit import all_traced
from tools.analyzers.margin import confidence
from tools.findings import Finding, Sentence
from tools.metrics.registry import measure
from tools.profilers.profile import Profile
from tools.profilers.transfers import Fit, fits

CAP = 0.45  # below the confidence of a verdict: nobody saw the rank that is waited for
UNSEEN = Sentence("The rank that is waited for was not traced; a transfer that others disturb might look alike.")


def holds_waiting(profile: Profile, fit: Fit) -> bool:
    """Whether most of the time does not depend on size and is longer than starting a collective takes."""
    costly = 100.0 * fit.fixed_share >= profile.thresholds["collective_fixed_pct"]
    return costly and fit.fixed_ns / 1e6 > profile.thresholds["collective_start_ms"]


def untraced_straggler(profile: Profile) -> Finding | None:
    """A late rank that was not traced, where collectives last as long whatever their size."""
    limits = profile.thresholds
    exposed = measure(profile, "exposed_transfer_pct")
    usable = [fit for fit in fits(profile) if 100.0 * fit.error <= limits["fit_error_pct"]]
    waiting = [fit for fit in usable if holds_waiting(profile, fit)]
    if all_traced(profile) or exposed.value < limits["communication_exposed_pct"] or not waiting:
        return None
    fit = waiting[0]
    fixed = measure(profile, "collective_fixed_ms", kind=fit.kind, group=fit.group)
    share = measure(profile, "collective_fixed_pct", kind=fit.kind, group=fit.group)
    return Finding(
        cause="straggler",
        claim=Sentence(
            "Each of the {n0} collectives takes {0} whatever its size, {1} of their time and longer than any start, as"
            " if they waited for a rank that was not traced.",
            (fixed, share),
            (fit.kind,),
        ),
        confidence=confidence(
            (exposed.value, limits["communication_exposed_pct"]),
            (share.value, limits["collective_fixed_pct"]),
            at_most=CAP,
        ),
        steps=fixed.steps,
        change=scaled(profile, fit.kind, 1.0 - fit.fixed_share),
        against=(UNSEEN,),
        disproved_by="whole traces of all ranks for the same steps, in which none comes late",
        signals=("R_wait = 1 - T_avg/T_max of a collective is high",),
    )
