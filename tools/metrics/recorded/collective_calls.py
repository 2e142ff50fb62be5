"""Figures of PyTorch's flight recorder: dumps, ranks that wait, and by how many calls a rank is behind."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta

import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, metric
from tools.run.kinds import FLIGHT_FORMAT
from tools.run.recorded.collective_records import CallState, FlightGroup, FlightRecords
from tools.run.recorded.job_log import CollectiveTimeout
from tools.views.communication.collective_hang import Hang, find_hang
from tools.views.profile import Profile

EPOCH = datetime(1970, 1, 1)
TIME_ZONES = timedelta(hours=15)  # the clocks of two places differ by at most 14 hours from UTC
LONGEST = timedelta(days=366)  # of a wait that a line may state
NAME_PARTS = re.compile(r"[^a-z]|base$|coalesced$")
SHOWN = ["rank", "file", "row", "group", "sequence", "operation", "state"]


def flight_records(profile: Profile) -> FlightRecords:
    """The dumps of the flight recorder; UsageError where there are none."""
    found = profile.run.collectives
    if found is None or found.flight is None:
        raise UsageError("the run holds no dumps of PyTorch's flight recorder")
    return found.flight


def hang(profile: Profile) -> Hang:
    """What the dumps show together, found once."""
    return profile.memo("collective_hang", lambda: find_hang(flight_records(profile)))


def seen_to_last(profile: Profile) -> bool:
    """Whether something shows that a collective waited for as long as its time-out: a watchdog, or times in dumps."""
    return hang(profile).timed_out or any(map(_of_dumps(profile), _timeouts(profile)))


def other_timeouts(profile: Profile) -> bool:
    """Whether collectives timed out by the job's output, none of which waits in the dumps: it is of another hang."""
    timeouts = _timeouts(profile)
    return bool(timeouts) and not any(map(_of_dumps(profile), timeouts))


def _timeouts(profile: Profile) -> tuple[CollectiveTimeout, ...]:
    return () if profile.run.job_log is None else profile.run.job_log.timeouts


def _of_dumps(profile: Profile) -> Callable[[CollectiveTimeout], bool]:
    """Return whether a time-out is of a call that has not ended in the dumps: number, name, group and day agree."""
    records = flight_records(profile)
    calls = records.calls[~records.calls["p2p"] & (records.calls["state"] != CallState.COMPLETED)]

    def matches(timeout: CollectiveTimeout) -> bool:
        same = calls[calls["sequence"] == timeout.sequence]
        return any(
            _same_name(timeout.operation, str(operation))
            and _same_group(timeout, records.groups[int(group)])
            and _same_day(timeout, int(created_ns))
            for operation, group, created_ns in same[["operation", "group", "created_ns"]].itertuples(index=False)
        )

    return matches


def _same_name(by_watchdog: str, by_dump: str) -> bool:
    """``ALLREDUCE`` and ``all_reduce``; a barrier is an all-reduce, and the watchdog names a batch COALESCED."""
    one, other = (NAME_PARTS.sub("", name.lower()) for name in (by_watchdog, by_dump))
    return one.startswith(other) or other.startswith(one)


def _same_group(timeout: CollectiveTimeout, group: FlightGroup) -> bool:
    """Compared where the log names the group with its description: ``0(default_pg)``; a number may be of this rank."""
    name, described, description = timeout.group.partition("(")
    enqueued, completed = timeout.last_enqueued, timeout.last_completed
    if not described or enqueued is None or completed is None or not completed < timeout.sequence <= enqueued:
        return True
    return name == group.name or description.rstrip(")") == group.description


def _same_day(timeout: CollectiveTimeout, created_ns: int) -> bool:
    """The line was written when the call had waited for its limit, in whichever time zone."""
    if timeout.written is None:
        return True
    waited_ms = timeout.timeout_ms if timeout.ran_ms is None else timeout.ran_ms
    ended = EPOCH + timedelta(milliseconds=created_ns // 1_000_000) + min(timedelta(milliseconds=waited_ms), LONGEST)
    month, day, second = timeout.written
    for year in (ended.year - 1, ended.year, ended.year + 1):
        try:
            written = datetime(year, month, day) + timedelta(seconds=second)
        except ValueError:  # no such day in that year
            continue
        if abs(written - ended) <= TIME_ZONES:
            return True
    return False


@metric("dumps", "dumps of the flight recorder", "How many ranks left a dump of their collectives?")
def flight_dumps(profile: Profile) -> Measurement:
    """Dumps that were read, one of each rank."""
    records = flight_records(profile)
    rows = pd.DataFrame([{"rank": each.rank, "file": records.files[each.file]} for each in records.dumps])
    ranks = tuple(each.rank for each in records.dumps)
    return Measurement(float(len(ranks)), lambda: rows, "dumps by file", ranks, source=FLIGHT_FORMAT)


@metric("ranks", "ranks with an unfinished collective", "How many ranks wait in a collective?")
def waiting_ranks(profile: Profile) -> Measurement:
    """Ranks whose dump holds a call that has not ended."""
    waiting = hang(profile).waiting
    calls = flight_records(profile).calls
    own = calls[calls["rank"].isin(waiting) & (calls["state"] != CallState.COMPLETED)]
    return _of_calls(profile, float(len(waiting)), own, waiting)


@metric("collectives", "collectives that a rank has not called", "By how many collectives is a rank behind?")
def calls_behind(profile: Profile, rank: int) -> Measurement:
    """From the last call of the rank to the last of the ranks that wait for it, in the group of the first missing."""
    found = next((each for each in hang(profile).missing if each.rank == rank), None)
    if found is None:
        raise UsageError(f"by the dumps, no collective waits for a call of rank {rank}")
    calls = flight_records(profile).calls
    records = flight_records(profile)
    group = records.groups.index(found.first.group)
    own = calls[(calls["group"] == group) & (calls["sequence"] >= found.first.sequence)]
    return _of_calls(profile, float(found.behind), own, (rank,))


@metric("collectives", "collectives that ended for others and not for a rank", "How many did not end on a rank?")
def unconfirmed_calls(profile: Profile, rank: int) -> Measurement:
    """Calls of the rank that have not ended, of collectives that another rank of the group has finished."""
    found = next((each for each in hang(profile).stalled if each.rank == rank), None)
    if found is None:
        raise UsageError(f"by the dumps, every collective that ended for others ended on rank {rank}")
    calls = flight_records(profile).calls
    own = calls[(calls["rank"] == rank) & ~calls["p2p"] & (calls["state"] != CallState.COMPLETED)]
    return _of_calls(profile, float(found.unconfirmed), own, (rank,))


def _of_calls(profile: Profile, value: float, calls: pd.DataFrame, ranks: tuple[int, ...]) -> Measurement:
    """A figure from these calls, cited by file and place among its entries."""
    records = flight_records(profile)
    groups = [f"{each.name} {each.description}".strip() for each in records.groups]
    shown = calls.sort_values(["rank", "record"])[SHOWN].assign(
        file=lambda table: [records.files[at] for at in table["file"]],
        group=lambda table: [groups[at] for at in table["group"]],
        state=lambda table: [CallState(at).name.lower() for at in table["state"]],
    )
    files = sorted(set(shown["file"]))
    where = files[0] if len(files) == 1 else f"{len(files)} dumps"
    rows = shown["row"]
    if len(files) == 1 and len(rows):
        where += f", entries {int(rows.min())} to {int(rows.max())}"
    return Measurement(value, lambda: shown.reset_index(drop=True), where, ranks, source=FLIGHT_FORMAT)
