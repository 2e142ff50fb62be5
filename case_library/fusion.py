"""Three rankings made one, and the judgement whether its top is close enough to be shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

RANK_CONSTANT = 10  # reciprocal rank fusion (Cormack et al. 2009) uses 60 for long lists; ours are short
SIGNATURE_WEIGHT = 2.0  # a cause found by analysis says more than shared words
SETTING_WEIGHT = 0.25  # framework and hardware order equals only
# In the rarity of a term that only one case has, so that they hold for small and large libraries:
LITTLE_ASKED = 1.8  # a query of commoner words than this cannot be covered fully
MUCH_ASKED = 4.6  # of a long text no other case shares more than a part, and that is enough
CLOSE_ANGLE = 0.4  # cosine of texts about the same thing under the hashed embedding
TEXT_BESIDE_SIGNATURE = 0.4  # how much of the rest text may add when a signature is given
# The next two are set by `python -m case_library.calibrate`: most questions of its off-topic list stay below
# WEAK, all of its on-topic list above; between WEAK and STRONG two of the best three must name one cause.
WEAK = 0.45
STRONG = 0.52
TAIL = 0.5  # a hit below this share of the best is not shown


@dataclass(frozen=True)
class Closeness:
    """How close one case is, from 0 to 1, in all and by part."""

    similarity: float
    text: float
    signature: float


def closeness(gain: float, asked: float, cosine: float, signature: float, has_signature: bool) -> Closeness:
    """Similarity of a case from the rarity matched and asked, the cosine and the signature score.

    Rarity is in units of that of a term which only one case has.
    Text similarity is the mean of the share of the query's rarity that the case has and of the cosine over
    ``CLOSE_ANGLE``, each at most 1. With a signature it adds ``TEXT_BESIDE_SIGNATURE`` of what the signature leaves.
    """
    covered = min(gain / min(max(asked, LITTLE_ASKED), MUCH_ASKED), 1.0)
    angle = min(max(cosine, 0.0) / CLOSE_ANGLE, 1.0)
    text = (covered + angle) / 2 if gain > 0 else 0.0
    if not has_signature:
        return Closeness(text, text, signature)
    return Closeness(signature + (1 - signature) * TEXT_BESIDE_SIGNATURE * text, text, signature)


def ranks(scores: Mapping[str, float]) -> dict[str, int]:
    """Rank by falling score from 1; equal scores share a rank, scores of 0 have none."""
    ordered = sorted((score for score in scores.values() if score > 0), reverse=True)
    first = {score: place for place, score in reversed(list(enumerate(ordered, start=1)))}
    return {name: first[score] for name, score in scores.items() if score > 0}


def fuse(rankings: Sequence[tuple[Mapping[str, int], float]]) -> dict[str, float]:
    """Weighted reciprocal rank fusion: the sum over the rankings of weight / (RANK_CONSTANT + rank), by name."""
    total: dict[str, float] = {}
    for ranking, weight in rankings:
        for name, place in ranking.items():
            total[name] = total.get(name, 0.0) + weight / (RANK_CONSTANT + place)
    return total


def abstention(best: Sequence[Closeness], causes: Sequence[str]) -> str:
    """Why the best three cases, given with their causes and best first, must not be shown; empty if they may."""
    top = best[0].similarity if best else 0.0
    if top < WEAK:
        return f"No case is close: the best reaches a similarity of {top:.2f}, and {WEAK:.2f} is needed."
    agreeing = Counter(causes).most_common(1)[0][1]
    if top < STRONG and agreeing < 2 and best[0].signature == 0:
        named = ", ".join(causes)
        return f"The best cases disagree: at a similarity of {top:.2f} they name {named}; say more of what was seen."
    return ""
