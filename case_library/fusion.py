"""The rankers made one, and the judgement whether the best is close enough to be shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from case_library.lexical import Scores
from case_library.votes import scaled

# In the rarity of a term that only one case has, so that they hold for small and large libraries:
LITTLE_ASKED = 1.8  # a query of commoner words than this cannot be covered fully
MUCH_ASKED = 4.6  # of a long text no other case shares more than a part, and that is enough
TEXT_BESIDE_SIGNATURE = 0.4  # how much of the rest text may add when a signature is given
# Parts of the strength of a text, from a logistic regression over the development half of `evals/retrieval` and texts
# of left-out cases, five-fold cross-validated, the positive weights made to add up to 1:
SHARE_PART = 0.28
ANGLE_PART = 0.21
CONCEPT_PART = 0.34
PACE_PART = 0.17
OTHER_TOPIC = 0.3  # taken away where the text names a topic that no case is about
MANY_CONCEPTS = 3  # more say nothing more
WEAK = 0.35
STRONG = 0.42  # between the two the vote has to prefer some cause
UNDECIDED = 0.95  # the third cause's vote over the first's, above which the vote prefers none
SHOWN = 3  # the hits people look at
TAIL = 0.5  # a hit below this share of the best is not shown


@dataclass(frozen=True)
class Weights:
    """How much each ranker says; 0 leaves it out."""

    words: float = 1.0
    vector: float = 0.5
    votes: float = 1.0
    signature: float = 1.0
    spread: bool = True  # the best case of each of the first causes in front


@dataclass(frozen=True)
class Strength:
    """How near the library comes to a query: ``total``, ``text`` and ``signature`` from 0 to 1.

    ``undecided`` is what the third cause got of the vote, over the first: near 1 when the words speak for no cause.
    """

    total: float
    text: float
    signature: float
    undecided: float


def covered(gain: float, asked: float) -> float:
    """The share of the asked rarity that a case has, from 0 to 1; rarity in that of a term that one case has."""
    return min(gain / min(max(asked, LITTLE_ASKED), MUCH_ASKED), 1.0)


def blended(parts: Mapping[str, Scores], weights: Weights) -> Scores:
    """The scores of words, vectors and votes, each over its greatest, weighed and summed; the greatest sum is 1."""
    total = weights.words * scaled(parts["words"]) + weights.vector * scaled(parts["vector"])
    return scaled(total + weights.votes * scaled(parts["votes"]))


def text_strength(share: float, angle: float, concepts: int, of_pace: bool, other_topic: bool) -> float:
    """How near the library comes to a text, 0 to 1: best share of its rarity, concepts, words of pace and ``angle``.

    That is the best cosine over the one that texts about the same thing reach.
    """
    near = SHARE_PART * share + ANGLE_PART * min(angle, 1.0)
    near += CONCEPT_PART * min(concepts, MANY_CONCEPTS) / MANY_CONCEPTS
    near += PACE_PART * of_pace
    return max(near - OTHER_TOPIC * other_topic, 0.0) if share > 0 else 0.0


def strength_of(text: float, agreement: Scores, votes: Scores, has_signature: bool) -> Strength:
    """The strength of a query from that of its text, the agreement of each case's signature and the vote of causes."""
    signature = float(agreement.max(initial=0.0)) if has_signature else 0.0
    ordered = np.sort(votes)[::-1]
    undecided = float(ordered[2]) if len(ordered) > 2 else 0.0
    total = signature + (1 - signature) * TEXT_BESIDE_SIGNATURE * text if has_signature else text
    return Strength(total, text, signature, undecided)


def similarity(text: Scores, agreement: Scores, has_signature: bool) -> Scores:
    """Similarity of each case from 0 to 1: its text, which beside a signature adds a part of what that leaves."""
    return agreement + (1 - agreement) * TEXT_BESIDE_SIGNATURE * text if has_signature else text


def spread(order: Sequence[int], causes: Sequence[str]) -> list[int]:
    """The order with the best case of each of the first ``SHOWN`` causes in front: one guess must not hide the next."""
    first: dict[str, int] = {}
    for row, cause in zip(order, causes, strict=True):
        first.setdefault(cause, row)
        if len(first) == SHOWN:
            break
    front = list(first.values())
    return [*front, *(row for row in order if row not in front)]


def abstention(strong: Strength, other_topic: str = "") -> str:
    """Why the best cases must not be shown; empty if they may."""
    if strong.total < WEAK:
        near = f"No case is close: the best reaches a similarity of {strong.total:.2f}, and {WEAK:.2f} is needed"
        return f"{near}; the question seems to be about {other_topic}." if other_topic else f"{near}."
    if strong.total < STRONG and strong.undecided > UNDECIDED and strong.signature == 0:
        return f"The best cases disagree on the cause at a similarity of {strong.total:.2f}; say more of what was seen."
    return ""
