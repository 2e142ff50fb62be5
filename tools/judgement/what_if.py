"""The step with one or several changes of the closed grammar made together, and what that rests on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from tools.errors import UsageError
from tools.judgement.change_effects import Basis, Effect, Refused, effect
from tools.judgement.step_base import StepBase, step_base
from tools.metrics.measurement import Measurement, choice, metric
from tools.views.profile import Profile
from tools.whatif.asked_changes import AskedChange, asked_changes
from tools.whatif.change import Change
from tools.whatif.predict import FLOOR_SHARE, Prediction, predict

AT_MOST = "The predicted step is the least that it can be; how much longer it is, nothing recorded shows."
TOGETHER = (
    "What a replay and a formula save together is not replayed: each is taken to save its share of what the other "
    "leaves, and the range goes from full overlap to none."
)
NOTHING = "the change touches nothing that was recorded, so nothing is saved"


@dataclass(frozen=True)
class Rest:
    """What the prediction of one change rests on."""

    change: str
    basis: Basis
    text: str


@dataclass(frozen=True, eq=False)
class WhatIf:
    """The answer: a prediction, or what is missing for it. ``base`` is the mean step now and the steps it is of.

    ``prediction`` is of a step of ``step_ms``; None where a change is refused, or its saving is within noise.
    """

    changes: tuple[str, ...]
    base: StepBase
    prediction: Prediction | None
    rests_on: tuple[Rest, ...]
    refused: tuple[Refused, ...]
    notes: tuple[str, ...] = ()
    same_samples: bool = False  # predicted is the time for as many samples as a step has now
    change: Change = ()  # what is replayed; empty where all rests on a simulation or formula of its own

    @property
    def step_ms(self) -> float:
        """The mean step now."""
        return self.base.step_ms


def what_if(profile: Profile, asked: Sequence[AskedChange]) -> WhatIf:
    """The changes made together; none is left out silently: where one cannot be predicted, no step is."""
    effects = [effect(profile, each) for each in asked]
    refused = tuple(each for each in effects if isinstance(each, Refused))
    made = [each for each in effects if isinstance(each, Effect)]
    texts = tuple(each.text for each in asked)
    rests_on = tuple(Rest(each.asked, each.basis, each.rests_on) for each in made)
    base = step_base(profile, next((each.step_ms for each in made if each.step_ms is not None), None))
    if refused:
        return WhatIf(texts, base, None, rests_on, refused)
    change = tuple(part for each in made for part in each.change)
    parts = [predict(profile, change)] if change else []
    parts += [each.figure for each in made if each.figure is not None]
    notes = [f"{each.asked}: {NOTHING}." for each in made if not each.change and each.figure is None]
    if withheld := next((part.withheld for part in parts if part.withheld), ""):
        unsure = Refused(" and ".join(texts), withheld, "more steps, or steps of more equal length")
        return WhatIf(texts, base, None, rests_on, (unsure,), tuple(notes))
    if len(parts) > 1:
        notes.append(TOGETHER)
    if any(part.at_most for part in parts):
        notes.append(AT_MOST)
    same = any(each.same_samples for each in made)
    return WhatIf(texts, base, _combined(parts, base.step_ms), rests_on, (), tuple(notes), same, change)


def _combined(parts: Sequence[Prediction], step_ms: float) -> Prediction:
    """Predictions of different steps as one, of a step of ``step_ms``; alone it is only brought to that step.

    With one that is the most that a change can gain the whole is the most too: the end of the most gain.
    """
    left, best, worst = 1.0, list[float](), list[float]()
    for part in parts:
        before_ms = max(part.step_ms_before, 1e-9)
        left *= part.step_ms_after / before_ms
        best.append(1.0 - part.low_ms / before_ms)
        worst.append(1.0 - part.high_ms / before_ms)
    most = sum(each for each in best if each > 0) or max(best, default=0.0)
    least = max((each for each in worst if each > 0), default=0.0) + sum(each for each in worst if each < 0)
    floor_ms = min([FLOOR_SHARE, *(part.low_ms / max(part.step_ms_before, 1e-9) for part in parts)]) * step_ms
    low_ms = max(min((1.0 - most), left) * step_ms, floor_ms)
    at_most = any(part.at_most for part in parts)
    return Prediction(
        step_ms_before=step_ms,
        step_ms_after=low_ms if at_most else max(left * step_ms, floor_ms),
        low_ms=low_ms,
        high_ms=max(max((1.0 - least), left) * step_ms, floor_ms),
        steps=parts[0].steps if parts else (),
        recorded_ms=step_ms,
        error_ms=0.0,
        at_most=at_most,
    )


def split_changes(text: str) -> tuple[str, ...]:
    """Changes written in one string, with semicolons between them."""
    return tuple(part.strip() for part in re.findall(r"(?:\"[^\"]*\"|'[^']*'|[^;])+", text) if part.strip())


@metric("ms", "predicted step time with {changes} {bound}", "How long would a step take with these changes made?")
def changed_step_ms(profile: Profile, changes: str, bound: str = "expected") -> Measurement:
    """Mean step time with the changes of the grammar made together (semicolons between them); low is shorter."""
    found = _predicted(profile, changes, bound)
    ends = {"expected": found.step_ms_after, "low": found.low_ms, "high": found.high_ms}
    return _measured(profile, changes, ends[choice("bound", bound, ends)])


@metric("x", "predicted speedup with {changes} {bound}", "How much faster would a step be with these changes made?")
def changed_speedup(profile: Profile, changes: str, bound: str = "expected") -> Measurement:
    """Step time now over that with the changes made together."""
    found = _predicted(profile, changes, bound)
    ends = {"expected": found.speedup, "low": found.speedup_low, "high": found.speedup_high}
    return _measured(profile, changes, ends[choice("bound", bound, ends)])


def answered(profile: Profile, changes: str) -> WhatIf:
    """The answer to changes in one string; computed once per profile."""
    asked = asked_changes(split_changes(changes))
    return profile.memo(f"{__name__}:{changes}", lambda: what_if(profile, asked))


def _predicted(profile: Profile, changes: str, bound: str) -> Prediction:
    found = answered(profile, changes)
    if found.prediction is None:
        raise UsageError("; ".join(f"{each.asked}: {each.why}" for each in found.refused))
    if found.prediction.at_most and bound != "expected":
        raise UsageError(f"the gain of {changes} is known as the most that it can be, without an interval")
    return found.prediction


def _measured(profile: Profile, changes: str, value: float) -> Measurement:
    found = answered(profile, changes)
    rows = pd.DataFrame(
        [{"change": rest.change, "basis": rest.basis, "rests_on": rest.text} for rest in found.rests_on]
    )
    return Measurement(value, lambda: rows, f"what-if {changes}", profile.run.rank_numbers, ())
