"""How far predicted intervals have to reach, by recorded pairs: ``python -m evals.prediction_reach``.

Every pair with a measured gain is predicted with intervals that go all the way to the hopeful and the cautious view.
Printed is, for each kind of prediction, how far towards each view the shortest interval goes that holds 80 % of the
measured gains of every origin (for the thresholds ``reach_*``); and for each origin how often intervals would hold its
gains if only the other origins were known. The test split is left out.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evals.case_files import all_cases
from evals.case_schema import Case, RunEdit
from evals.run_places import Places, locate
from tools.errors import HermesError
from tools.judgement.ranking import ranking
from tools.knowledge.thresholds import Thresholds
from tools.sources.load import load_run
from tools.views.profile import Profile
from tools.whatif.claim import COVERS_PCT
from tools.whatif.predict import ReachKind

WHOLE = {f"reach_{kind}_{end}": 1.0 for kind in ("replay", "profiled", "figure") for end in ("hopeful", "cautious")}
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
    case: str = ""

    @property
    def place(self) -> float:
        """Where the measured gain lies: 0 as expected, 1 at the hopeful view, -1 at the cautious one."""
        over = self.measured_pct >= self.expected_pct
        view_pct = self.hopeful_pct - self.expected_pct if over else self.expected_pct - self.cautious_pct
        return (self.measured_pct - self.expected_pct) / max(view_pct, 1e-9)


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


def covered(endings: Sequence[Ending], known: Sequence[Ending]) -> float | None:
    """How often intervals as the known endings make them hold the others; None where a kind is not known."""
    if not {one.kind for one in endings} <= {one.kind for one in known}:
        return None
    ends = {kind: reaches([one for one in known if one.kind == kind]) for kind in {one.kind for one in known}}
    return float(np.mean([-ends[one.kind][1] <= one.place <= ends[one.kind][0] for one in endings]))


def endings(cases: Sequence[Case], places: Places) -> Iterator[Ending]:
    """The endings of all development pairs with one cause, each with the sources that its cases leave in."""
    for case in cases:
        whole = case.run.edit == RunEdit(sources=case.run.edit.sources)
        if whole and case.tags.source in ORIGINS and case.tags.split != "test" and not case.expected.all_of:
            with tempfile.TemporaryDirectory() as scratch:
                located = locate(case.run, places, Path(scratch) / "run")
                measured = located.measured or case.measured
                if measured is not None:
                    gain = 1.0 - measured.after_ms / measured.before_ms
                    yield from _ending(case, Profile(load_run([located.path]), Thresholds(WHOLE)), gain)


def _ending(case: Case, profile: Profile, gain: float) -> Iterator[Ending]:
    """The ending of the first right cause; none where no right cause is found."""
    for cause in ranking(profile).causes:
        one = cause.alone
        if cause.finding.cause in case.expected.accepted and one is not None:
            kind: ReachKind = "figure" if not cause.finding.change else "replay" if profile.series else "profiled"
            step_ms, ends_ms = one.step_ms_before, (one.step_ms_after, one.low_ms, one.high_ms)
            expected, hopeful, cautious = (100.0 * (1.0 - end_ms / step_ms) for end_ms in ends_ms)
            yield Ending(case.tags.source, kind, expected, hopeful, cautious, 100.0 * gain, case.id)
            return


def main() -> None:
    """Print the reaches and the coverage of each origin by the others."""
    places = Places.from_environment(os.environ)
    known = list(endings(all_cases(places), places))
    for kind in ("replay", "profiled", "figure"):
        mine = [one for one in known if one.kind == kind]
        if mine:
            hopeful, cautious = reaches(mine)
            print(f"{kind}: hopeful {hopeful:.2f}, cautious {cautious:.2f} from {len(mine)} pairs")
    for origin in sorted({one.origin for one in known}):
        own = [one for one in known if one.origin == origin]
        share = covered(own, [one for one in known if one.origin != origin])
        print(f"{origin}: {'-' if share is None else f'{100.0 * share:.0f} %'} of {len(own)} held by the other origins")


if __name__ == "__main__":
    try:
        main()
    except HermesError as error:
        raise SystemExit(str(error)) from error
