"""The result of a tool: typed rows with ids, a cursor to the next page, figures that can be cited, and notes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny

from tools.agent_tools.tool import Arguments, ToolContext
from tools.errors import UsageError

if TYPE_CHECKING:
    from tools.findings import Argument, Fact

ROWS = 10  # rows a tool gives unless more are asked for
MOST_ROWS = 500
FIGURES = 10  # rows of a page whose figure gets an id of its own
Figure: TypeAlias = "tuple[str, str, Mapping[str, Argument]]"  # label, metric and its arguments
Item = TypeVar("Item")
WHOLE = ConfigDict(frozen=True, allow_inf_nan=False, json_schema_serialization_defaults_required=True)


class Row(BaseModel):
    """A row; the tool ``event`` opens its id, ``evidence`` those of a diagnosis."""

    model_config = WHOLE

    id: str


class CitedFigure(BaseModel):
    """A figure of the run: ``metric`` with ``arguments`` measures it again. ``id`` is "" outside of a diagnosis."""

    model_config = WHOLE

    id: str
    label: str
    name: str = Field(default="", description="the recorded name that the label is about; untrusted text")
    metric: str
    arguments: dict[str, str | int | float | None]
    value: float
    unit: str


class Result(BaseModel):
    """The answer of a tool. ``cursor`` gives the next page, None on the last; ``total`` counts the rows of all pages.

    ``notes`` say what could not be measured and what is needed, or how rows were chosen. ``text`` holds sentences that
    are written already, figures cited.
    """

    model_config = WHOLE

    rows: tuple[SerializeAsAny[Row], ...] = ()
    cursor: str | None = None
    total: int = 0
    facts: tuple[CitedFigure, ...] = ()
    notes: tuple[str, ...] = ()
    text: str = ""


class Paged(Arguments):
    """Arguments of a tool that gives rows in pages."""

    limit: int = Field(default=ROWS, ge=1, le=MOST_ROWS, description="rows of a page")
    cursor: str | None = Field(default=None, max_length=40, description="cursor of the page before, for the next one")

    def page(self, items: Sequence[Item]) -> tuple[Sequence[Item], str | None]:
        """The items of this page, and the cursor of the next one; UsageError for the cursor of another question."""
        chosen, cursor = self.window(len(items))
        return items[chosen], cursor

    def window(self, total: int) -> tuple[slice, str | None]:
        """The places of this page among so many rows, and the cursor of the next one."""
        begin = self._begin()
        end = begin + self.limit
        return slice(begin, end), f"{end}-{self._mark()}" if end < total else None

    def _begin(self) -> int:
        if self.cursor is None:
            return 0
        place, _, mark = self.cursor.partition("-")
        if not place.isdecimal() or len(place) > 15 or mark != self._mark():
            raise UsageError("the cursor belongs to another call; leave it out to begin again with these arguments")
        return int(place)

    def _mark(self) -> str:
        asked = f"{type(self).__name__} {self.model_dump_json(exclude={'limit', 'cursor'})}"
        return hashlib.blake2b(asked.encode(), digest_size=4).hexdigest()


def cited(context: ToolContext, label: str, fact: Fact, name: str = "") -> CitedFigure:
    """The figure of a fact, under the id that the discussion gives it."""
    return CitedFigure(
        id=context.cite(fact),
        label=label,
        name=name,
        metric=fact.metric,
        arguments=dict(fact.arguments),
        value=fact.value,
        unit=fact.unit,
    )


def measured(context: ToolContext, figures: Iterable[Figure]) -> tuple[tuple[CitedFigure, ...], tuple[str, ...]]:
    """Each figure measured now, and one note for each that the run cannot give."""
    found, notes = [], []
    for label, metric, arguments in figures:
        try:
            found.append(cited(context, label, context.measure(metric, **arguments)))
        except UsageError as error:
            notes.append(f"{label}: cannot be measured: {error}")
    return tuple(found), tuple(notes)


def named(context: ToolContext, figures: Iterable[tuple[str, str, str, Mapping[str, Argument]]]) -> list[CitedFigure]:
    """Figures about recorded names: label, name, metric and its arguments."""
    return [cited(context, label, context.measure(metric, **given), name) for label, name, metric, given in figures]
