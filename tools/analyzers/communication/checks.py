"""Do collectives wait for a late rank, is the transfer itself slow, and is it hidden behind computation?"""

from __future__ import annotations

from tools.analyzers.communication.arrival import arrival_skew
from tools.analyzers.communication.exposed import exposed
from tools.analyzers.communication.messages import small_packet
from tools.analyzers.communication.transfer import slow_link, transfer
from tools.findings import Check, Sentence, cannot_answer, clean
from tools.metrics.registry import measure
from tools.views.collectives import collectives
from tools.views.profile import Profile


def analyze(profile: Profile) -> tuple[Check, ...]:
    """The checks of communication; a single one where the run has no collectives."""
    if collectives(profile).empty:
        return (_without_collectives(profile),)
    return (
        exposed(profile),
        arrival_skew(profile),
        transfer(profile),
        small_packet(profile),
        slow_link(profile),
    )


def _without_collectives(profile: Profile) -> Check:
    name = "communication.exposed"
    if (profile.run.layout.world_size or 1) > 1:
        return cannot_answer(
            name,
            "the job has several ranks, but the trace holds no collective",
            "a trace with device activity (or the communication library's host spans) over whole steps",
        )
    return clean(name, Sentence("The trace holds {0} collectives per step.", (measure(profile, "collective_count"),)))
