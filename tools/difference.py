"""One figure in two runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tools.findings import Argument, Fact
from tools.metrics.registry import measure
from tools.profilers.profile import Profile

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
