"""One progress bar: its updates, passes joined."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from tools.sources.job_log.bar_lines import NO_TOTAL, BarPoint

LOGGED_PARTS = 20.0  # updates: the moment at which a rounded count changes is known to one of them
WITHIN_EPOCH = re.compile(r"step|iter|batch|\d", re.I)  # "Epoch 3": what it counts are no epochs
# A name that moves on with the bar: "Epoch 9/10" of a bar that has done 8 or 9 of 10.
NAMED_EPOCH = re.compile(r"\bepochs?:?\s{0,3}\[?(\d{1,9})\s?/\s?(\d{1,9})", re.I)
RESOLUTION_S = 1.0
LEAST_PART_S = 20.0  # whole seconds are exact to 5 % of it: updates are joined until so much time has passed
MOST_POINTS = 1 << 20
LEAST_POINTS = 2
LEAST_ENDS = 2  # of epochs, before more of them are expected

SAME_SECONDS = (
    "{} progress bars of {} items show the same seconds throughout, as epochs or as processes: one (line {}) is used"
)


@dataclass(frozen=True, slots=True)
class Pass:
    """Rows ``first`` to ``end`` of a bar, the steps and seconds before it, and whether it reached its total."""

    first: int
    end: int
    before: int
    before_s: float
    finished: bool


@dataclass
class Bar:
    """The updates of one bar, epochs joined: steps done, seconds and ms of a step (-1 where not shown), lines."""

    name: str
    total: int = 0
    done: array[int] = field(default_factory=lambda: array("q"))
    elapsed_s: array[float] = field(default_factory=lambda: array("d"))
    step_ms: array[float] = field(default_factory=lambda: array("d"))
    line: array[int] = field(default_factory=lambda: array("q"))
    before: int = 0  # steps of the epochs before
    before_s: float = 0.0
    number: tuple[str, ...] = ()  # the digits of its name, such as the epoch's
    whole: bool = True  # each of its updates ends an epoch, so that its time is that of all its steps
    named_epochs: bool = True  # its name counts on with it to the same total: its items are epochs
    ends: int = 0  # updates that end an epoch
    mixed: bool = False  # updates of processes at different steps: the time between two is of neither
    since: int = 0  # the line at which this epoch began
    held: int = 0  # times that another bar began and ended between two of its updates
    losses: bool = False  # it shows the loss behind its rate
    trained: int = 0  # lines behind it that show it is of the training
    validated: int = 0  # of an evaluation
    said_line: int = 0  # the first of these
    epoch: int | None = None  # by its name
    copies: int = 0  # bars that show the same seconds throughout, and are not counted
    again: bool = False  # the epoch in its name fell: it is of another training
    shown_s: array[float] = field(default_factory=lambda: array("d"))  # of all updates with rounded counts
    begins: list[int] = field(default_factory=list)  # the first row of each pass but the first
    means: set[int] = field(default_factory=set)  # rows of ends that are drawn again: then the rate is that of the pass

    def add(self, point: BarPoint, line: int) -> None:
        """Append an update that counts on; those of no further step are left out."""
        done = self.before + point.done
        if point.rounded and point.elapsed_s is not None and len(self.shown_s) < MOST_POINTS:
            self.shown_s.append(point.elapsed_s)
        if self.done and done == self.done[-1] and 0 < point.done == point.total and point.step_ms is not None:
            self.step_ms[-1] = point.step_ms
            self.means.add(len(self.done) - 1)
        if (self.done and done <= self.done[-1]) or len(self.done) >= MOST_POINTS:
            return
        self.whole &= point.done == point.total
        self.named_epochs &= _names_its_count(point)
        self.ends += point.done == point.total
        self.done.append(done)
        self.elapsed_s.append(-1.0 if point.elapsed_s is None else self.before_s + point.elapsed_s)
        self.step_ms.append(-1.0 if point.step_ms is None else point.step_ms)
        self.line.append(line)

    def next_epoch(self) -> None:
        """The following updates count from 0 and continue this bar."""
        self.before = self.done[-1] if self.done else 0
        self.before_s = max(self.elapsed_s, default=0.0)
        self.begins.append(len(self.done))

    @property
    def passes(self) -> list[Pass]:
        """The rows of each epoch."""
        found, before, before_s = [], 0, 0.0
        for first, end in pairwise((0, *self.begins, len(self.done))):
            if end > first:
                ended = self.done[end - 1] - before == self.total or (self.total == NO_TOTAL and end < len(self.done))
                found.append(Pass(first, end, before, before_s, ended))
                before, before_s = self.done[end - 1], max(before_s, *self.elapsed_s[first:end])
        return found

    @property
    def notes(self) -> tuple[str, ...]:
        return (SAME_SECONDS.format(self.copies + 1, self.total, self.line[0]),) if self.copies else ()

    @property
    def mostly_ends(self) -> bool:
        """Whether its updates are the ends of epochs, and hardly others between: some show the begin of the next."""
        return self.whole or (self.ends >= LEAST_ENDS and 2 * self.ends > len(self.done))

    @property
    def holds_passes(self) -> bool:
        """Whether another bar is drawn from its begin to its end at nearly each of its updates: epochs or the like."""
        return self.held >= LEAST_POINTS and len(self.done) <= self.held + 2  # with its begin

    @property
    def of_job(self) -> int:
        """What it counts to where that may be the epochs of the job; 0 where it counts steps or counts again."""
        return 0 if self.before or self.copies or WITHIN_EPOCH.search(self.name) else self.total

    @property
    def part_s(self) -> float:
        """The time that two updates must be apart, so that the time of a step between them is exact to 5 %."""
        gaps = [after - before for before, after in pairwise(self.shown_s) if after > before]
        return max(LEAST_PART_S, LOGGED_PARTS * median(gaps)) if gaps else LEAST_PART_S

    @property
    def seconds(self) -> float:
        """Time that it shows from its first to its last update; 0 where it shows none."""
        shown = [each for each in self.elapsed_s if each >= 0]
        return max(shown) - min(shown) if shown else 0.0


def _names_its_count(point: BarPoint) -> bool:
    named = NAMED_EPOCH.search(point.name)
    return named is not None and int(named[2]) == point.total and point.done in (int(named[1]) - 1, int(named[1]))


def joined(bars: list[Bar]) -> Bar:
    """The updates of several bars by the steps done, of a step the first."""
    whole = Bar(bars[0].name, bars[0].total, named_epochs=all(bar.named_epochs for bar in bars), mixed=True)
    updates = (each for bar in bars for each in zip(bar.done, bar.line, bar.elapsed_s, bar.step_ms, strict=True))
    for done, line, elapsed_s, step_ms in sorted(updates):
        if not whole.done or done > whole.done[-1]:
            whole.done.append(done)
            whole.line.append(line)
            whole.elapsed_s.append(elapsed_s)
            whole.step_ms.append(step_ms)
    return whole


def chained(bars: Sequence[Bar]) -> list[Bar]:
    """Bars of one name and total of which each begins behind the end of another as one; those that show the same times
    throughout are drawn by several processes, and count once."""
    found: list[Bar] = []
    last: Pass | None = None
    same = all(_copies(*pair) for pair in pairwise(bars) if all(each.passes for each in pair))
    for before, bar in pairwise((None, *bars)):
        assert bar is not None
        if before is None or last is None or not last.finished or not bar.passes or bar.again:
            found.append(deepcopy(bar))
        elif not same:
            _append(found[-1], bar)
        else:
            found[-1].copies += 1
        last = bar.passes[-1] if bar.passes else None
    return found


def _copies(one: Bar, other: Bar) -> bool:
    """Whether both end after the same time, as bars of processes of one job do."""
    last, first = one.passes[-1], other.passes[0]
    at_s = [one.elapsed_s[last.end - 1] - last.before_s, other.elapsed_s[first.end - 1]]
    return not first.finished or abs(at_s[0] - at_s[1]) <= 2 * RESOLUTION_S


def _append(bar: Bar, other: Bar) -> None:
    """Count on with the passes of another bar."""
    bar.next_epoch()
    rows, done, seconds = len(bar.done), bar.before, bar.before_s
    bar.begins += [rows + each for each in other.begins]
    bar.means |= {rows + each for each in other.means}
    bar.done.extend(done + each for each in other.done)
    bar.elapsed_s.extend(each if each < 0 else seconds + each for each in other.elapsed_s)
    bar.step_ms.extend(other.step_ms)
    bar.line.extend(other.line)
    bar.whole, bar.ends = bar.whole and other.whole, bar.ends + other.ends
    bar.losses, bar.trained, bar.held = bar.losses or other.losses, bar.trained + other.trained, bar.held + other.held
    bar.validated += other.validated
    bar.before, bar.before_s = done + other.before, seconds + other.before_s
