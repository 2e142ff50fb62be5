"""One figure in two runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tools.errors import UsageError
from tools.findings import Argument, Fact, Sentence
from tools.metrics.registry import measure
from tools.views.profile import Profile

What = Literal["step_time", "part", "kernel", "operator"]


@dataclass(frozen=True)
class Difference:
    """One figure in both runs. ``name`` is a part, or a kernel's or operator's name as recorded (untrusted)."""

    what: What
    name: str
    before: Fact
    after: Fact

    @property
    def delta(self) -> float:
        """After minus before, in the facts' unit."""
        return self.after.value - self.before.value

    @property
    def verb(self) -> str:
        """Which way it went, for figures that did not stay."""
        return "fell" if self.delta < 0 else "rose"


def difference(a: Profile, b: Profile, what: What, shown: str, metric: str, **arguments: Argument) -> Difference:
    """The same measurement on the baseline ``a`` and on ``b``."""
    return Difference(what, shown, measure(a, metric, **arguments), measure(b, metric, **arguments))


PARTS = {  # of a rank's step: how each is called
    "data_wait": "waiting for data",
    "own": "its own time, loading data included,",
    "rest": "what is left beside its own time (waiting for others, the optimizer, whatever else follows)",
}


def by_series(a: Profile, b: Profile) -> bool:
    """Whether both runs tell the same ranks' steps without a profiler."""
    return a.series is not None and b.series is not None and a.series.ranks == b.series.ranks


def recorded_step(a: Profile, b: Profile) -> Difference:
    """The mean unprofiled step."""
    return difference(a, b, "step_time", "", "series_step_ms", statistic="mean")


def recorded_parts(a: Profile, b: Profile, least_ms: float) -> tuple[Difference, ...]:
    """Collections and the parts of a step, each where it changed most; those below ``least_ms`` left out."""
    ranks = a.series.ranks if a.series is not None else ()
    found = [_part(a, b, part, ranks) for part in PARTS]
    found.append(_told(a, b, "gc", "collector_cost_ms"))
    noted = [each for each in found if each is not None and abs(each.delta) >= least_ms]
    return tuple(sorted(noted, key=lambda each: -abs(each.delta)))


def recorded_change(part: Difference, ranks: int) -> Sentence:
    """The sentence about one of them; the rank is named where there are several."""
    end = "{0} to {1} per unprofiled step"
    if part.name == "gc":
        text = f"Collections of Python's garbage collector {part.verb} from {end}, on the rank that collects longest."
        return Sentence(text, (part.before, part.after))
    where = f"On rank {part.before.ranks[0]} " if ranks > 1 else ""
    text = f"{where}{PARTS[part.name]} {part.verb} from {end}."
    return Sentence(text[:1].upper() + text[1:], (part.before, part.after))


def _part(a: Profile, b: Profile, part: str, ranks: tuple[int, ...]) -> Difference | None:
    found = [_told(a, b, part, "series_part_ms", part=part, rank=rank) for rank in ranks]
    return max((each for each in found if each is not None), key=lambda each: abs(each.delta), default=None)


def _told(a: Profile, b: Profile, name: str, metric: str, **arguments: str | int) -> Difference | None:
    """None where the records of one run do not tell it, as step logs tell no parts."""
    try:
        return difference(a, b, "part", name, metric, **arguments)
    except UsageError:
        return None
