"""The interface between a tool and the run: its profile, measurements that get an id, and sentences that cite them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeAlias

from tools.errors import UsageError
from tools.findings import Argument, Fact
from tools.views.profile import Profile

ROWS = 10  # rows a tool gives unless more are asked for
MOST_ROWS = 40

Figure: TypeAlias = tuple[str, str, Mapping[str, Argument]]  # label, metric and its arguments


class ToolContext(Protocol):
    """The run under discussion. The implementation numbers the facts and stores them for the session."""

    def profile(self) -> Profile:
        """The run; raises InputError when it cannot be read any more."""
        ...

    def measure(self, metric: str, **arguments: Argument) -> Fact:
        """A finite figure measured now; raises UsageError where the run cannot give it."""
        ...

    def say(self, template: str, *facts: Fact, names: tuple[str, ...] = ()) -> str:
        """The template with ``{0}`` written as value, unit and id of the first fact, ``{n0}`` as a quoted name."""
        ...


def measured(context: ToolContext, figures: Iterable[Figure]) -> list[str]:
    """One line per figure: its value with an id, or why the run cannot give it."""
    lines = []
    for label, metric, arguments in figures:
        try:
            fact = context.measure(metric, **arguments)
        except UsageError as error:
            lines.append(f"- {label}: cannot be measured: {error}")
        else:
            lines.append("- " + context.say(f"{label}: {{0}}", fact))
    return lines


def page(lines: list[str], total: int, what: str) -> str:
    """The lines, and a sentence about how many there would be."""
    if not lines:
        return f"There are no {what}."
    if total > len(lines):
        lines = [*lines, f"Shown are `{len(lines)} of {total}` {what}; narrow the question or raise limit."]
    return "\n".join(lines)
