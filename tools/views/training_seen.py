"""Whether traces show a training step: a backward pass or an optimizer, by recorded names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Literal

from tools.knowledge.name_patterns import patterns
from tools.run.events import EventKind
from tools.views.profile import Profile

Work = Literal["training", "inference", "no training step", "unknown"]
LEAST_OPERATORS = 10  # distinct operators of a rank: fewer are no model, or the host's part was not recorded
OPERATOR = re.compile(r"aten::")


def work_seen(profile: Profile) -> Work:
    """``training`` where any rank shows a backward pass or an optimizer; without both ``inference`` where names say so,
    else ``no training step``; ``unknown`` where the traces do not hold enough operators of PyTorch to tell."""
    names = set[str]()
    operators = 0
    for view in profile.ranks:
        own = set(view.distinct_names(view.kind != EventKind.INSTANT))
        names |= own
        operators = max(operators, sum(OPERATOR.match(name) is not None for name in own))
    if _any("training_work", names):
        return "training"
    if operators < LEAST_OPERATORS:
        return "unknown"
    return "inference" if _any("inference_work", names) else "no training step"


def inference_name(profile: Profile) -> str:
    """The shortest recorded name that is one of inference; "" for none."""
    return _shortest(profile, "inference_work")


def training_name(profile: Profile) -> str:
    """The shortest recorded name that is one of a backward pass or an optimizer; "" for none."""
    return _shortest(profile, "training_work")


def trains(profile: Profile) -> bool:
    """Whether advice on training fits: a training step was seen, or nothing shows that there is none."""
    return not profile.traced or work_seen(profile) in ("training", "unknown")


def _any(pattern: str, names: Iterable[str]) -> bool:
    return any(map(_search(pattern), names))


def _shortest(profile: Profile, pattern: str) -> str:
    names = {name for view in profile.ranks for name in view.distinct_names(view.kind != EventKind.INSTANT)}
    return min(filter(_search(pattern), names), key=lambda name: (len(name), name), default="")


def _search(pattern: str) -> Callable[[str], bool]:
    search, prepares = patterns()[pattern].search, patterns()["training_prepared"].search
    return lambda name: search(name) is not None and prepares(name) is None
