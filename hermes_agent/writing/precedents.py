"""What may rest on past cases and on advice alone: what happened elsewhere, and what to change; nothing of this run."""

from __future__ import annotations

import re
from collections.abc import Sequence

ELSEWHERE = re.compile(
    r"\b(cases?|issues?|reports?|reported|elsewhere|there|similar|others?|somebody|someone|precedents?|past|likewise)\b"
)
PROVES = re.compile(
    r"\bprov(e|es|ed|en|ing)\b|\bproof\b|\bconfirm(s|ed|ing)?\b|\bshow(s|ed)? that "
    r"(it|this|your|the (run|step|loader))\b"
    r"|\b(is|are|must be|will be) (the |a |your )?(\w+ )?(cause|causes|reason|reasons|culprit|problem|bottleneck)\b"
    r"|\b(is|are) (to blame|responsible|at fault)\b|\b(this|your|our) (runs?|training|job|step|loader|model)\b|\bhere\b"
)
THERE = re.compile(r"\b(there|elsewhere|cases?)\b")
BECAUSE = re.compile(r"\b(because|due to|caused by|which is why|explains?|reason)\b")
STATE = re.compile(
    r"\b(already|currently|at present|right now|at the moment|so far|still|today|is|are|was|were) (\w+ ){0,2}"
    r"(uses?|using|has|have|runs?|running|set to|sets?|configured|corrupt\w*|single|enabled|disabled|missing)\b"
    r"|\balready\b|\bcurrently\b|\bat present\b"
)


def overstretched(words: str, cited: Sequence[str]) -> str:
    """What is wrong when normalised words, resting only on cases or only on advice, say more than those can."""
    if not cited:
        return ""
    kinds = {name[0] for name in cited}
    names = ", ".join(cited)
    if kinds == {"C"}:
        if PROVES.search(words):
            return f"{names} happened elsewhere and proves nothing about this run"
        claimed = BECAUSE.search(words) and not THERE.search(words)
        if claimed or not ELSEWHERE.search(words):
            return f"{names} is a past case: say that it is, and what was seen there"
    if kinds <= {"A", "C"} and "A" in kinds and (state := STATE.search(words)):
        return f"{names} says what to change, not how the run is set up: leave {state.group()!r} out"
    return ""
