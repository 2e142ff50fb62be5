"""On how many of the traced ranks an answer rests, where only some of them were read in full."""

from __future__ import annotations

import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, metric
from tools.run.screening import Screening
from tools.views.profile import Profile


@metric("count", "traced ranks of the run", "How many ranks were traced?")
def traced_ranks(profile: Profile) -> Measurement:
    """Ranks whose traces were found; one that cannot be read counts as one rank."""
    screening = _of(profile)
    table = pd.DataFrame({"ranks": [screening.summarized], "unread": [len(screening.unread)]})
    return Measurement(float(screening.found), lambda: table, "traces found")


@metric("count", "ranks compared by summary", "How many ranks were compared?")
def summarized_ranks(profile: Profile) -> Measurement:
    """Ranks that were summarized and compared with each other."""
    screening = _of(profile)
    return Measurement(float(screening.summarized), lambda: screening.waiting.reset_index(names="rank"), "summaries")


@metric("count", "ranks read in full", "How many ranks did the checks look into?")
def ranks_read_in_full(profile: Profile) -> Measurement:
    """Ranks whose whole traces the checks and replays rest on."""
    read = profile.run.rank_numbers
    table = pd.DataFrame({"rank": read, "why": [_of(profile).why.get(rank, "") for rank in read]})
    return Measurement(float(len(read)), lambda: table, "traces read in full", read)


def _of(profile: Profile) -> Screening:
    if profile.run.screening is None:
        raise UsageError("every traced rank of this run was read in full")
    return profile.run.screening
