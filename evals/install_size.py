"""Size of the base install by requirement: ``python -m evals.install_size`` in an environment of the wheel alone.

A package counts for the requirement that alone pulls it in; what several pull in stands in a row of its own. Sizes are
of the files that the distributions list, without compiled modules (``__pycache__``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

NAMED = 5  # largest packages named in a row
OURS = "hermes-dx"


@dataclass(frozen=True)
class Row:
    """A requirement, its own size, and the packages that only it pulls in with theirs; megabytes."""

    name: str
    own_mb: float
    pulled_mb: dict[str, float]

    @property
    def mb(self) -> float:
        """All of the row."""
        return self.own_mb + sum(self.pulled_mb.values())


def rows() -> list[Row]:
    """One row per requirement, the largest first, then the packages that several pull in."""
    reached = {name: _closure(name) for name in sorted(_required(OURS, frozenset()))}
    counted = [each for names in reached.values() for each in names]
    found = []
    for name, names in reached.items():
        alone = {each: _mb(each) for each in names if counted.count(each) == 1 and each not in reached}
        found.append(Row(name, _mb(name), alone))
    shared = {each: _mb(each) for each in set(counted) if counted.count(each) > 1 and each not in reached}
    return [*sorted(found, key=lambda row: -row.mb), Row("needed by several", 0.0, shared)]


def table(found: list[Row]) -> str:
    """The rows as Markdown."""
    lines = ["| requirement | MB | of it its own | pulled in by it alone, largest first |", "|---|---:|---:|---|"]
    for row in found:
        largest = sorted(row.pulled_mb, key=lambda each: -row.pulled_mb[each])[:NAMED]
        names = ", ".join(f"{each} {row.pulled_mb[each]:.0f}" for each in largest if row.pulled_mb[each] >= 1)
        lines.append(f"| {row.name} | {row.mb:.0f} | {row.own_mb:.0f} | {names} |")
    return "\n".join([*lines, f"| **all** | **{sum(row.mb for row in found):.0f}** | | |"])


def _closure(name: str) -> set[str]:
    """The requirement and all that it pulls in, installed."""
    seen: set[str] = set()
    waiting = [(name, frozenset[str]())]
    while waiting:
        one, extras = waiting.pop()
        if one in seen or _found(one) is None:
            continue
        seen.add(one)
        waiting += [(each, asked) for each, asked in _required(one, extras).items()]
    return seen


def _required(name: str, extras: frozenset[str]) -> dict[str, frozenset[str]]:
    found = _found(name)
    return dict(_applying(found, extras)) if found is not None else {}


def _applying(found: Distribution, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    for text in found.requires or ():
        each = Requirement(text)
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in (*extras, "")):
            yield _plain(each.name), frozenset(each.extras)


def _found(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _mb(name: str) -> float:
    found = _found(name)
    paths = [
        Path(str(each.locate())) for each in (found.files if found else None) or () if "__pycache__" not in each.parts
    ]
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    print(table(rows()))
