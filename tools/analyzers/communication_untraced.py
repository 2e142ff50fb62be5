"""Do collectives wait for a rank whose trace is missing? From traced ranks alone it is a hypothesis at best."""

from __future__ import annotations

from tools.analyzers.collective_change import scaled
from tools.analyzers.communication_limit import all_traced
from tools.analyzers.margin import confidence
from tools.findings import Finding, Sentence
from tools.metrics.registry import measure
from tools.profilers.profile import Profile
from tools.profilers.transfers import Fit, fits, transfers

CAP = 0.45  # below the confidence of a verdict: nobody saw the rank that is waited for
SIZES = 3  # a line through fewer misses none of them
STEPS = 3  # in as many each of two sizes must come again, so that chance shows as distance from the line
UNSEEN = Sentence("The rank that is waited for was not traced; a transfer that others disturb might look alike.")


def holds_waiting(profile: Profile, fit: Fit) -> bool:
    """Whether most of the time does not depend on size and is longer than starting a collective takes."""
    costly = 100.0 * fit.fixed_share >= profile.thresholds["collective_fixed_pct"]
    return costly and fit.fixed_ns / 1e6 > profile.thresholds["collective_start_ms"]


def _tested(profile: Profile, fit: Fit) -> bool:
    """Whether the line could have missed its points: not with two sizes that were seen a few times."""
    table = transfers(profile)
    rows = table[(table["kind"] == fit.kind) & (table["group"] == fit.group)]
    return fit.sizes >= SIZES or int(rows.groupby("bytes")["step"].nunique().min()) >= STEPS


def untraced_straggler(profile: Profile) -> Finding | None:
    """A late rank that was not traced, where collectives last as long whatever their size."""
    limits = profile.thresholds
    exposed = measure(profile, "exposed_transfer_pct")
    usable = [fit for fit in fits(profile) if 100.0 * fit.error <= limits["fit_error_pct"] and _tested(profile, fit)]
    waiting = [fit for fit in usable if holds_waiting(profile, fit)]
    if all_traced(profile) or exposed.value < limits["communication_exposed_pct"] or not waiting:
        return None
    fit = waiting[0]
    fixed = measure(profile, "collective_fixed_ms", kind=fit.kind, group=fit.group)
    share = measure(profile, "collective_fixed_pct", kind=fit.kind, group=fit.group)
    return Finding(
        cause="straggler",
        claim=Sentence(
            "Of each of the {n0} collectives {0} do not depend on its size, {1} of their time and longer than any start"
            " takes, as if they waited for a rank that was not traced.",
            (fixed, share),
            (fit.kind,),
        ),
        confidence=confidence(
            (exposed.value, limits["communication_exposed_pct"]),
            (share.value, limits["collective_fixed_pct"]),
            at_most=CAP,
        ),
        steps=fixed.steps,
        change=scaled(profile, fit.kind, 1.0 - fit.fixed_share, group=fit.group),
        against=(UNSEEN,),
        disproved_by="whole traces of all ranks for the same steps, in which none comes late",
        signals=("R_wait = 1 - T_avg/T_max of a collective is high",),
    )
