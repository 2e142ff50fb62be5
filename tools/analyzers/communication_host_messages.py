"""Many small collectives on the host, where the library's threads take the cores that computation needs."""

from __future__ import annotations

from tools.analyzers.environment import settings
from tools.analyzers.margin import confidence
from tools.analyzers.recorded import measured
from tools.findings import Check, Finding, Saving, Sentence, found
from tools.metrics.registry import measure
from tools.profilers.profile import Profile
from tools.profilers.transfers import small_messages

NAME = "communication.small_packet"
MANY = 20.0  # small collectives per step from which merging them is a question at all
SHARED_CORE = 0.5  # of the time beside computation: two threads on one core get half of it each
LEAST, MOST = 0.5, 1.3  # of the estimate: what the merged messages expose, and how many cores are free, is not known
FREE_CORES = Sentence("A part of it runs beside computation, and costs less where cores are free.")


def small_on_host(profile: Profile) -> Check | None:
    """The cost of small collectives of known size; None where there are few, they cost little, or are checks."""
    if profile.run.has_device or len(profile.ranks) < 2 or small_messages(profile).empty or _checked(profile):
        return None
    count, start = measure(profile, "small_message_count"), measure(profile, "small_message_start_ms")
    exposed, beside = measure(profile, "small_message_exposed_ms"), measure(profile, "small_message_beside_ms")
    step_ms = profile.mean_step_ms
    saved_ms = max(exposed.value + _taken(profile) * beside.value - start.value, 0.0)
    saved_pct = 100.0 * saved_ms / step_ms
    if count.value < MANY or saved_pct < profile.thresholds["cause_share_pct"]:
        return None
    text = (
        "A step has {0} collectives so small that starting them, {1} each, is their cost: while they are under way a"
        " rank does nothing else for {2} per step, and beside its computation they run for {3}."
    )
    return found(
        NAME,
        Finding(
            cause="small_packet",
            claim=Sentence(text, (count, start, exposed, beside)),
            confidence=confidence(
                (saved_pct, profile.thresholds["cause_share_pct"]), (count.value, 0.5 * MANY), at_most=0.8
            ),
            ranks=profile.run.rank_numbers,
            steps=count.steps,
            saving=Saving(
                step_ms=step_ms,
                saved_ms=saved_ms,
                least_ms=LEAST * saved_ms,
                most_ms=min(MOST * saved_ms, step_ms),
                method="time that ranks lose to small collectives, less starting one that carries all",
            ),
            details=(Sentence("A step has {0} collectives in all.", (measure(profile, "collective_count"),)),),
            against=(FREE_CORES,),
            disproved_by="a run with larger buckets whose step is not shorter",
            signals=("message size below the size where the link saturates", "many collectives per step"),
        ),
    )


def _checked(profile: Profile) -> bool:
    """Whether small collectives go before each other one to compare what the ranks are about to do."""
    return any(own.get("TORCH_DISTRIBUTED_DEBUG") == "DETAIL" for own in settings(profile).values())


def _taken(profile: Profile) -> float:
    """Which share of the computation beside the library's threads is lost to them: none where cores are idle."""
    idle = measured(profile, "idle_cores_pct")
    return SHARED_CORE * (1.0 - (0.0 if idle is None else idle.value) / 100.0)
