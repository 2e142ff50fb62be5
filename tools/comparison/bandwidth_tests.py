"""What changed from one output of nccl-tests to another: bus bandwidth of each message size, the time of small ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from tools.analyzers.communication.library_log import SHOWS_BANDWIDTH
from tools.comparison.comparability import OTHER_LAYOUT, Comparability, refuse
from tools.findings import Fact, Sentence
from tools.metrics.registry import measure
from tools.run.recorded.job_log import NO_HEAD
from tools.views.profile import Profile

PLACES = {0: "out of place", 1: "in place"}
OTHER_FACTOR_PCT = 2.0  # of bus over algorithm bandwidth, which has two decimals: beyond it other ranks or collective
SHOWN = 8
KEYS = ["in_place", "size_bytes"]
ONE_RUN = "One run of nccl-tests shows no noise of its own: repeat both runs before a small change counts."


@dataclass(frozen=True)
class ComparedTests:
    """The time of the largest common message in both, the sentences, and how far both tests are alike."""

    before: Fact
    after: Fact
    headline: Sentence
    changes: tuple[Sentence, ...]
    comparability: Comparability
    notes: tuple[str, ...]


def tests_compared(a: Profile, b: Profile) -> ComparedTests | None:
    """The rows of the sizes that both tested; None where one of the runs has none, or both have steps.

    NotComparableError where they test other collectives or no common size.
    """
    logs = [each.run.job_log for each in (a, b)]
    tables = [log.comm_tests for log in logs if log is not None and not log.comm_tests.empty]
    if len(tables) < len(logs):
        return None
    if a.series is not None and b.series is not None:
        return None
    kinds = [_kinds(each) for each in tables]
    if max(map(len, kinds)) > 1:
        refuse(["one of them holds tests of several collectives; give a file of each"])
    if kinds[0] and kinds[1] and kinds[0] != kinds[1]:
        refuse([f"they test other collectives ({', '.join(kinds[0])}; {', '.join(kinds[1])})"])
    rows = (
        tables[0]
        .groupby(KEYS)
        .mean(numeric_only=True)
        .join(tables[1].groupby(KEYS).mean(numeric_only=True), how="inner", lsuffix="_a", rsuffix="_b")
    )
    if rows.empty:
        refuse(["no message size was tested by both"])
    place, size = max(rows.index, key=lambda each: (each[1], not each[0]))
    at = {"size_bytes": int(size), "in_place": int(place)}
    times = [measure(each, "library_time_ms", **at) for each in (a, b)]
    figures = [measure(each, "library_bandwidth_at", **at) for each in (a, b)]
    text = f"In nccl-tests the bus bandwidth at {size} bytes ({PLACES[int(place)]}), the largest size of both,"
    return ComparedTests(
        before=times[0],
        after=times[1],
        headline=_moved(text, figures, a.thresholds["bandwidth_test_noise_pct"]),
        changes=_changes(a, b, rows),
        comparability=_alike(rows.loc[(place, size)], kinds),
        notes=(ONE_RUN,),
    )


def _kinds(table: pd.DataFrame) -> tuple[str, ...]:
    return tuple(sorted({str(each) for each in table["kind"]} - {NO_HEAD, ""}))


def _moved(text: str, figures: Sequence[Fact], noise_pct: float) -> Sentence:
    before, after = figures
    if abs(_change_pct(before.value, after.value)) < noise_pct:
        alike = f"they differ by less than {noise_pct:g} %, as two runs of one test may"
        return Sentence(f"{text} is {{0}} before and {{1}} now: {alike}.", (before, after))
    return Sentence(f"{text} {'rose' if after.value > before.value else 'fell'} from {{0}} to {{1}}.", (before, after))


def _changes(a: Profile, b: Profile, rows: pd.DataFrame) -> tuple[Sentence, ...]:
    """How many sizes changed, then the sizes: those of large messages by bandwidth, those of small ones by time."""
    noise_pct = a.thresholds["bandwidth_test_noise_pct"]
    moved: list[tuple[float, Sentence]] = []
    for place, size in rows.index:
        by_time = int(size) < SHOWS_BANDWIDTH
        name = "time_us" if by_time else "busbw_gb_per_s"
        row = rows.loc[(place, size)]
        change_pct = _change_pct(float(row[f"{name}_a"]), float(row[f"{name}_b"]))
        if abs(change_pct) >= noise_pct:
            metric = "library_time_ms" if by_time else "library_bandwidth_at"
            own = {"size_bytes": int(size), "in_place": int(place)}
            figures = [measure(each, metric, **own) for each in (a, b)]
            text = f"{size} bytes, {PLACES[int(place)]}: {'time' if by_time else 'bus bandwidth'}"
            moved.append((change_pct, _moved(text, figures, noise_pct)))
    of = f"{len(rows)} rows that both have (size and placement)"
    if not moved:
        return (Sentence(f"None of the {of} changed by {noise_pct:g} % or more."),)
    moved.sort(key=lambda each: -abs(each[0]))
    rest = [Sentence(f"And {len(moved) - SHOWN} more rows changed.")] if len(moved) > SHOWN else []
    counted = Sentence(f"{len(moved)} of the {of} changed by {noise_pct:g} % or more.")
    return (counted, *(said for _, said in moved[:SHOWN]), *rest)


def _change_pct(before: float, after: float) -> float:
    return 100.0 * (after / before - 1.0) if before > 0 else 0.0


def _alike(row: pd.Series[float], kinds: Sequence[tuple[str, ...]]) -> Comparability:
    """Reasons against: a collective that is not stated, and another factor of the bus bandwidth."""
    reasons = [] if kinds[0] and kinds[1] else ["not stated by both: the collective"]
    factors = [float(row[f"busbw_gb_per_s_{each}"] / max(row[f"algbw_gb_per_s_{each}"], 1e-9)) for each in "ab"]
    other = abs(_change_pct(*factors)) > OTHER_FACTOR_PCT
    if other:
        what = "the tests ran on other numbers of ranks, or test other collectives"
        reasons.append(f"bus over algorithm bandwidth is {factors[0]:.2f} and {factors[1]:.2f}: {what}")
    reasons.append("not stated by both: the devices")
    return Comparability(OTHER_LAYOUT if other else 1.0, tuple(reasons))
