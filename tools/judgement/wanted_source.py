"""The one source that would decide between competing hypotheses, where the run does not hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tools.judgement.hypotheses import Hypothesis
from tools.knowledge.hypothesis_tests import tests_of
from tools.knowledge.taxonomy import causes
from tools.views.counters import counter_view
from tools.views.profile import Profile

COMPETING = 2  # hypotheses on one part, from which on a person is asked
SOURCES: Mapping[str, str] = {"monitor": "monitor records", "ranks": "traces of the other ranks"}


@dataclass(frozen=True)
class WantedSource:
    """A source to ask for: what it is, of which ranks (none: of the run), and what it would decide."""

    source: str
    ranks: tuple[int, ...]
    decides: str


def wanted_source(profile: Profile, hypotheses: Sequence[Hypothesis]) -> WantedSource | None:
    """The missing source that would test the hypotheses with most time behind them; None where none would."""
    places: dict[tuple[int, str], list[Hypothesis]] = {}
    for each in hypotheses:
        if each.status in ("open", "untestable"):
            places.setdefault((each.lead, each.part), []).append(each)
    worth = {
        (source, place): sum(each.size_pct * each.likelihood for each in own if tests_of(each.cause).source == source)
        for place, own in places.items()
        if len(own) >= COMPETING
        for source in SOURCES
        if _missing(profile, source)
    }
    best = max(worth, key=lambda each: worth[each], default=None)
    if best is None or worth[best] <= 0.0:
        return None
    source, place = best
    own = [each for each in places[place] if tests_of(each.cause).source == source]
    *most, last = [causes()[each.cause].name.phrase for each in own]
    named = f"{', '.join(most)} or {last}" if most else last
    about = f"lead {place[0]}" if place[0] else place[1].replace("_", " ") or "the step"
    return WantedSource(SOURCES[source], _untraced(profile) if source == "ranks" else (), f"{named} ({about})")


def recorded_already(profile: Profile) -> frozenset[str]:
    """The ids of the recordings (``recordings.yaml``) of which nothing more would come."""
    run, log, view = profile.run, profile.run.job_log, counter_view(profile)
    known = {
        "monitor": run.records is not None,
        "output": log is not None and log.nccl.lines > 0 and not log.steps.empty,
        "bandwidth": log is not None and not log.comm_tests.empty,
        "utilization": view is not None and any(each.has("device_clock_mhz") for each in view.devices.values()),
        "stacks": run.host_stacks is not None,
    }
    return frozenset(name for name, here in known.items() if here)


def _missing(profile: Profile, source: str) -> bool:
    return profile.run.records is None if source == "monitor" else bool(_untraced(profile))


def _untraced(profile: Profile) -> tuple[int, ...]:
    """The ranks of the job whose traces were not read."""
    if profile.run.screening is not None:
        return ()
    return tuple(sorted(set(range(profile.run.layout.world_size or 0)) - set(profile.run.rank_numbers)))
