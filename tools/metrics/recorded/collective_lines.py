"""Figures of NCCL Inspector and NCCL RAS: who enters last, bandwidth against peers, counts of collectives."""

from __future__ import annotations

import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, choice, metric
from tools.run.kinds import INSPECTOR_FORMAT, RAS_FORMAT
from tools.run.recorded.collective_records import InspectorRecords, RasRecords
from tools.views.communication.collective_bandwidth import LastRank, SlowCommunicator, last_ranks, slow_communicators
from tools.views.communication.collective_counts import RankCounts, rank_counts
from tools.views.profile import Profile

SHOWN = ["rank", "member", "host", "operation", "sequence", "bytes", "time_us", "busbw_gb_per_s", "file", "line"]


def inspector_records(profile: Profile) -> InspectorRecords:
    """The lines of NCCL Inspector; UsageError where there are none."""
    found = profile.run.collectives
    if found is None or found.inspector is None:
        raise UsageError("the run holds no output of NCCL Inspector")
    return found.inspector


def ras_records(profile: Profile) -> RasRecords:
    """The answers of NCCL RAS; UsageError where there are none."""
    found = profile.run.collectives
    if found is None or found.ras is None:
        raise UsageError("the run holds no answer of NCCL RAS")
    return found.ras


def inspector_last(profile: Profile) -> tuple[LastRank, ...]:
    """Of each communicator the rank that enters last most often, found once."""
    return profile.memo("inspector_last", lambda: last_ranks(inspector_records(profile)))


def inspector_slow(profile: Profile) -> tuple[SlowCommunicator, ...]:
    """Communicators against their peers, slowest first, found once."""
    return profile.memo("inspector_slow", lambda: slow_communicators(inspector_records(profile)))


@metric("collectives", "collectives recorded by NCCL Inspector", "How many collectives did NCCL Inspector record?")
def inspector_collectives(profile: Profile) -> Measurement:
    """Collectives of all communicators; one that several ranks recorded counts once."""
    table = inspector_records(profile).collectives
    distinct = table.drop_duplicates(["communicator", "operation", "sequence"])
    return _of_lines(profile, float(len(distinct)), distinct)


@metric("%", "collectives that its last rank enters last", "How often does one rank enter the collectives last?")
def last_rank_pct(profile: Profile, group: str) -> Measurement:
    """Share of a communicator's collectives with the least time on the rank that has it most often."""
    return _of_communicator(profile, group, _last(profile, group).last_pct)


@metric("ms", "wait of the others per collective", "How long do the other ranks wait for the last one?")
def last_rank_wait_ms(profile: Profile, group: str) -> Measurement:
    """Mean of what a collective takes longer on the others than on the rank that enters last."""
    return _of_communicator(profile, group, _last(profile, group).wait_us / 1e3)


@metric("ms", "time of a collective on the ranks that wait", "How long is a collective on the ranks that wait?")
def last_rank_time_ms(profile: Profile, group: str) -> Measurement:
    """Mean over the ranks of a communicator other than the one that enters last, in the collectives where it does."""
    return _of_communicator(profile, group, _last(profile, group).time_us / 1e3)


@metric("GB/s", "bus bandwidth of {of}", "How fast does a communicator move data, next to its peers?")
def communicator_busbw(profile: Profile, group: str, of: str = "the communicator") -> Measurement:
    """Median bus bandwidth on the last rank; ``of`` "its peers": the median of communicators of the same shape."""
    choice("of", of, ("the communicator", "its peers"))
    found = next((each for each in inspector_slow(profile) if each.communicator == group), None)
    if found is None:
        raise UsageError(f"communicator {group} has no peers of the same operation, size and number of ranks")
    value = found.busbw_gb_per_s if of == "the communicator" else found.peers_gb_per_s
    table = inspector_records(profile).collectives
    same = table[(table["operation"] == found.operation) & (table["bytes"] == found.bytes)]
    own = same["communicator"] == group
    return _of_lines(profile, value, same[own if of == "the communicator" else ~own])


def _last(profile: Profile, group: str) -> LastRank:
    found = next((each for each in inspector_last(profile) if each.communicator == group), None)
    if found is None:
        raise UsageError(f"too few collectives of communicator {group} were recorded by all of its ranks")
    return found


def _of_communicator(profile: Profile, group: str, value: float) -> Measurement:
    table = inspector_records(profile).collectives
    return _of_lines(profile, value, table[table["communicator"] == group])


def _of_lines(profile: Profile, value: float, rows: pd.DataFrame) -> Measurement:
    """A figure from these lines, cited by file."""
    files = inspector_records(profile).files
    names = [files[int(at)] for at in sorted(rows["file"].unique())]
    where = f"{len(names)} files" if len(names) != 1 else names[0]
    if len(names) == 1:
        where += f", lines {int(rows['line'].min())} to {int(rows['line'].max())}"
    ranks = tuple(sorted({int(rank) for rank in rows["rank"] if rank >= 0}))

    def shown() -> pd.DataFrame:
        return rows[SHOWN].assign(file=[files[int(at)] for at in rows["file"]]).reset_index(drop=True)

    return Measurement(value, shown, where, ranks, source=INSPECTOR_FORMAT)


def ras_counts(profile: Profile) -> tuple[RankCounts, ...]:
    """Ranks that are behind in an answer of NCCL RAS, found once."""
    return profile.memo("ras_counts", lambda: rank_counts(ras_records(profile)))


@metric("collectives", "collectives that a rank is behind by NCCL RAS", "By how many collectives is a rank behind?")
def ras_calls_behind(profile: Profile, rank: int) -> Measurement:
    """Operations of one communicator: the most of any rank less those of this one, in the last answer."""
    found = next((each for each in ras_counts(profile) if each.known and each.rank == rank), None)
    if found is None:
        raise UsageError(f"by NCCL RAS, rank {rank} is not behind")
    rows = pd.DataFrame([{"rank": rank, "host": found.host, "communicator": found.communicator, "of": found.kind}])
    selector = ras_records(profile).files[found.file]
    return Measurement(float(found.behind), lambda: rows, selector, (rank,), source=RAS_FORMAT)


@metric("ranks", "ranks that NCCL RAS lacks", "How many ranks do not answer NCCL RAS?")
def ras_missing_ranks(profile: Profile) -> Measurement:
    """Distinct processes that are missing from a communicator in the last answer."""
    records = ras_records(profile)
    last = [each for each in records.communicators if each.sample == records.samples - 1]
    found = {(each.host, each.pid): each for known in last for each in known.missing}
    rows = pd.DataFrame(
        [
            {
                "rank": each.rank,
                "host": each.host,
                "pid": each.pid,
                "unresponsive": each.unresponsive,
                "dead": each.dead,
            }
            for each in found.values()
        ]
    )
    files = sorted({records.files[each.file] for each in last})
    return Measurement(float(len(found)), lambda: rows, ", ".join(files[:1]), (), source=RAS_FORMAT)
