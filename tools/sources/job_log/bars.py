"""Progress bars: tqdm, Lightning's and rich ones. They count steps, and show whole seconds and a smoothed rate."""

from __future__ import annotations

import re
from bisect import bisect_left

from tools.run.recorded.job_log import BarsApart
from tools.sources.job_log.bar import LEAST_POINTS, RESOLUTION_S, Bar, chained, joined
from tools.sources.job_log.bar_lines import EVALUATION, OF_STEPS, OTHER, SHORTEST_MS, BarPoint
from tools.sources.job_log.bar_work import (
    BEHIND_LINES,
    EVALUATED_SIZE,
    HEADING,
    LOSS,
    RUNS_TRAINING,
    Said,
    whole_s,
    work_of,
)

DIGITS = re.compile(r"\d+")
EPOCH_NUMBER = re.compile(r"\bep(?:och)?s?[ :#=\[]{0,3}(\d{1,9})", re.I)
HELD_SHARE = 2  # updates of a bar of steps for each evaluation between them
MOST_EVALUATED = 1 << 14
LIKE_EPOCH = 0.1  # of the time of an epoch by a profiler's table of the same text
APART_LINES = 2  # a bar that is drawn again stands in the same line or the next one
OUT_OF_STEP = 2  # steps: ranks of one job print the same step before or after each other


Kind = tuple[str, int]


def _kind(bar: Bar) -> Kind:
    return DIGITS.sub("#", bar.name), bar.total


class Bars:
    """The bars of one stream of output."""

    def __init__(self) -> None:
        self.bars: list[Bar] = []
        self.apart: BarsApart | None = None
        self.epoch_ms: float | None = None  # of an epoch of several batches, by a profiler's table of the same text
        self.trained = False  # other lines show that steps are trained
        self._ended_s: list[
            tuple[float, int, Kind | None]
        ] = []  # evaluations: seconds, line, and of which bar without a name
        self._heading = False  # a line that is the number of an epoch alone, and no bar since
        self._sizes: set[int] = set()  # of data to evaluate with, as lines state them
        self.again = 0  # places at which the epoch in the name begins again
        self._last: tuple[Bar, BarPoint, int] | None = None  # of the last update
        self._open: dict[tuple[str, int], Bar] = {}
        self._behind: dict[tuple[str, int], BarsApart] = {}  # a bar behind another, which has not moved on so far

    def take(self, point: BarPoint, line: int) -> None:
        """Sort an update to its bar; a count that falls begins the next epoch, or another bar of that name."""
        kind, numbers = (" ".join(DIGITS.sub("#", point.name).split()), point.total), tuple(DIGITS.findall(point.name))
        bar, again = self._open.get(kind), self.again
        epoch = EPOCH_NUMBER.search(point.name)
        if bar is not None and epoch and bar.epoch is not None and int(epoch[1]) < bar.epoch and _ended(bar, point):
            self.again += 1
            bar = None
        if bar is not None and point.done == 0 and _ended(bar, point) and numbers == bar.number:
            return  # the next epoch's or another process's: the first step shows it
        mixed = False
        if bar is not None and _ends_next(bar, point, line, numbers):
            bar.next_epoch()
        elif bar is not None and bar.done and bar.before + point.done < bar.done[-1]:
            if numbers != bar.number or _next_began(bar, point):
                bar.next_epoch()
            else:
                mixed = self._falls_behind(kind, _apart(bar, point, line))
                bar = None
        if bar is None:
            bar = self._open[kind] = Bar(point.name, point.total, mixed=mixed, again=self.again > again)
            self.bars.append(bar)
        bar.trained += self._heading
        self._heading = False
        bar.held += self._held(bar)
        bar.since = line if len(bar.done) == 0 or bar.done[-1] == bar.before else bar.since
        bar.number = numbers
        bar.epoch = int(epoch[1]) if epoch else None
        bar.add(point, line)
        self._last = (bar, point, line)
        if EVALUATION.search(point.name) and point.done == point.total:
            self._evaluation(point, line, None)
        elif point.behind:
            postfix, _, behind = point.behind.partition("]")
            bar.losses |= LOSS.search(postfix) is not None
            self.said(behind, line)

    def _held(self, bar: Bar) -> bool:
        """Whether another bar began and ended since the bar's last update."""
        if self._last is None or self._last[0] is bar or not bar.done:
            return False
        other, point, _ = self._last
        return point.done == point.total and bar.done[-1] > bar.before and other.since >= bar.line[-1]

    def said(self, text: str, line: int) -> None:
        """Read a line behind an update, which may say what the bar was of; the first that says so counts."""
        self.trained |= RUNS_TRAINING in text
        self._heading |= HEADING.match(text) is not None
        if (size := EVALUATED_SIZE.search(text)) is not None:
            self._sizes.add(int(size[1]))
        if self._last is None:
            return
        bar, point, at = self._last
        said = work_of(text) if line - at <= BEHIND_LINES else Said()
        if line - at > BEHIND_LINES or said.training or said.evaluation:
            self._last = None
        if said.training:
            bar.trained += 1
        elif said.evaluation and point.done == point.total:
            bar.validated += 1
            bar.said_line = bar.said_line or line
            self._evaluation(point, at, _kind(bar))

    def _evaluation(self, point: BarPoint, line: int, kind: Kind | None) -> None:
        """Keep the time of an evaluation that a finished bar counts; of a bar that is drawn again at its end the last
        one, which shows the mean rate and not that of the last updates."""
        seconds = (
            None if point.elapsed_s is None else whole_s(point.done, point.elapsed_s, point.step_ms or 0.0, point.exact)
        )
        drawn = bool(self._ended_s) and line - self._ended_s[-1][1] <= 1
        if seconds and drawn:
            self._ended_s[-1] = (seconds, *self._ended_s[-1][1:])
        elif seconds and len(self._ended_s) < MOST_EVALUATED:
            self._ended_s.append((seconds, line, kind))

    def _falls_behind(self, kind: tuple[str, int], found: BarsApart | None) -> bool:
        """Whether the update is of a process behind another; both are there if the one ahead moves on after it."""
        if found is None:
            return False
        first = self._behind.setdefault(kind, found)
        if self.apart is None and found.ahead > first.ahead:
            self.apart = first
        return True

    def training(self, least: int = LEAST_POINTS) -> list[Bar]:
        """Those of so many updates that may count training steps, the longest first."""
        bars = [bar for bar in self._together() if len(bar.done) >= least and not OTHER.search(bar.name)]
        bars = [bar for bar in bars if not (_of_items(bar) or self.counts_epochs(bar) or bar.holds_passes)]
        bars = [bar for bar in bars if len(bar.done) >= LEAST_POINTS or self._may_train(bar)]
        bars = [bar for bar in bars if not (self._validates(bar) or self._unknown(bar))]
        evident = [bar for bar in bars if self.evident(bar)]
        if not evident and len({_kind(bar) for bar in bars}) > 1:
            return []
        bars = evident or bars
        return sorted(bars, key=lambda bar: (-bar.seconds, -bar.done[-1], bar.line[0]))

    def evident(self, bar: Bar) -> bool:
        """Whether something shows that the bar counts training steps: its name, what is printed behind it, or that
        another bar, as of an evaluation, is drawn between a few of its updates."""
        named = OF_STEPS.search(bar.name) is not None or LOSS.search(bar.name) is not None
        shown = self.trained or bar.losses or bar.trained > 0 or 0 < HELD_SHARE * bar.held < len(bar.done)
        return named or shown or (bar.mixed and any(each.trained for each in self.bars))

    def _validated(self, bar: Bar) -> bool:
        """Whether the lines behind bars of that name and total name an evaluation, and none the training."""
        own = [each for each in self.bars if _kind(each) == _kind(bar)]
        return not OF_STEPS.search(bar.name) and sum(each.validated for each in own) > sum(each.trained for each in own)

    def _validates(self, bar: Bar) -> bool:
        """Whether these bars are of evaluations: others stand next to them, or a line states so many items of these. A
        bar that is the only one may as well be of the training, behind which an evaluation without a bar is printed."""
        others = any(_kind(each) != _kind(bar) and not OTHER.search(each.name) for each in self.bars)
        return self._validated(bar) and (others or bar.total in self._sizes)

    def of_evaluation(self) -> Bar | None:
        """A bar without a name whose evaluation the lines behind it show; None where none is."""
        return next((bar for bar in self.bars if bar.validated and self._validates(bar)), None)

    @property
    def evaluated(self) -> list[tuple[float, int]]:
        """Seconds and lines of the bars that ended an evaluation."""
        kinds = {_kind(bar) for bar in self.bars if bar.validated and self._validates(bar)}
        return [(seconds, line) for seconds, line, kind in self._ended_s if kind is None or kind in kinds]

    def of_unknown(self) -> Bar | None:
        """A bar that is the only one, and of the training or of an evaluation; None where none is."""
        return next((bar for bar in self.bars if bar.validated and self._unknown(bar)), None)

    def _unknown(self, bar: Bar) -> bool:
        return self._validated(bar) and not self._validates(bar) and not self.evident(bar)

    def unnamed(self) -> list[Bar]:
        """Bars of several totals of which nothing shows which one counts training steps, one of each."""
        bars = [bar for bar in self._together() if len(bar.done) >= LEAST_POINTS and not OTHER.search(bar.name)]
        bars = [bar for bar in bars if not (_of_items(bar) or self.counts_epochs(bar) or bar.holds_passes)]
        bars = [bar for bar in bars if not (self._validates(bar) or self._unknown(bar))]
        kinds = {_kind(bar): bar for bar in reversed(bars)}
        if len(kinds) == 1 or any(map(self.evident, bars)):
            return []
        return sorted(kinds.values(), key=lambda bar: bar.line[0])

    def counts_epochs(self, bar: Bar) -> bool:
        """Whether its items are epochs: its name counts on with it, or a profiler's table states such a time of one."""
        if bar.named_epochs and bar.done:
            return True
        shown = [each for each in bar.step_ms if each > 0]
        if self.epoch_ms is None or not shown:
            return False
        return all(abs(each - self.epoch_ms) <= LIKE_EPOCH * self.epoch_ms for each in shown)

    def of_epochs(self) -> Bar | None:
        """A bar that counts epochs; None where none does."""
        return next((bar for bar in self.bars if not OTHER.search(bar.name) and self.counts_epochs(bar)), None)

    def too_short(self) -> Bar | None:
        """A bar whose items are too short for training steps; None where none is."""
        return next((bar for bar in self.bars if not OTHER.search(bar.name) and _of_items(bar)), None)

    def _together(self) -> list[Bar]:
        """The bars; those of one name and total of which updates are of several processes as one, each step once."""
        kinds: dict[tuple[str, int], list[Bar]] = {}
        for bar in self.bars:
            kinds.setdefault((DIGITS.sub("#", bar.name), bar.total), []).append(bar)
        mixed = {kind: own for kind, own in kinds.items() if any(bar.mixed for bar in own)}
        others = [bar for kind, own in kinds.items() if kind not in mixed for bar in chained(own)]
        return [*others, *(joined(own) for own in mixed.values())]

    def _may_train(self, bar: Bar) -> bool:
        """Whether a bar of one update counts steps: by its name, or without one where steps are trained."""
        return bool(OF_STEPS.search(bar.name)) or (self.trained and not bar.name)


def _of_items(bar: Bar) -> bool:
    """Whether every rate that the bar shows is of items too short for training steps."""
    shown = [each for each in bar.step_ms if each > 0]
    return bool(shown) and max(shown) < SHORTEST_MS


def _ends_next(bar: Bar, point: BarPoint, line: int, numbers: tuple[str, ...]) -> bool:
    """Whether a finished bar is the end of another epoch, of which no other update is there, and not drawn again: it
    stands further down, or shows another time next to other numbers in its name."""
    done = bar.done[-1] - bar.before if bar.done else -1
    if not (bar.mostly_ends and point.done == point.total == done):
        return False
    return line - bar.line[-1] >= APART_LINES or (numbers != bar.number and not _same_time(bar, point))


def _ended(bar: Bar, point: BarPoint) -> bool:
    """Whether the bar stands at its total."""
    return bool(bar.done) and bar.done[-1] - bar.before == point.total


def _next_began(bar: Bar, point: BarPoint) -> bool:
    """Whether the update is of the next epoch of a bar that stands at its total, and not of another process: neither
    one or two steps behind it after the same time, nor as late as the bar itself at that step."""
    if not _ended(bar, point) or (point.total - point.done <= OUT_OF_STEP and _same_time(bar, point)):
        return False
    row = bisect_left(bar.done, bar.before + point.done)
    if bar.done[row] != bar.before + point.done or point.elapsed_s is None:
        return True
    return abs(bar.elapsed_s[row] - bar.before_s - point.elapsed_s) > RESOLUTION_S


def _same_time(bar: Bar, point: BarPoint) -> bool:
    """Whether the update shows the time of the bar's last one, as far as whole seconds show it."""
    elapsed_s = bar.elapsed_s[-1] - bar.before_s
    return point.elapsed_s is not None and elapsed_s > 0 and abs(point.elapsed_s - elapsed_s) <= RESOLUTION_S


def _apart(bar: Bar, point: BarPoint, line: int) -> BarsApart | None:
    """Two processes that are not at the same step: fewer steps after the same time, by more than whole seconds hide."""
    ahead, behind = bar.done[-1] - bar.before, bar.done[-1] - bar.before - point.done
    if point.step_ms is None or not _same_time(bar, point) or point.done < 1 or behind < OUT_OF_STEP:
        return None
    if behind * point.step_ms <= 2e3 * RESOLUTION_S:
        return None
    return BarsApart(ahead, bar.line[-1], point.done, line, bar.elapsed_s[-1] - bar.before_s)
