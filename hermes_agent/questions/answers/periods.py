"""Suppositions about how often something comes, held against the steps in which a cause was found."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from hermes_agent.model.diagnosis import CauseRecord
from hermes_agent.questions.prose import listed

EVERY = re.compile(r"\bevery (?P<every>\d{1,6})(?:st|nd|rd|th)? (?:steps?|iterations?|batch(?:es)?)\b")
FEWEST = 3  # occurrences that show a distance
MOSTLY = 0.8  # of the distances are the same
LISTED = 6  # steps that are named one by one


@dataclass(frozen=True)
class SupposedPeriod:
    """Whether the cause comes at the distance that a question supposes (None: too few steps), and a sentence on it."""

    holds: bool | None
    text: str


def supposed_period(record: CauseRecord, words: str) -> SupposedPeriod | None:
    """None where the question supposes no distance, or the cause is not of single steps."""
    named = EVERY.search(words)
    begins = _begins(record.steps)
    if named is None or not begins:
        return None
    every, gaps = int(named["every"]), np.diff(begins)
    if len(begins) < FEWEST:
        return SupposedPeriod(None, f"It was seen in {_seen(begins)}, too few to show a distance.")
    usual = int(np.median(gaps))
    if float((gaps == usual).mean()) < MOSTLY:
        return SupposedPeriod(False, f"It was seen in {_seen(begins)}, at no fixed distance.")
    if usual == 1:
        return SupposedPeriod(every == 1, f"It was seen in {_seen(begins)}, one after the other.")
    text = f"It comes every {usual} steps: {_seen(begins)}."
    return SupposedPeriod(usual == every, text if usual == every else f"{text[:-1]}, not every {every}.")


def _begins(steps: list[int]) -> list[int]:
    """The steps without those right behind another one, where not all are neighbours: a long one may reach into the
    next."""
    ordered = sorted(steps)
    apart = [step for at, step in enumerate(ordered) if at == 0 or step - ordered[at - 1] > 1]
    return apart if len(apart) > 1 else ordered


def _seen(steps: list[int]) -> str:
    shown = [str(step) for step in steps[:LISTED]]
    more = [f"{len(steps) - LISTED} more"] if len(steps) > LISTED else []
    return f"{'step' if len(steps) == 1 else 'steps'} {listed([*shown, *more])}"
