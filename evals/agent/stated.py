"""Text cut into statements with their figures: a sentence, or a row of a table with its heading."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from hermes_agent.evidence.citations import cited_ids, sentences, without_citations

MOST_FIGURES = 8  # a sentence with more is a list, which states nothing of one place
NEAR = 0.015  # relative difference up to which two figures are the same
# A unit as its dimension, and its size in the dimension's base.
UNITS: Mapping[str, tuple[str, float]] = MappingProxyType(
    {
        "ns": ("time", 1e-6), "us": ("time", 1e-3), "ms": ("time", 1.0), "s": ("time", 1e3),
        "%": ("share", 1.0), "x": ("ratio", 1.0),
        "B": ("size", 1.0), "KiB": ("size", 2.0**10), "MiB": ("size", 2.0**20), "GiB": ("size", 2.0**30),
        "kB": ("size", 1e3), "MB": ("size", 1e6), "GB": ("size", 1e9),
        "MB/s": ("rate", 1e6), "GB/s": ("rate", 1e9), "": ("count", 1.0),
    }
)  # fmt: skip
NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
FIGURE = re.compile(rf"(?<![\w.])(?P<value>{NUMBER}) ?(?P<unit>ns|us|ms|s|%|x|[MG]B/s|[KMG]iB|[kMG]?B)?(?![\w%/]|\.\d)")
CELL = re.compile(rf"{NUMBER}")
COLUMN_UNIT = re.compile(r"(?<!\w)(ns|us|ms|%|[KMG]iB|[MG]B)(?!\w)")
IN_UNIT = re.compile(r"\bin (ns|us|ms|s|%)(?!\w)|\b(ns|us|ms) per step\b")
PLACE = re.compile(r"\b(?:ranks?|steps?|rang|causes?|[ECAHRL]) ?\d+(?:(?:, | and | to )\d+)*", re.IGNORECASE)
RANK = re.compile(r"\branks? (\d+(?:(?:, | and )\d+)*)(?: to (\d+))?", re.IGNORECASE)
ITEM = re.compile(r"[-*] ")
RULE = re.compile(r"^\|[ :|-]+\|$")


@dataclass(frozen=True)
class Figure:
    """A number in the base of its dimension: ms, percent, bytes, a ratio or a count."""

    dimension: str
    value: float

    def near(self, other: Figure) -> bool:
        """Whether both are the same, up to rounding; counts are exact."""
        least = 0.0 if self.dimension == "count" else NEAR * abs(other.value)
        return self.dimension == other.dimension and abs(self.value - other.value) <= least


@dataclass(frozen=True)
class Stated:
    """One statement: ``text`` is the sentence, or the row or list item after its heading; ``ids`` are what it cites."""

    text: str
    figures: tuple[Figure, ...]
    ids: tuple[str, ...] = ()

    @property
    def ranks(self) -> list[int]:
        """The ranks that it names, in order."""
        found: list[int] = []
        for match in RANK.finditer(self.text):
            listed = [int(number) for number in re.findall(r"\d+", match[1])]
            found += listed if match[2] is None else [*listed, *range(listed[-1] + 1, int(match[2]) + 1)]
        return found


def figure_of(text: str) -> Figure:
    """``56.0 ms`` as a figure; a bare number is a count."""
    number, _, unit = text.strip().partition(" ")
    dimension, size = UNITS[unit]
    return Figure(dimension, float(number.replace(",", "")) * size)


def figures_in(text: str) -> tuple[Figure, ...]:
    """The figures of a text; ranks, steps and ids are none."""
    found = FIGURE.finditer(PLACE.sub(" ", text))
    return tuple(figure_of(f"{match['value']} {match['unit'] or ''}") for match in found)


def stated(text: str) -> list[Stated]:
    """The statements of an answer, in order."""
    return list(_statements(text))


def _statements(text: str) -> Iterator[Stated]:
    heading, columns, prose = "", list[str](), list[str]()
    for line in (*text.splitlines(), ""):
        if not line.startswith("|"):
            columns = []
            prose.append(line)
            continue
        found = list(_prose("\n".join(prose)))
        yield from found
        heading, prose = (found[-1].text if found else heading), []
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if RULE.match(line):
            continue
        if not columns:
            columns = cells
        else:
            yield _row(heading, columns, cells)
    yield from _prose("\n".join(prose))


def _prose(text: str) -> Iterator[Stated]:
    heading = ""
    for sentence in sentences(text):
        plain = without_citations(sentence)
        words = f"{heading} {plain}" if heading and ITEM.match(plain) else plain
        yield Stated(words, figures_in(plain), tuple(cited_ids(sentence)))
        if plain.endswith(":"):
            heading = plain
        elif not ITEM.match(plain):
            heading = ""


def _row(heading: str, columns: list[str], cells: list[str]) -> Stated:
    """A row: cells take the unit of their column, else that of the heading."""
    spoken = IN_UNIT.search(heading)
    common = next((unit for unit in spoken.groups() if unit), "") if spoken else ""
    words, figures = [heading], list[Figure]()
    for column, cell in zip(columns, cells, strict=False):
        plain = without_citations(cell)
        own = COLUMN_UNIT.search(column)
        words.append(f"{column} {plain}")
        if not CELL.fullmatch(plain):
            figures += figures_in(plain)
        elif column not in ("rank", "step", "id"):
            units = {own[1]} if own else {common, ""}
            figures += [figure_of(f"{plain} {unit}") for unit in sorted(units)]
    return Stated("; ".join(words), tuple(figures), tuple(cited_ids(" ".join(cells))))
