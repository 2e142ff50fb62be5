"""Does the program read many values of tensors in every step, for statistics or logs?"""

from __future__ import annotations

from tools.analyzers.cpu.dispatch import small_operators
from tools.analyzers.support.answers import affected, clean, confidence, say, values, worst_of
from tools.analyzers.support.figures import measure_all, measure_ranks
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding
from tools.views.host.value_reads import read_loops
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.whatif.change import Scale
from tools.whatif.threads import main_track

CAP = 0.85  # what the values are for is not recorded
READ_SHARE = 0.5  # of the reads: from here on they are of single numbers, which item() gives
WANTED = "The values may be wanted; what can change is how often they are computed and read."


@check(
    *("cpu.value_reads", "Values read in loops", "Does the program read many values of tensors in every step?"),
    causes=("operator_dispatch",),
    mechanisms=("host_synchronization",),
)
def value_reads(profile: Profile) -> Check | Finding | None:
    """Loops on the training thread that make values and hand them to Python, in runs without a device.

    With a device the wait for it is what such loops cost (``cpu.host_synchronization``). Loops of short operators that
    ``cpu.small_operators`` finds are not counted again.
    """
    dispatching = small_operators.once(profile)
    if profile.run.has_device or (dispatching is not None and dispatching.status == "found"):
        return None
    limits, ranks = profile.thresholds, profile.run.rank_numbers
    shares, counts = (measure_ranks(profile, ranks, name) for name in ("value_read_pct", "value_reads_per_step"))
    worst = worst_of(values(shares))
    if counts[worst].value < limits["value_reads"]:
        return clean(say("A step reads {0} of tensors one after the other.", counts[worst]))
    if shares[worst].value < limits["cause_share_pct"]:
        text = "A step reads {0} of tensors in loops, which takes {1} of it at most."
        return clean(say(text, counts[worst], shares[worst]))
    chosen = affected(values(shares), limits["noted_pct"])
    amount, share = measure_all(profile, "value_read_ms", "value_read_pct", rank=worst)
    numbers = _single_numbers(profile.rank(worst), profile)
    text = (
        "The program reads {0} of tensors per step, one after the other, as for statistics or a log: computing and"
        " reading them takes {1} ({2})."
    )
    only = " Only some ranks do so." if len(chosen) < len(ranks) else ""
    return Finding(
        cause="operator_dispatch",
        mechanism="host_synchronization" if numbers else None,
        claim=say(text + only, counts[worst], amount, share),
        confidence=confidence(
            (share.value, limits["cause_share_pct"]), (counts[worst].value, limits["value_reads"]), at_most=CAP
        ),
        ranks=chosen,
        steps=share.steps,
        # Read every hundredth step hardly anything stays; cautiously half of it.
        change=tuple(
            Scale(rank, main_track(profile.rank(rank)), read_loops(profile, rank).moments, 0.0, 0.5) for rank in chosen
        ),
        against=(say(WANTED),),
    )


def _single_numbers(view: RankProfile, profile: Profile) -> bool:
    """Whether most of the values are single numbers."""
    reads = read_loops(profile, view.rank.rank).reads
    return float(view.named("scalar_read")[reads].mean()) >= READ_SHARE
