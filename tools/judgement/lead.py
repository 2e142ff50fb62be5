"""A lead: a place in the step, its size, the causes that would look like it, and the observation that decides."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tools.findings import Sentence
from tools.knowledge.tables import table
from tools.knowledge.untrained import without_training
from tools.run.events import EventKind
from tools.views.one_process import of_one_process
from tools.views.profile import Profile
from tools.views.steps.coarse import by_torch
from tools.views.training_seen import trains

EVERY_STEP = "every step"


@dataclass(frozen=True)
class Place:
    """Where the time goes: the part of the step, ranks, which steps, between which operators, frame, group."""

    part: str
    ranks: tuple[int, ...]
    steps: str
    between: tuple[str, str] | None = None
    frame: str = ""
    group: str = ""


@dataclass(frozen=True)
class Candidate:
    """A cause that would look like this; likelihoods of one lead add up to 1 at most."""

    cause: str
    likelihood: float
    why: str
    mechanism: str | None = None  # where what was found shows it


@dataclass(frozen=True)
class Lead:
    """A place, its size per step (0: not known), the causes that would look like it, and what decides.

    ``loss``: what costs the steps so much, in a few words, where it is a loss next to the causes of a problem.
    """

    place: Place
    impact_ms: float
    impact_pct: float
    claim: Sentence
    candidates: tuple[Candidate, ...]
    decide_by: str
    loss: str = ""


def candidates_of(
    profile: Profile, kind: str, rank: int, each_ms: float | None = None
) -> tuple[tuple[Candidate, ...], str]:
    """Candidates of a kind of place, without those that the run's own records speak against, and what decides.

    ``each_ms`` is the length of one pause, where the place is one: a short one is no collection of all objects.
    """
    entry = _kinds()[kind]
    records = profile.host_records
    short = each_ms is not None and each_ms < profile.thresholds["full_collection_ms"]
    excluded = {"garbage_collection"} if short or _collections_known(profile, rank) else set()
    if records is not None and rank in records.ranks and records.sampled_s(rank):
        excluded.add("cpu_contention")
    if of_one_process(profile):
        excluded.add("straggler")
    chosen = [each for each in entry["candidates"] if each["cause"] not in excluded]
    whole = sum(each["likelihood"] for each in chosen) or 1.0
    rest = sum(each["likelihood"] for each in entry["candidates"])
    scaled = [Candidate(each["cause"], round(each["likelihood"] * rest / whole, 2), each["why"]) for each in chosen]
    open_ways = (way["do"] for way in entry.get("decide_by", ()) if not _have(profile, rank, way.get("have", "")))
    return tuple(scaled), by_torch(profile, next(open_ways, ""))


# What to record is written for torch.profiler; of JAX it has these names (jax.profiler, ProfileOptions).
OF_JAX = {
    "`record_function` span": "`jax.profiler.TraceAnnotation` span",
    "record_function span": "`jax.profiler.TraceAnnotation` span",
    "`with_stack=True`": "the Python tracer (`ProfileOptions.python_tracer_level = 1`)",
    "with_stack=True": "the Python tracer (`ProfileOptions.python_tracer_level = 1`)",
    "steps marked with the profiler's step()": "steps marked with `jax.profiler.StepTraceAnnotation`",
}


def in_terms_of_run(profile: Profile, text: str) -> str:
    """What to record in the words of the profiler that made the run's traces, and of what the run does."""
    if not trains(profile):
        text = without_training(text)
    if of_one_process(profile):
        text = text.replace(OTHER_RANKS, "")
    if not any(each.format == "xplane" for each in profile.run.sources):
        return text
    for name, own in OF_JAX.items():
        text = text.replace(name, own)
    return text


OTHER_RANKS = "the other ranks' traces, and "


@lru_cache(maxsize=1)
def _kinds() -> dict[str, Any]:
    return table("leads")


def _have(profile: Profile, rank: int, what: str) -> bool:
    """Whether the run holds already what an observation would add."""
    traced = rank in profile.run.rank_numbers
    match what:
        case "stacks":
            return traced and bool((profile.rank(rank).kind == EventKind.PYTHON).any())
        case "monitor":
            return profile.host_records is not None and rank in profile.host_records.ranks
        case "library_threads":  # collectives of devices need no core of the host
            return profile.run.has_device or profile.host_records is not None
        case "all_ranks":
            return profile.run.traced_count >= (profile.run.layout.world_size or 1)
        case "shapes":
            return traced and shapes_known(profile, rank)
        case _:
            return False


def shapes_known(profile: Profile, rank: int) -> bool:
    """Whether the rank's operators have recorded shapes."""
    return len(profile.rank(rank).events.details.operators) > 0


def _collections_known(profile: Profile, rank: int) -> bool:
    """Whether the monitor recorded how long Python collected garbage: then its own check has answered."""
    series = profile.series
    return series is not None and "gc_ms" in series.usual and bool(series.of(rank)["gc_ms"].notna().all())
