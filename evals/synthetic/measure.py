"""Sizes of a step's items, which faults scale themselves by."""

from __future__ import annotations

from collections.abc import Sequence

from evals.synthetic.items import Call, Item, Pause
from evals.synthetic.models import Place


def device_us(items: Sequence[Item]) -> float:
    """Device work of the step, in us."""
    return sum(work.us for item in items if isinstance(item, Call) for work in item.work)


def host_us(items: Sequence[Item]) -> float:
    """Host time of the step without waiting, in us."""
    return sum(item.host_us if isinstance(item, Call) else item.us for item in items if isinstance(item, Call | Pause))


def jitter(place: Place, us: float, spread: float) -> float:
    """A time with a relative spread, never negative."""
    return float(us * max(0.05, 1.0 + spread * place.rng.standard_normal()))


def insert_spread(items: list[Item], extra: Sequence[Item], together: int) -> list[Item]:
    """``extra`` spread evenly behind the first item, ``together`` at a time."""
    groups = [list(extra[at : at + together]) for at in range(0, len(extra), together)]
    result, head = list(items[:1]), items[1:]
    every = max(1.0, len(head) / max(len(groups), 1))
    due = every
    for at, item in enumerate(head, start=1):
        result.append(item)
        while groups and at >= due:
            result += groups.pop(0)
            due += every
    return [*result, *(item for group in groups for item in group)]
