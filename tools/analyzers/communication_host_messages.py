"""Many small collectives on the host, where the library's threads take the cores that computation needs."""

from __future__ import annotations

from tools.analyzers.margin import confidence
from tools.findings import Check, Finding, Saving, Sentence, found
from tools.metrics.registry import measure
from tools.profilers.profile import Profile
from tools.profilers.transfers import small_messages

NAME = "communication.small_packet"
MANY = 20.0  # small collectives per step from which merging them is a question at all
LEAST, MOST = 0.5, 2.0  # of the estimate: how many cores are free beside the computation is not known


def small_on_host(profile: Profile) -> Check | None:
    """The start-up cost of small collectives of known size, hidden or not; None where there are few."""
    if profile.run.has_device or len(profile.ranks) < 2 or small_messages(profile).empty:
        return None
    count, start = measure(profile, "small_message_count"), measure(profile, "small_message_start_ms")
    step_ms = profile.mean_step_ms
    saved_ms = min((count.value - 1.0) * start.value, 0.5 * step_ms)
    saved_pct = 100.0 * saved_ms / step_ms
    if count.value < MANY or saved_pct < profile.thresholds["cause_share_pct"]:
        return None
    return found(
        NAME,
        Finding(
            cause="small_packet",
            claim=Sentence(
                "A step has {0} collectives so small that starting them, {1} each, is their cost.", (count, start)
            ),
            confidence=confidence(
                (saved_pct, profile.thresholds["cause_share_pct"]), (count.value, 0.5 * MANY), at_most=0.8
            ),
            ranks=profile.run.rank_numbers,
            steps=count.steps,
            saving=Saving(
                step_ms=step_ms,
                saved_ms=saved_ms,
                least_ms=LEAST * saved_ms,
                most_ms=min(MOST * saved_ms, 0.75 * step_ms),
                method="number of small collectives times what starting one takes",
            ),
            details=(Sentence("A step has {0} collectives in all.", (measure(profile, "collective_count"),)),),
            against=(Sentence("A part of it runs beside computation, and costs less where cores are free."),),
            disproved_by="a run with larger buckets whose step is not shorter",
            signals=("message size below the size where the link saturates", "many collectives per step"),
        ),
    )
