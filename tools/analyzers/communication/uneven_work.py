"""Have the ranks unequal work: batches of different size (data skew), or experts with different load?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tools.analyzers.support.answers import cannot_answer, clean, confidence, found, say
from tools.analyzers.support.excess import balance
from tools.analyzers.support.spec import check
from tools.findings import Check, Fact, Finding, Sentence
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

FOLLOWING = 0.6  # correlation of compute time with work below which the time has another reason
EVERYWHERE = 0.95  # of the arithmetic with shapes of its own on each rank: the batches themselves differ
CERTAIN_LOAD = 0.9  # no cap by the number of steps: shapes are counted, not timed


@check(
    *("communication.data_skew", "Load imbalance", "Is work imbalanced across ranks?"),
    causes=("data_skew",),
)
def data_skew(profile: Profile) -> Check:
    """Work by recorded shapes, compared between ranks."""
    if pipeline(profile) is not None:
        text = "The ranks are stages of a pipeline: their work differs by design, see pipeline.imbalance."
        return clean(say(text))
    if len(profile.ranks) > 1:
        return _answer(profile, _skew, not _by_experts(profile))
    if (profile.run.layout.world_size or 1) > 1:
        return cannot_answer("only one rank was traced", "the traces of the other ranks, same steps")
    return clean(say("One rank has nobody to share work with unevenly."))


@check(
    *("communication.expert_load", "Expert load", "Is the load of the experts imbalanced?"),
    causes=("moe_imbalance",),
)
def expert_load(profile: Profile) -> Check | None:
    """The load of experts, where the ranks exchange tokens; not asked of one rank or pipeline stages."""
    if len(profile.ranks) < 2 or pipeline(profile) is not None:
        return None
    return _answer(profile, _experts, _by_experts(profile))


def _answer(profile: Profile, finding: Callable[[Profile], Finding], mine: bool) -> Check:
    if rank_work(profile).empty:
        needs = "the traces of all ranks, recorded with record_shapes=True"
        return cannot_answer("the shapes of the ranks' operators are not known", needs)
    return found(finding(profile)) if mine and unequal(profile) else clean(_amounts(profile))


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


def _by_experts(profile: Profile) -> bool:
    """Whether the unequal part is a part only: between ranks that exchange tokens, dense layers stay equal."""
    if rank_work(profile).empty:
        return False
    return _exchanges(profile) and float(rank_work(profile)["own_share"].mean()) < EVERYWHERE


def _amounts(profile: Profile) -> Sentence:
    facts = (
        measure(profile, "work_uneven_pct"),
        measure(profile, "work_compute_spread_ms"),
        measure(profile, "work_follows_pct"),
    )
    return say(
        "By the shapes of its operators the rank with most work has {0} more than the mean; the rank that computes"
        " longest does so {1} longer than the mean, and compute time follows the work to {2}.",
        *facts,
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
    return tuple(say(f"rank {rank} has {{0}} of the mean rank's arithmetic.", shares[rank]) for rank in ends)


def _skew(profile: Profile) -> Finding:
    uneven, spread = measure(profile, "work_uneven_pct"), measure(profile, "work_compute_spread_ms")
    return Finding(
        cause="data_skew",
        claim=say(
            "The ranks' batches differ in size: the rank with most work of a step has {0} more than the mean and"
            " computes {1} longer, and the others wait for it.",
            uneven,
            spread,
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
        claim=say(
            "Expert load is imbalanced across ranks: the rank with most has {0} more than the mean"
            " and computes {1} longer, and the others wait for it in the exchange.",
            uneven,
            spread,
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
    return say("Of the arithmetic, {0} has shapes that are not the same on all ranks; the rest is equal.", fact)


def _exchanged(profile: Profile) -> tuple[Sentence, ...]:
    series = exchanged_bytes(profile)
    if series.empty or float(series.max()) < _limit(profile) * float(series.mean()):
        return ()
    rank = int(str(series.idxmax()))
    facts = (measure(profile, "exchanged_mib", rank=rank), measure(profile, "exchanged_mib"))
    return (say(f"rank {rank} exchanges {{0}} per step in all-to-alls, the mean rank {{1}}.", *facts),)
