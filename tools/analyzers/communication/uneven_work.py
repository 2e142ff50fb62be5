"""Have the ranks unequal work: batches of different size (data skew), or experts with different load?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tools.analyzers.support.answers import cannot_answer, clean, confidence, found, say
from tools.analyzers.support.excess import balance
from tools.analyzers.support.figures import measure_all, measure_ranks
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding, Sentence
from tools.metrics.communication.pipeline import pipeline
from tools.metrics.communication.rank_work import (
    busiest_rank,
    exchanged_bytes,
    follows_work,
    rank_work,
    uneven_compute_ms,
    uneven_pct,
)
from tools.metrics.registry import measure
from tools.views.communication.arrivals import arrivals
from tools.views.communication.collectives import collectives
from tools.views.profile import Profile

FOLLOWING = 0.6  # correlation of compute time with work below which the time has another reason
EVERYWHERE = 0.95  # of the arithmetic with shapes of its own on each rank: the batches themselves differ
CERTAIN_LOAD = 0.9  # no cap by the number of steps: shapes are counted, not timed


@check("communication.data_skew", "Load imbalance", "Is work imbalanced across ranks?", causes=("data_skew",))
def data_skew(profile: Profile) -> Check:
    """Work by recorded shapes, compared between ranks."""
    if pipeline(profile) is not None:
        text = "The ranks are stages of a pipeline: their work differs by design, see pipeline.imbalance."
        return clean(say(text))
    if len(profile.ranks) > 1:
        return _answer(profile, by_experts=False)
    if (profile.run.layout.world_size or 1) > 1:
        return cannot_answer("only one rank was traced", "the traces of the other ranks, same steps")
    return clean(say("One rank has nobody to share work with unevenly."))


@check(
    *("communication.expert_load", "Expert load", "Is the load of the experts imbalanced?"), causes=("moe_imbalance",)
)
def expert_load(profile: Profile) -> Check | None:
    """The load of experts, where the ranks exchange tokens; not asked of one rank or pipeline stages."""
    if len(profile.ranks) < 2 or pipeline(profile) is not None:
        return None
    return _answer(profile, by_experts=True)


def _answer(profile: Profile, by_experts: bool) -> Check:
    """Experts are asked for where the unequal part is a part only: dense layers stay equal between the ranks."""
    work, table = rank_work(profile), collectives(profile)
    if work.empty:
        needs = "the traces of all ranks, recorded with record_shapes=True"
        return cannot_answer("the shapes of the ranks' operators are not known", needs)
    exchanges = bool(((table["kind"] == "all_to_all") & (table["step"] >= 0)).any())
    mine = by_experts == (exchanges and float(work["own_share"].mean()) < EVERYWHERE)
    return found(_finding(profile, by_experts)) if mine and unequal(profile) else clean(_amounts(profile))


def unequal(profile: Profile) -> bool:
    """Whether the ranks' work differs noticeably, takes noticeable time, and the time follows the work."""
    limits = profile.thresholds
    return (
        uneven_pct(profile) >= limits["rank_spread_pct"]
        and 100.0 * uneven_compute_ms(profile) / profile.mean_step_ms >= limits["noted_pct"]
        and follows_work(profile) >= FOLLOWING
        and not arrivals(profile).empty
    )


def _amounts(profile: Profile) -> Sentence:
    text = (
        "By shapes one rank has {0} more work than the ranks' mean; one computes {1} longer than their mean, and time"
        " follows work to {2}."
    )
    return say(text, *measure_all(profile, "work_uneven_pct", "work_compute_spread_ms", "work_follows_pct"))


def _finding(profile: Profile, by_experts: bool) -> Finding:
    limits, numbers = profile.thresholds, profile.run.rank_numbers
    uneven, spread = measure_all(profile, "work_uneven_pct", "work_compute_spread_ms")
    shares = measure_ranks(profile, numbers, "rank_work_pct")
    ends = dict.fromkeys((max(shares, key=lambda r: shares[r].value), min(shares, key=lambda r: shares[r].value)))
    busiest = busiest_rank(profile)
    who = "one rank, not always the same," if busiest is None else f"rank {busiest}"
    more = "has {0} more work than the ranks' mean and computes {1} longer than their mean; the others wait."
    text = f"Batches differ in size: {who} {more}"
    skew = Finding(
        cause="data_skew",
        claim=say(text, uneven, spread),
        confidence=confidence(
            (uneven_pct(profile), limits["rank_spread_pct"]),
            (100.0 * uneven_compute_ms(profile) / profile.mean_step_ms, 0.5 * limits["cause_share_pct"]),
            (follows_work(profile), 0.5 * FOLLOWING),
            at_most=CERTAIN_LOAD,
        ),
        ranks=numbers,
        change=balance(profile),
        details=(
            _amounts(profile),
            *(say(f"rank {rank} has {{0}} of the mean rank's arithmetic.", shares[rank]) for rank in ends),
        ),
    )
    return _of_experts(profile, skew) if by_experts else skew


def _of_experts(profile: Profile, skew: Finding) -> Finding:
    most = rank_work(profile).groupby("rank")["flops"].sum()
    uneven = 1.0 + profile.thresholds["rank_spread_pct"] / 100.0
    loaded = tuple(most.index[most >= float(most.mean()) * uneven].to_numpy(dtype=np.int64).tolist())
    text = (
        "Expert load is imbalanced across ranks: one has {0} more than the ranks' mean and computes {1} longer than"
        " their mean."
    )
    own_part = "Of the arithmetic, {0} has shapes that are not the same on all ranks; the rest is equal."
    details = [*skew.details, say(own_part, measure(profile, "work_own_share_pct"))]
    series = exchanged_bytes(profile)
    if len(series) and float(series.max()) >= uneven * float(series.mean()):
        rank = int(str(series.idxmax()))
        facts = measure(profile, "exchanged_mib", rank=rank), measure(profile, "exchanged_mib")
        exchanges = f"rank {rank} exchanges {{0}} per step in all-to-alls, the mean rank {{1}}."
        details.append(say(exchanges, *facts))
    return replace(
        skew,
        cause="moe_imbalance",
        claim=say(text, *skew.claim.facts),
        ranks=loaded or (int(most.index.to_numpy()[most.to_numpy().argmax()]),),
        details=tuple(details),
    )
