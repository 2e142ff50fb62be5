"""Progress bars: tqdm, Lightning's and rich ones. They count steps, and show whole seconds and a smoothed rate."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field

from tools.sources.job_log.numbers import NUMBER, clock_s, number

COUNT = r"(\d{1,15})/(\d{1,15})"
NAME, GAP = r"(?P<name>[^|\r]{0,60}?)", r"\s{0,9}"  # bounded: a search takes time linear in the line
TQDM = re.compile(
    rf"{NAME}\s?\d{{1,3}}%\|[^|]{{0,300}}\|{GAP}{COUNT}{GAP}"
    rf"\[(?:(?P<elapsed>\d[\d:a-z, ]{{0,30}}?)<[^,\]]{{0,30}},{GAP})?{GAP}"
    rf"(?:({NUMBER})\s?(it/s|s/it|step/s|batch/s)|\?)"
)
PLAIN = re.compile(rf"{NAME}\s?{COUNT}{GAP}\[(?P<elapsed>{NUMBER}s),{GAP}({NUMBER})\s?(it/s|s/it)")
RICH = re.compile(
    rf"{NAME}\s[^\s━╸╺]{{0,30}}[━╸╺]{{1,200}}{GAP}{COUNT}{GAP}(?P<elapsed>\d[\d:]{{1,12}}){GAP}•{GAP}\S{{0,12}}{GAP}"
    rf"({NUMBER})\s?(it/s|s/it)"
)
DIGITS = re.compile(r"\d+")
# Bars of other work than training steps.
OTHER = re.compile(
    r"valid|eval|test|predict|sanity|map|filter|load|download|fetch|token|generat|sav|shard|collat|process|extract|build"
    r"|compil|warm|cache|writ|read|pars",
    re.I,
)
GENERATION = "open-end generation"  # what transformers says behind the bar of a loop that generates text
RESOLUTION_S = 1.0
LEAST_PART_S = 20.0  # whole seconds are exact to 5 % of it: updates are joined until so much time has passed
LEAST_WHOLE_S = 3 * LEAST_PART_S  # of a bar: shorter ones give rates only
MOST_POINTS = 1 << 20
LEAST_POINTS = 2


@dataclass(frozen=True, slots=True)
class BarPoint:
    """One update: steps done of ``total``, seconds since the bar began, ms of a step by its rate (None: not shown)."""

    name: str
    done: int
    total: int
    elapsed_s: float | None
    step_ms: float | None


def bar_point(text: str) -> BarPoint | None:
    """The update that a piece of a line shows; None where it shows none."""
    found = TQDM.search(text) or PLAIN.search(text) or RICH.search(text)
    if found is None:
        return None
    _, done, total, elapsed, rate, unit = found.group("name", 2, 3, "elapsed", 5, 6)
    shown = number(rate) if rate else None
    step_ms = None if not shown or shown <= 0 else (shown * 1e3 if unit == "s/it" else 1e3 / shown)
    seconds = None
    if elapsed:
        seconds = number(elapsed[:-1]) if elapsed.endswith("s") else clock_s(elapsed)
    name = found["name"].strip() or (GENERATION if GENERATION in text else "")
    return BarPoint(name, int(done), int(total), seconds, step_ms)


@dataclass
class Bar:
    """The updates of one bar, epochs joined: steps done, seconds and ms of a step (-1 where not shown), lines."""

    name: str
    done: array[int] = field(default_factory=lambda: array("q"))
    elapsed_s: array[float] = field(default_factory=lambda: array("d"))
    step_ms: array[float] = field(default_factory=lambda: array("d"))
    line: array[int] = field(default_factory=lambda: array("q"))
    before: int = 0  # steps of the epochs before
    before_s: float = 0.0
    number: tuple[str, ...] = ()  # the digits of its name, such as the epoch's

    def add(self, point: BarPoint, line: int) -> None:
        """Append an update that counts on; those of no further step are left out."""
        done = self.before + point.done
        if (self.done and done <= self.done[-1]) or len(self.done) >= MOST_POINTS:
            return
        self.done.append(done)
        self.elapsed_s.append(-1.0 if point.elapsed_s is None else self.before_s + point.elapsed_s)
        self.step_ms.append(-1.0 if point.step_ms is None else point.step_ms)
        self.line.append(line)

    def next_epoch(self) -> None:
        """The following updates count from 0 and continue this bar."""
        self.before = self.done[-1] if self.done else 0
        self.before_s = max(self.elapsed_s, default=0.0)

    @property
    def seconds(self) -> float:
        """Time that it shows from its first to its last update; 0 where it shows none."""
        shown = [each for each in self.elapsed_s if each >= 0]
        return max(shown) - min(shown) if shown else 0.0


@dataclass(frozen=True, slots=True)
class BarRow:
    """So many steps up to ``step`` and the mean time of one."""

    step: int
    span: int
    wall_ms: float
    line: int


class Bars:
    """The bars of one stream of output."""

    def __init__(self) -> None:
        self.bars: list[Bar] = []
        self._open: dict[tuple[str, int], Bar] = {}

    def take(self, point: BarPoint, line: int) -> None:
        """Sort an update to its bar; a count that falls begins the next epoch, or another bar of that name."""
        kind, numbers = (DIGITS.sub("#", point.name), point.total), tuple(DIGITS.findall(point.name))
        bar = self._open.get(kind)
        if bar is not None and bar.done and bar.before + point.done < bar.done[-1]:
            if numbers != bar.number:
                bar.next_epoch()
            else:
                bar = None
        if bar is None:
            bar = self._open[kind] = Bar(point.name)
            self.bars.append(bar)
        bar.number = numbers
        bar.add(point, line)

    def training(self) -> list[Bar]:
        """Those that may count training steps, the longest first."""
        bars = [bar for bar in self.bars if len(bar.done) >= LEAST_POINTS and not OTHER.search(bar.name)]
        return sorted(bars, key=lambda bar: (-bar.seconds, -bar.done[-1], bar.line[0]))


def bar_rows(bar: Bar) -> tuple[list[BarRow], bool]:
    """The time of its steps, and whether that is a smoothed rate because the bar is too short for whole seconds."""
    if bar.seconds >= LEAST_WHOLE_S:
        return list(_by_clock(bar)), False
    updates = zip(bar.done, bar.step_ms, bar.line, strict=True)
    return [BarRow(done, 1, step_ms, line) for done, step_ms, line in updates if done and step_ms > 0], True


def _by_clock(bar: Bar) -> Iterator[BarRow]:
    done, began_s = -1, 0.0
    for now, elapsed_s, line in zip(bar.done, bar.elapsed_s, bar.line, strict=True):
        if elapsed_s < 0:
            continue
        if done < 0:
            done, began_s = now, elapsed_s
        elif elapsed_s - began_s >= LEAST_PART_S:
            yield BarRow(now, now - done, 1e3 * (elapsed_s - began_s) / (now - done), line)
            done, began_s = now, elapsed_s
