"""The claim of a predicted interval. Apart from the replay, so that a saved diagnosis is shown without loading it."""

from __future__ import annotations

COVERS_PCT = 80.0  # in so many cases the interval is to hold the truth; how often it does is for the evaluation to say
