"""Figures of PyTorch's flight recorder: dumps, ranks that wait, and by how many calls a rank is behind."""

from __future__ import annotations

import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, metric
from tools.run.collective_records import CallState, FlightRecords
from tools.run.kinds import FLIGHT_FORMAT
from tools.views.collective_hang import Hang, find_hang
from tools.views.profile import Profile

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
    log = profile.run.job_log
    return hang(profile).timed_out or (log is not None and bool(log.timeouts))


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
