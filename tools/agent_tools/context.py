"""The context of a tool without a diagnosis: figures carry no id."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from tools.errors import UsageError
from tools.judgement.catalog import measure

if TYPE_CHECKING:
    from tools.findings import Argument, Fact
    from tools.views.profile import Profile

NO_DIAGNOSIS = "this tool reads the diagnosis, and the run was not diagnosed"


@dataclass(frozen=True)
class RunContext:
    """One run, and the one to compare it with."""

    run: Profile
    other: Profile | None = None

    def profile(self) -> Profile:
        """The run."""
        return self.run

    def baseline(self) -> Profile | None:
        """The run to compare with."""
        return self.other

    def measure(self, metric: str, **arguments: Argument) -> Fact:
        """A finite figure, arguments that are None left out; UsageError where the run has none."""
        return measured_on(self.run, metric, arguments)

    def cite(self, fact: Fact) -> str:
        """No id: there is no diagnosis that could hold it."""
        return ""

    def checks(self) -> NoReturn:
        """Not without a diagnosis."""
        raise UsageError(NO_DIAGNOSIS)

    def evidence_rows(self) -> NoReturn:
        """Not without a diagnosis."""
        raise UsageError(NO_DIAGNOSIS)

    def similar_cases(self, text: str | None) -> NoReturn:
        """Not without a diagnosis."""
        raise UsageError(NO_DIAGNOSIS)

    def record(self, identifier: str) -> NoReturn:
        """Not without a diagnosis."""
        raise UsageError(NO_DIAGNOSIS)


def measured_on(profile: Profile, metric: str, arguments: dict[str, Argument]) -> Fact:
    """A finite figure of a run, arguments that are None left out; UsageError where the run has none."""
    fact = measure(profile, metric, **{name: value for name, value in arguments.items() if value is not None})
    if not math.isfinite(fact.value):
        raise UsageError(f"nothing was recorded that {metric} could be measured on")
    return fact
