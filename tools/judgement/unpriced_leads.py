"""Leads of what was found next to step times without a known cost: findings, warnings of the output, skipped steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tools.analyzers.steps.output_warnings import MEANING
from tools.findings import Check, Sentence
from tools.judgement.lead import EVERY_STEP, Candidate, Lead, Place
from tools.judgement.ranked_cause import RankedCause
from tools.metrics.registry import measure
from tools.run.recorded.job_log import WarningKind
from tools.views.profile import Profile
from tools.views.steps.coarse import capture_of

# Where a cause of a family shows, in the parts of a trace; of the others records do not say so.
OF_FAMILY: Mapping[str, str] = MappingProxyType(
    {"io": "data_wait", "cpu": "host", "storage": "host", "memory": "host", "communication": "exposed_communication"}
)
MOST_UNPRICED = 2
WHOLE_PCT = 99.95  # of a step, as printed 100.0
SKIPPED = "computation.skipped_steps"
WITHOUT_SCALE = (
    "some hundred steps in bfloat16, which needs no loss scale, or with a lower learning rate: their log shows whether"
    " steps are still skipped"
)
ON_DEVICE = "the time of the same steps once the training uses the accelerator"


@dataclass(frozen=True)
class Warned:
    """What a warning of the output points to; ``decide_by`` is "" where a trace prices it."""

    candidates: tuple[Candidate, ...] = ()
    decide_by: str = ""


# The likelihoods are judgements: the warning says that it happened, nothing shows what it costs.
WARNED: Mapping[WarningKind, Warned] = MappingProxyType(
    {
        "recompile_limit": Warned(
            (
                Candidate("operator_compilation", 0.5, "the output says so; its cost is not stated", "dynamic_shape"),
                Candidate("operator_dispatch", 0.3, "what runs uncompiled launches each operator by itself"),
            )
        ),
        "uncompiled": Warned((Candidate("operator_dispatch", 0.4, "what runs uncompiled launches its operators"),)),
        "operator_on_cpu": Warned(decide_by=ON_DEVICE),
        "accelerator_unused": Warned(decide_by=ON_DEVICE),
        "trains_on_cpu": Warned(decide_by=ON_DEVICE),
        "device_libraries": Warned(decide_by=ON_DEVICE),
    }
)


def unpriced_leads(profile: Profile, below: Sequence[RankedCause], checks: Sequence[Check]) -> tuple[Lead, ...]:
    """What the records of a run without a trace show, the surest first, and what would show its cost: that is open."""
    findings = sorted((each.finding for each in below if each.finding.unpriced), key=lambda each: -each.confidence)
    found: dict[object, Lead] = {}
    for each in findings:
        candidate = Candidate(each.cause, round(each.confidence, 2), each.impact_method, each.mechanism)
        lead = _lead(OF_FAMILY.get(each.family, "step"), each.claim, (candidate,), capture_of(profile), each.ranks)
        found.setdefault((each.cause, each.mechanism), lead)
    return tuple([*_skipped(checks), *found.values(), *_warnings(profile)][:MOST_UNPRICED])


def before_whole(leads: Sequence[Lead], unpriced: Sequence[Lead]) -> tuple[Lead, ...]:
    """The leads with those of unknown cost, which come before the one that is only the step as a whole."""
    whole = [each for each in leads if _is_whole(each)]
    return (*(each for each in leads if each not in whole), *unpriced, *whole)


def _is_whole(lead: Lead) -> bool:
    return lead.place.part == "step" and lead.place.steps == EVERY_STEP and lead.impact_pct >= WHOLE_PCT


def _skipped(checks: Sequence[Check]) -> list[Lead]:
    """Steps that are skipped for overflow: they take no longer, and train nothing."""
    found = [each for each in checks if each.name == SKIPPED and each.status == "found"]
    return [_lead("step", each.support[0], (), WITHOUT_SCALE) for each in found]


def _warnings(profile: Profile) -> list[Lead]:
    log = profile.run.job_log
    kinds = [] if log is None else [each.kind for each in log.warnings if each.kind in WARNED]
    return [
        _lead(
            "host" if WARNED[kind].candidates else "step",
            Sentence(MEANING[kind], (measure(profile, "warning_lines", kind=kind),)),
            WARNED[kind].candidates,
            WARNED[kind].decide_by or capture_of(profile),
        )
        for kind in dict.fromkeys(kinds)
    ]


def _lead(
    part: str, claim: Sentence, candidates: tuple[Candidate, ...], decide_by: str, ranks: tuple[int, ...] = ()
) -> Lead:
    return Lead(Place(part, ranks, EVERY_STEP), 0.0, 0.0, claim, candidates, decide_by)
