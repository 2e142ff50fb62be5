"""Have the ranks unequal work: batches of different size (data skew), or experts with different load?"""

from __future__ import annotations

import numpy as np

from tools.analyzers.support.confidence import confidence
from tools.analyzers.support.excess import balance
from tools.findings import Check, Fact, Finding, Sentence, cannot_answer, clean, found
from tools.metrics.communication.pipeline import pipeline
from tools.metrics.communication.rank_work import (
    exchanged_bytes,
    follows_work,
    rank_work,
    uneven_compute_ms,
    uneven_pct,
)
from tools.metrics.registry import measure
from tools.views.arrivals import arrivals
from tools.views.collectives import collectives
from tools.views.profile import Profile

SKEW, EXPERTS = "communication.data_skew", "communication.expert_load"
NAMES = (SKEW, EXPERTS)
FOLLOWING = 0.6  # correlation of compute time with work below which the time has another reason
EVERYWHERE = 0.95  # of the arithmetic with shapes of its own on each rank: the batches themselves differ
CERTAIN_LOAD = 0.9  # no cap by the number of steps: shapes are counted, not timed


def analyze(profile: Profile) -> tuple[Check, ...]:
    """Work by recorded shapes, compared between ranks; expert load where the ranks exchange tokens."""
    if len(profile.ranks) < 2 or pipeline(profile) is not None:
        return _not_asked(profile)
    if rank_work(profile).empty:
        needs = "the traces of all ranks, recorded with record_shapes=True"
        return tuple(cannot_answer(name, "the shapes of the ranks' operators are not known", needs) for name in NAMES)
    if not unequal(profile):
        return tuple(clean(name, _amounts(profile)) for name in NAMES)
    experts = _by_experts(profile)
    finding = _experts(profile) if experts else _skew(profile)
    others = [clean(name, _amounts(profile)) for name in NAMES if name != (EXPERTS if experts else SKEW)]
    return found(EXPERTS if experts else SKEW, finding), *others


def unequal(profile: Profile) -> bool:
    """Whether the ranks' work differs noticeably, takes noticeable time, and the time follows the work."""
    limits = profile.thresholds
    return (
        uneven_pct(profile) >= limits["rank_spread_pct"]
        and 100.0 * uneven_compute_ms(profile) / profile.mean_step_ms >= limits["noted_pct"]
        and follows_work(profile) >= FOLLOWING
        and not arrivals(profile).empty
    )


def _exchanges(profile: Profile) -> bool:
    table = collectives(profile)
    return bool(((table["kind"] == "all_to_all") & (table["step"] >= 0)).any())


def _not_asked(profile: Profile) -> tuple[Check, ...]:
    if pipeline(profile) is not None:
        text = "The ranks are stages of a pipeline: their work differs by design, see pipeline.imbalance."
        return (clean(SKEW, Sentence(text)),)
    if (profile.run.layout.world_size or 1) > 1:
        return (cannot_answer(SKEW, "one rank's trace was given only", "the traces of the other ranks, same steps"),)
    return (clean(SKEW, Sentence("One rank has nobody to share work with unevenly.")),)


def _by_experts(profile: Profile) -> bool:
    """Whether the unequal part is a part only: between ranks that exchange tokens, dense layers stay equal."""
    return _exchanges(profile) and float(rank_work(profile)["own_share"].mean()) < EVERYWHERE


def _amounts(profile: Profile) -> Sentence:
    facts = (
        measure(profile, "work_uneven_pct"),
        measure(profile, "work_compute_spread_ms"),
        measure(profile, "work_follows_pct"),
    )
    return Sentence(
        "By the shapes of its operators the rank with most work has {0} more than the mean; the rank that computes"
        " longest does so {1} longer than the mean, and compute time follows the work to {2}.",
        facts,
    )


def _sure(profile: Profile) -> float:
    limits = profile.thresholds
    lost_pct = 100.0 * uneven_compute_ms(profile) / profile.mean_step_ms
    return confidence(
        (uneven_pct(profile), limits["rank_spread_pct"]),
        (lost_pct, 0.5 * limits["cause_share_pct"]),
        (follows_work(profile), 0.5 * FOLLOWING),
        at_most=CERTAIN_LOAD,
    )


def _per_rank(profile: Profile) -> tuple[Sentence, ...]:
    shares = {rank: measure(profile, "rank_work_pct", rank=rank) for rank in profile.run.rank_numbers}
    ends = dict.fromkeys((max(shares, key=lambda r: shares[r].value), min(shares, key=lambda r: shares[r].value)))
    return tuple(Sentence(f"rank {rank} has {{0}} of the mean rank's arithmetic.", (shares[rank],)) for rank in ends)


def _skew(profile: Profile) -> Finding:
    uneven, spread = measure(profile, "work_uneven_pct"), measure(profile, "work_compute_spread_ms")
    return Finding(
        cause="data_skew",
        claim=Sentence(
            "The ranks' batches differ in size: the rank with most work of a step has {0} more than the mean and"
            " computes {1} longer, and the others wait for it.",
            (uneven, spread),
        ),
        confidence=_sure(profile),
        ranks=profile.run.rank_numbers,
        steps=uneven.steps,
        change=balance(profile),
        details=(_amounts(profile), *_per_rank(profile)),
        disproved_by="equal batches (same length, same content) on all ranks with the waiting unchanged",
        signals=("arrival order changes from step to step", "compute time follows sequence length or batch content"),
    )


def _experts(profile: Profile) -> Finding:
    uneven, spread = measure(profile, "work_uneven_pct"), measure(profile, "work_compute_spread_ms")
    table = rank_work(profile)
    most = table.groupby("rank")["flops"].sum()
    loaded = tuple(most.index[most >= float(most.mean()) * _limit(profile)].to_numpy(dtype=np.int64).tolist())
    return Finding(
        cause="moe_imbalance",
        claim=Sentence(
            "Ranks that exchange tokens by all-to-all have unequal work: the rank with most has {0} more than the mean"
            " and computes {1} longer, and the others wait for it in the exchange.",
            (uneven, spread),
        ),
        confidence=_sure(profile),
        ranks=loaded or (int(most.index.to_numpy()[most.to_numpy().argmax()]),),
        steps=uneven.steps,
        change=balance(profile),
        details=(_amounts(profile), *_per_rank(profile), _own_part(profile), *_exchanged(profile)),
        disproved_by="tokens spread evenly over the experts with the waiting in the all-to-alls unchanged",
        signals=("all-to-all waits follow expert load", "grouped matmul tokens max over mean high"),
    )


def _limit(profile: Profile) -> float:
    return 1.0 + profile.thresholds["rank_spread_pct"] / 100.0


def _own_part(profile: Profile) -> Sentence:
    fact: Fact = measure(profile, "work_own_share_pct")
    return Sentence("Of the arithmetic, {0} has shapes that are not the same on all ranks; the rest is equal.", (fact,))


def _exchanged(profile: Profile) -> tuple[Sentence, ...]:
    series = exchanged_bytes(profile)
    if series.empty or float(series.max()) < _limit(profile) * float(series.mean()):
        return ()
    rank = int(str(series.idxmax()))
    facts = (measure(profile, "exchanged_mib", rank=rank), measure(profile, "exchanged_mib"))
    return (Sentence(f"rank {rank} exchanges {{0}} per step in all-to-alls, the mean rank {{1}}.", facts),)
