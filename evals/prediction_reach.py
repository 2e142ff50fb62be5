"""How far predicted intervals have to reach, by recorded pairs: ``python -m evals.prediction_reach [ORIGIN...]``.

Every pair with a measured gain is predicted with intervals that go all the way to the hopeful and the cautious view.
Printed is each prediction; for each kind of prediction, how far towards each view the shortest interval goes that holds
80 % of the measured gains of every origin (for the thresholds ``reach_*``); and for each origin how often the intervals
in force hold its gains, and how often they would if only the other origins were known. A pair counts once for each
kind of prediction, with the most of its sources that gives this kind. The test split is left out.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evals.suite.case_files import all_cases
from evals.suite.case_schema import Case, RunEdit
from evals.suite.run_places import Places, locate
from tools.errors import HermesError, InputError
from tools.judgement.ranking import ranking
from tools.knowledge.thresholds import Thresholds
from tools.sources.load import load_run
from tools.views.profile import Profile
from tools.whatif.claim import COVERS_PCT
from tools.whatif.predict import ReachKind

KINDS: tuple[ReachKind, ...] = ("replay", "profiled", "figure")
WHOLE = {f"reach_{kind}_{end}": 1.0 for kind in KINDS for end in ("hopeful", "cautious")}
ORIGINS = ("lab", "habits", "others", "real")


@dataclass(frozen=True)
class Ending:
    """A measured gain and the prediction of it, in % of the step."""

    origin: str
    kind: ReachKind
    expected_pct: float
    hopeful_pct: float
    cautious_pct: float
    measured_pct: float
    error_pct: float = 0.0  # by which both ends go further whatever the reach
    pair: str = ""

    @property
    def place(self) -> float:
        """Where the measured gain lies: 0 within the error, 1 at the hopeful view, -1 at the cautious one."""
        over = self.measured_pct >= self.expected_pct
        view_pct = self.hopeful_pct - self.expected_pct if over else self.expected_pct - self.cautious_pct
        off_pct = max(abs(self.measured_pct - self.expected_pct) - self.error_pct, 0.0)
        place = off_pct / max(view_pct, 1e-9)
        return place if over else -place


def reaches(endings: Sequence[Ending]) -> tuple[float, float]:
    """How far towards the hopeful and the cautious view the shortest intervals go that hold ``COVERS_PCT`` everywhere.

    That many of the gains of every origin; the length of an interval is the mean over all predictions.
    """
    place = np.array([one.place for one in endings])
    origins = [np.array([one.origin == origin for one in endings]) for origin in {one.origin for one in endings}]
    ahead_pct = float(np.mean([one.hopeful_pct - one.expected_pct for one in endings]))
    behind_pct = float(np.mean([one.expected_pct - one.cautious_pct for one in endings]))

    def holds(hopeful: float, cautious: float) -> bool:
        inside = (place <= hopeful) & (place >= -cautious)
        return all(float(inside[mine].mean()) >= COVERS_PCT / 100.0 for mine in origins)

    ends = [
        (hopeful * ahead_pct + cautious * behind_pct, float(hopeful), float(cautious))
        for hopeful in np.maximum(place, 0.0)
        for cautious in np.maximum(-place, 0.0)
        if holds(hopeful, cautious)
    ]
    return min(ends)[1:]


def held(endings: Sequence[Ending], ends: Mapping[ReachKind, tuple[float, float]]) -> float:
    """The share of the measured gains inside intervals that reach so far (hopeful, cautious) for each kind."""
    return float(np.mean([-ends[one.kind][1] <= one.place <= ends[one.kind][0] for one in endings]))


def covered(endings: Sequence[Ending], known: Sequence[Ending]) -> float | None:
    """How often intervals as the known endings make them hold the others; None where a kind is not known."""
    if not {one.kind for one in endings} <= {one.kind for one in known}:
        return None
    return held(
        endings, {kind: reaches([one for one in known if one.kind == kind]) for kind in {one.kind for one in known}}
    )


def endings(cases: Sequence[Case], places: Places) -> Iterator[Ending]:
    """The endings of all development pairs with one cause, one for each pair and kind of prediction."""
    seen: set[tuple[str, ReachKind]] = set()
    for case in cases:
        whole = case.run.edit == RunEdit(sources=case.run.edit.sources)
        if whole and case.tags.source in ORIGINS and case.tags.split != "test" and case.expected.any_of:
            with tempfile.TemporaryDirectory() as scratch:
                located = locate(case.run, places, Path(scratch) / "run")
                measured = located.measured or case.measured
                if measured is None:
                    continue
                try:
                    profile = Profile(load_run([located.path]), Thresholds(WHOLE))
                except InputError:  # the source alone is one that cannot be read, as a log of another form
                    continue
                ending = _ending(case, profile, 1.0 - measured.after_ms / measured.before_ms)
                if ending is not None and (ending.pair, ending.kind) not in seen:
                    seen.add((ending.pair, ending.kind))
                    yield ending


def _ending(case: Case, profile: Profile, gain: float) -> Ending | None:
    """The ending of the first right cause; None where no right cause is found, or its prediction is withheld."""
    for cause in ranking(profile).causes:
        one = cause.alone
        if cause.finding.cause in case.expected.accepted and one is not None and not one.withheld:
            kind: ReachKind = "figure" if not cause.finding.change else "replay" if profile.series else "profiled"
            after_ms, error_ms = one.step_ms_after, one.error_ms
            low_ms, high_ms = min(one.low_ms + error_ms, after_ms), max(one.high_ms - error_ms, after_ms)
            expected, hopeful, cautious = (
                100.0 * (1.0 - ms / one.step_ms_before) for ms in (after_ms, low_ms, high_ms)
            )
            error = 100.0 * error_ms / one.step_ms_before
            pair = case.tags.run or case.id
            return Ending(case.tags.source, kind, expected, hopeful, cautious, 100.0 * gain, error, pair)
    return None


def main() -> None:
    """Print the predictions, the reaches and the coverage of each origin."""
    places, limits = Places.from_environment(os.environ), Thresholds()
    origins = sys.argv[1:] or ORIGINS
    known = []
    for one in endings([case for case in all_cases(places) if case.tags.source in origins], places):
        known.append(one)
        span = f"{one.cautious_pct:.1f} to {one.hopeful_pct:.1f} and {one.error_pct:.1f} more"
        print(f"{one.pair} {one.kind}: {one.expected_pct:.1f} ({span}), measured {one.measured_pct:.1f}", flush=True)
    in_force: dict[ReachKind, tuple[float, float]] = {}
    for kind in KINDS:
        in_force[kind] = limits[f"reach_{kind}_hopeful"], limits[f"reach_{kind}_cautious"]
        mine = [one for one in known if one.kind == kind]
        if mine:
            hopeful, cautious = reaches(mine)
            print(f"{kind}: hopeful {hopeful:.2f}, cautious {cautious:.2f} from {len(mine)} pairs")
    for origin in sorted({one.origin for one in known}):
        own = [one for one in known if one.origin == origin]
        share = covered(own, [one for one in known if one.origin != origin])
        error = float(np.median([abs(one.measured_pct - one.expected_pct) for one in own]))
        others = "-" if share is None else f"{100.0 * share:.0f} %"
        print(
            f"{origin}: median error {error:.1f} % of the step, {100.0 * held(own, in_force):.0f} % of {len(own)} held,"
            f" {others} by the other origins alone"
        )


if __name__ == "__main__":
    try:
        main()
    except HermesError as error:
        raise SystemExit(str(error)) from error
