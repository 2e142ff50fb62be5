"""Exchanges that the next operator waits for: what would splitting the batch into shards hide of them?"""

from __future__ import annotations

from tools.analyzers.collective_change import hidden
from tools.analyzers.communication_limit import UNTRACED, all_traced
from tools.analyzers.margin import confidence
from tools.findings import Finding, Sentence
from tools.metrics.registry import measure
from tools.profilers.exchanges import exchange_rows, exposed_exchange_ns, moving
from tools.profilers.profile import Profile
from tools.whatif.change import Change

# Below the confidence of a verdict: shards make operators smaller, and what those then take, no trace of the whole
# batch tells. With eight shards GPT3-13B was slower than without any (Hermes, USENIX ATC'25).
CAP = 0.45
AT_ONCE = Sentence("The next operator needs their result: no order of the same work hides them, only shards of it do.")
SMALLER = Sentence("Shards make operators smaller, which may take back what they hide; the trace does not tell that.")


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
    return Finding(
        cause="poor_overlap",
        claim=Sentence(
            "Exposed all-to-alls take {0} of the step; computing one shard of the batch while another is exchanged "
            "could hide {1} of them per step.",
            (share, saved),
        ),
        confidence=confidence(
            (share.value, limits["communication_exposed_pct"]), (saved_pct, limits["noted_pct"]), at_most=CAP
        ),
        ranks=profile.run.rank_numbers,
        steps=share.steps,
        change=_in_shards(profile, saved.value),
        against=(AT_ONCE, SMALLER, *(() if all_traced(profile) else (UNTRACED,))),
        disproved_by="a run with two to four shards whose step is not shorter",
        signals=("long serial chain of communication then computation",),
        symptom_of=("moe_imbalance", "straggler", "bandwidth_contention", "slow_link", "network_configuration"),
    )


def _in_shards(profile: Profile, saved_ms: float) -> Change:
    """Every rank's exchanges show less, by the same share of what each of them shows."""
    shown_ns = [exposed_exchange_ns(profile, rank) for rank in profile.ranks]
    share = saved_ms / max(sum(shown_ns) / len(shown_ns) / 1e6, 1e-9)
    table = exchange_rows(profile)
    return tuple(
        part
        for rank, own_ns in zip(profile.ranks, shown_ns, strict=True)
        for part in hidden(
            rank,
            table["row"].to_numpy()[(table["rank"] == rank.rank.rank).to_numpy()],
            moving(profile, rank),
            share * own_ns / 1e6,
        )
    )
