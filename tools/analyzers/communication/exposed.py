"""Exchanges that the next operator waits for: what would splitting the batch into shards hide of them?"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from tools.analyzers.communication.limit import (
    UNTRACED,
    all_traced,
    link_bound,
    link_limited,
    order_suffices,
    overlap_known,
)
from tools.analyzers.support.answers import HIGHEST, cannot_answer, clean, confidence, found, say
from tools.analyzers.support.changes import hidden
from tools.analyzers.support.figures import NOT_COUNTED, measure_ranks, samples_needed
from tools.analyzers.support.spec import check
from tools.findings import Check, Fact, Finding, Sentence
from tools.metrics.registry import measure
from tools.views.communication.collectives import collectives
from tools.views.communication.transfers import NEEDED_AT_ONCE, exchange_rows, exposed_exchange_ns, moving
from tools.views.profile import Profile
from tools.whatif.change import Change

# Hypotheses, below the confidence of a verdict. Shards make operators smaller, and what those then take, no trace of
# the whole batch shows: with eight GPT3-13B was slower than without any (Hermes, USENIX ATC'25). A link without a
# pause has none left to use, a busy core has its own work to do, and where a rank was not traced, waiting for it, which
# no overlap removes, looks like transfer: those traced do not wait for each other, but may all wait for that one.
CAP = 0.45
AT_ONCE = say("The next operator needs their result: no order of the same work hides them, only shards of it do.")
SMALLER = say("Shards make operators smaller, which may take back what they hide; the trace does not show that.")
NO_IDLE_CORE = (
    "between processes of one machine cores transfer the data, and neither idle cores nor a transfer that a link limits"
    " is recorded"
)
NO_CORE = say("Whether cores are idle meanwhile, which the library's threads would need, was not recorded.")


def exchange_finding(profile: Profile) -> Finding | None:
    """Poor overlap as a hypothesis where exposed all-to-alls take much and shards would hide a noticeable part."""
    limits = profile.thresholds
    share = measure(profile, "exposed_exchange_pct")
    if share.value < limits["communication_exposed_pct"]:
        return None
    saved = measure(profile, "pipelined_exchange_ms")
    saved_pct = 100.0 * saved.value / profile.mean_step_ms
    if saved_pct < limits["noted_pct"]:
        return None
    text = "Exposed all-to-alls take {0} of the step; exchanging one shard while another is computed could hide {1}."
    shown_ns = {view.rank.rank: exposed_exchange_ns(profile, view) for view in profile.ranks}
    hidden_share = saved.value / max(sum(shown_ns.values()) / len(shown_ns) / 1e6, 1e-9)
    less_ms = {rank: hidden_share * own_ns / 1e6 for rank, own_ns in shown_ns.items()}
    return Finding(
        cause="poor_overlap",
        claim=say(text, share, saved),
        confidence=confidence(
            (share.value, limits["communication_exposed_pct"]), (saved_pct, limits["noted_pct"]), at_most=CAP
        ),
        ranks=profile.run.rank_numbers,
        change=_hidden(profile, exchange_rows(profile), less_ms),
        against=(AT_ONCE, SMALLER, *(() if all_traced(profile) else (UNTRACED,))),
        disproved_by="the step is not shorter with two to four shards",
        signals=("long serial chain of communication then computation",),
        symptom_of=("moe_imbalance", "straggler", "bandwidth_contention", "slow_link", "network_configuration"),
    )


def _hidden(profile: Profile, table: pd.DataFrame, less_ms: Mapping[int, float]) -> Change:
    row, rank = table["row"].to_numpy(), table["rank"].to_numpy()
    return tuple(
        part
        for view in profile.ranks
        for part in hidden(view, row[rank == view.rank.rank], moving(profile, view), less_ms[view.rank.rank])
    )


@check(
    *("communication.exposed", "Exposed communication", "Is communication hidden behind compute?"),
    causes=("poor_overlap",),
)
def exposed(profile: Profile) -> Check | None:
    """Poor overlap: much exposed transfer, little overlap, and computation left that could hide it."""
    if collectives(profile).empty:
        if (profile.run.layout.world_size or 1) > 1:
            return cannot_answer(
                "the job has several ranks, but the trace holds no collective",
                "a trace with device activity (or the communication library's host spans) over whole steps",
            )
        return clean(_none_on_device(profile))
    share, overlap = measure(profile, "movable_transfer_pct"), measure(profile, "communication_overlap_pct")
    support = (_amount(profile), say("{0} of the communication overlaps with compute.", overlap))
    limits, exchange = profile.thresholds, exchange_finding(profile)
    if share.value < limits["communication_exposed_pct"]:
        return clean(*support) if exchange is None else found(exchange)
    hideable = measure(profile, "hideable_communication_ms")
    hideable_pct = 100.0 * hideable.value / float(measure(profile, "part_ms", part="wall").value)
    if overlap.value >= limits["poor_overlap_pct"] or hideable_pct < limits["noted_pct"]:
        bound = say("Computation that runs alone could hide at most {0} more.", hideable)
        return Check("", "found", () if exchange is None else (exchange,), support=(*support, bound))
    if not overlap_known(profile) and not link_limited(profile):
        needed = samples_needed(profile, "cpu_total_ticks", "cpu_idle_ticks") or NOT_COUNTED
        return cannot_answer(NO_IDLE_CORE, needed, *support) if exchange is None else found(exchange)
    order = _poor_overlap(profile, share, overlap, hideable, hideable_pct)
    return found(*((order,) if exchange is None else (order, exchange)))


def _none_on_device(profile: Profile) -> Sentence:
    """That a step has no collective, and how often the host asks for one that exchanges nothing."""
    asked = {
        view.rank.rank: measure(profile, "host_span_count", rank=view.rank.rank, pattern="communication_span")
        for view in profile.ranks
    }
    most = max(asked.values(), key=lambda fact: fact.value, default=None)
    if most is None or not most.value or not profile.run.has_device:
        return say("The trace holds {0} collectives per step.", measure(profile, "collective_count"))
    return say("{0} of the host for collectives lie inside the steps, and none of them runs on the device.", most)


def _amount(profile: Profile) -> Sentence:
    whole, share = measure(profile, "part_ms", part="exposed_communication"), measure(profile, "exposed_transfer_pct")
    if len(profile.ranks) > 1:
        text = "Exposed communication takes {0} per step; what is not waiting for a late rank takes {1} of the step."
    else:
        text = "Exposed communication, waiting for other ranks included, takes {0} per step, {1} of it."
    return say(text if profile.run.screening is None else f"On the ranks read in full: {text}", whole, share)


def _poor_overlap(profile: Profile, share: Fact, overlap: Fact, hideable: Fact, hideable_pct: float) -> Finding:
    limits, table = profile.thresholds, collectives(profile)
    kept = 1.0 if profile.run.has_device else limits["host_overlap_share"]
    by_rank = measure_ranks(profile, (view.rank.rank for view in profile.ranks), "hideable_communication_ms")
    less_ms = {rank: kept * fact.value for rank, fact in by_rank.items()}
    text = "Communication that could overlap takes {0} of the step; only {1} of all does, and {2} more per step could."
    left = measure(profile, "left_exposed_pct")
    # A slow link explains what is exposed only where no order of the work could hide it.
    link = () if order_suffices(profile) else ("slow_link",)
    others = ("bandwidth_contention", "rdma_retransmission", "network_configuration", *link)
    return Finding(
        cause="poor_overlap",
        claim=say(text, share, overlap, hideable),
        confidence=confidence(
            (share.value, limits["communication_exposed_pct"]),
            (limits["poor_overlap_pct"], max(overlap.value, 1e-9)),
            (hideable_pct, limits["noted_pct"]),
            at_most=_cap(profile),
        ),
        ranks=profile.run.rank_numbers,
        change=_hidden(profile, table[~table["kind"].isin(NEEDED_AT_ONCE)], less_ms),
        details=(
            say("A step has {0} collectives.", measure(profile, "collective_count")),
            say("With all of that hidden {0} of the step would be exposed transfer.", left),
        ),
        against=_against(profile),
        symptom_of=("small_packet", *others, "pipeline_bubble", "pipeline_imbalance"),
    )


def _cap(profile: Profile) -> float:
    if link_bound(profile) or not overlap_known(profile):
        return CAP
    return HIGHEST if all_traced(profile) else CAP


def _against(profile: Profile) -> tuple[Sentence, ...]:
    against = [] if all_traced(profile) else [UNTRACED]
    if not overlap_known(profile):
        against.append(NO_CORE)
    elif not profile.run.has_device:
        against.append(say("On a CPU the library's threads take cores from computation, so overlap is not free."))
    if link_bound(profile):
        text = "A collective is under way {0} of the time: on so busy a link an earlier start would hide little."
        against.append(say(text, measure(profile, "link_busy_pct")))
    return tuple(against)
