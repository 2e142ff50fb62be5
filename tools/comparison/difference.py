"""One figure in two runs, and the sentence about its change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tools.errors import UsageError
from tools.findings import Argument, Fact, Sentence
from tools.metrics.registry import measure
from tools.views.profile import Profile

What = Literal["step_time", "part", "kernel", "operator"]
RECORDED_PARTS = {
    "data_wait": "waiting for data",
    "own": "its own time, loading data included,",
    "rest": "the remainder apart from its own time (waiting for others, the optimizer, whatever else follows)",
}


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
        """The direction, for figures that changed."""
        return "fell" if self.delta < 0 else "rose"

    def sentence(self) -> Sentence:
        """The change of a part, kernel or operator of the traced steps."""
        part = self.name.replace("_", " ").replace("memcpy", "copy").capitalize()
        subject = {"kernel": "The kernel {n0}", "operator": "The own time of the operator {n0}"}.get(self.what, part)
        names = () if self.what == "part" else (self.name,)
        return Sentence(f"{subject} {self.verb} from {{0}} to {{1}} per step.", (self.before, self.after), names)

    def recorded_sentence(self, ranks: int) -> Sentence:
        """The change of a part of the unprofiled steps; the rank is named where there are several."""
        end = f"{self.verb} from {{0}} to {{1}} per unprofiled step"
        text = f"Collections of Python's garbage collector {end}, on the rank that collects longest."
        if self.name != "gc":
            where = f"On rank {self.before.ranks[0]} " if ranks > 1 else ""
            text = f"{where}{RECORDED_PARTS[self.name]} {end}."
        return Sentence(text[:1].upper() + text[1:], (self.before, self.after))


def difference(a: Profile, b: Profile, what: What, shown: str, metric: str, **arguments: Argument) -> Difference:
    """The same measurement on the baseline ``a`` and on ``b``."""
    return Difference(what, shown, measure(a, metric, **arguments), measure(b, metric, **arguments))


def recorded_parts(a: Profile, b: Profile, least_ms: float) -> tuple[Difference, ...]:
    """Collections and the parts of a step, each where it changed most; those below ``least_ms`` left out."""
    ranks = a.series.ranks if a.series is not None else ()
    found = [_recorded(a, b, part, "series_part_ms", part=part, rank=rank) for part in RECORDED_PARTS for rank in ranks]
    known = [each for each in (*found, _recorded(a, b, "gc", "collector_cost_ms")) if each is not None]
    largest: dict[str, Difference] = {}
    for each in sorted(known, key=lambda each: -abs(each.delta)):
        largest.setdefault(each.name, each)
    return tuple(each for each in largest.values() if abs(each.delta) >= least_ms)


def _recorded(a: Profile, b: Profile, name: str, metric: str, **arguments: str | int) -> Difference | None:
    """None where the records of one run do not hold it, as step logs hold no parts."""
    try:
        return difference(a, b, "part", name, metric, **arguments)
    except UsageError:
        return None
