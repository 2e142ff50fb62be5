"""When each thing happens in a plan, a replay or a what-if: the bars of a Gantt picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest


@dataclass(frozen=True)
class Bar:
    """A stretch of time on one lane (a stream, a link, a stage); ``kind`` gives the colour."""

    lane: str
    name: str
    kind: str
    start_ms: float
    end_ms: float
    group: str = ""  # "present", "planned": the same lanes, once for each

    @property
    def lasting_ms(self) -> float:
        """From start to end."""
        return self.end_ms - self.start_ms


@dataclass(frozen=True)
class Timeline:
    """All bars of a picture and its title; ``left_out`` bars are in none of the lanes."""

    title: str
    bars: tuple[Bar, ...]
    left_out: int = 0

    @property
    def lanes(self) -> tuple[tuple[str, str], ...]:
        """Lanes with their groups, in order of appearance; those of one name next to each other."""
        names = list(dict.fromkeys(each.lane for each in self.bars))
        groups = list(dict.fromkeys(each.group for each in self.bars))
        known = {(each.lane, each.group) for each in self.bars}
        return tuple((lane, group) for lane in names for group in groups if (lane, group) in known)


def bounded(timeline: Timeline, most_bars: int, most_lanes: int | None = None) -> Timeline:
    """The busiest lanes (each in all its groups) and the longest bars, in their order."""
    bars: Sequence[Bar] = timeline.bars
    if most_lanes is not None and len(timeline.lanes) > most_lanes:
        groups = len({each.group for each in bars})
        busy = dict.fromkeys((each.lane for each in bars), 0.0)
        for each in bars:
            busy[each.lane] += each.lasting_ms
        kept = set(nlargest(max(most_lanes // groups, 1), busy, key=lambda lane: busy[lane]))
        bars = [each for each in bars if each.lane in kept]
    if len(bars) > most_bars:
        longest = nlargest(most_bars, range(len(bars)), key=lambda place: bars[place].lasting_ms)
        bars = [bars[place] for place in sorted(longest)]
    return replace(timeline, bars=tuple(bars), left_out=timeline.left_out + len(timeline.bars) - len(bars))


def one_after_another(
    lane: str, parts: Iterable[tuple[str, str, float]], start_ms: float = 0.0, group: str = ""
) -> list[Bar]:
    """Bars of one lane without gaps, from (name, kind, ms)."""
    bars = list[Bar]()
    for name, kind, ms in parts:
        bars.append(Bar(lane, name, kind, start_ms, start_ms + ms, group))
        start_ms += ms
    return bars
