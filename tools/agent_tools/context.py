"""What a tool may use: the run's profile, measurements that get an id, and sentences that cite them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tools.errors import UsageError
from tools.findings import Argument, Fact
from tools.views.profile import Profile

ROWS = 10  # rows a tool gives unless more are asked for
MOST_ROWS = 40


class ToolContext(Protocol):
    """The run under discussion. Whoever implements it numbers the facts and keeps them for the session."""

    def profile(self) -> Profile:
        """The run; raises InputError when it can no longer be read."""
        ...

    def measure(self, metric: str, **arguments: Argument) -> Fact:
        """A finite figure measured now; raises UsageError where the run cannot give it."""
        ...

    def say(self, template: str, *facts: Fact, names: tuple[str, ...] = ()) -> str:
        """The template with ``{0}`` written as value, unit and id of the first fact, ``{n0}`` as a quoted name."""
        ...


@dataclass(frozen=True)
class Figure:
    """A figure to be told: ``label`` is what stands before it."""

    label: str
    metric: str
    arguments: Mapping[str, Argument] = field(default_factory=dict)


def told(context: ToolContext, figures: tuple[Figure, ...]) -> list[str]:
    """One line per figure: its value with an id, or why the run cannot give it."""
    return [_line(context, figure) for figure in figures]


def _line(context: ToolContext, figure: Figure) -> str:
    try:
        fact = context.measure(figure.metric, **figure.arguments)
    except UsageError as error:
        return f"- {figure.label}: cannot be measured: {error}"
    return "- " + context.say(f"{figure.label}: {{0}}", fact)


def page(lines: list[str], total: int, what: str) -> str:
    """The lines, and how many there would be."""
    if not lines:
        return f"There are no {what}."
    more = (
        []
        if total <= len(lines)
        else [f"Shown are `{len(lines)} of {total}` {what}; narrow the question or raise limit."]
    )
    return "\n".join([*lines, *more])
