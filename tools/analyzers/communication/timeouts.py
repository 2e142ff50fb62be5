"""By PyTorch's watchdog in the job's output: which collectives timed out, on which ranks, and who is behind?"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tools.analyzers.support.answers import say, symptom
from tools.analyzers.support.spec import check
from tools.findings import Check, Sentence
from tools.metrics.registry import measure
from tools.run.recorded.job_log import CollectiveTimeout, JobLog, WatchdogStatus
from tools.views.profile import Profile

SHOWN_RANKS = 8
SHOWN_COLLECTIVES = 3
APART_MS = 1000.0  # watchdogs look every second or less often: smaller differences are theirs
EACH_OTHER = (
    "Collectives of several process groups wait at once: a rank that has not called one of them may wait in another."
    " Where each group needs a rank that waits in the other one, this is a deadlock: look whether all ranks call the"
    " collectives of these groups in the same order, and from one thread. The output does not state who belongs to"
    " which group."
)


@check(
    *(
        "communication.timeouts",
        "Collective time-outs",
        "Did a collective time out, and which rank is missing from it?",
    ),
    from_records="output",
)
def timeouts(profile: Profile) -> Check | None:
    """The ranks whose watchdog reported a collective, those that are behind, and those that reported none."""
    log = profile.run.job_log
    if log is None or not log.timeouts:
        return None
    kinds: dict[tuple[int, str], list[CollectiveTimeout]] = {}
    for each in sorted(log.timeouts, key=lambda each: (each.line, each.file)):
        kinds.setdefault((each.sequence, each.operation), []).append(each)
    ranks = [_waiting(log, same) for same in kinds.values()]
    (first, *others), (waiting, *more) = kinds.values(), ranks
    said = [_waited(profile, first, waiting, len(kinds) > 1)]
    different = set().union(*map(set, more)) - set(waiting) if more else set[int]()
    if different:
        said += _other_collectives(profile, first, others, more)
    behind = _behind(log)
    return symptom(*said, *behind, *_missing(profile, waiting, different, bool(behind)))


def _waited(profile: Profile, same: Sequence[CollectiveTimeout], ranks: Sequence[int], with_group: bool) -> Sentence:
    """Who waited in one collective, and for how long; its group only where several collectives timed out."""
    first = same[0]
    by_rank = [measure(profile, "timeout_wait_ms", rank=each.rank, sequence=each.sequence) for each in same]
    least, most = (pick(by_rank, key=lambda fact: fact.value) for pick in (min, max))
    apart = most.value - least.value >= APART_MS
    groups = {each.group for each in same} - {""}
    of_group = " of process group {n2}" if with_group and len(groups) == 1 else ""
    names = (first.operation, str(first.sequence), *(groups if of_group else ()))
    how_long = "{0} to {1}" if apart else "{0}"
    text = f"{_ranks(ranks)} waited {how_long} for {{n0}} (sequence number {{n1}}{of_group}), which timed out."
    return say(text, least, *([most] if apart else []), names=names)


def _waiting(log: JobLog, same: Sequence[CollectiveTimeout]) -> list[int]:
    """The ranks that reported one collective, and those whose watchdog names the same work of the same group."""
    groups, sequence = {each.group for each in same}, same[0].sequence
    others = {
        each.rank
        for each in log.statuses
        if each.at == sequence and each.group in groups and each.completed < sequence <= each.enqueued
    }
    return sorted({each.rank for each in same} | others)


def _other_collectives(
    profile: Profile,
    first: Sequence[CollectiveTimeout],
    others: Sequence[Sequence[CollectiveTimeout]],
    ranks: Sequence[Sequence[int]],
) -> list[Sentence]:
    """The other collectives that timed out, and what it means that the ranks wait in several.

    Sequence numbers count the collectives of one process group, so they are compared within a group alone.
    """
    said = [
        _waited(profile, each, own, True) for each, own in list(zip(others, ranks, strict=True))[:SHOWN_COLLECTIVES]
    ]
    if len(others) > SHOWN_COLLECTIVES:
        said.append(say(f"And {len(others) - SHOWN_COLLECTIVES} other collectives timed out."))
    groups = [{each.group for each in same} for same in (first, *others)]
    known = set().union(*groups)
    if "" in known:
        text = "These are collectives of different groups, or the ranks did not call the same ones."
    elif len(known) == 1:
        text = "These are collectives of the same group: the ranks did not call the same ones, or not as many."
    else:
        text = EACH_OTHER
    return [*said, say(text)]


def _behind(log: JobLog) -> list[Sentence]:
    """The ranks that by their watchdog had not enqueued the work that others of their group waited for."""
    wanted: dict[str, int] = {}
    for each in log.timeouts:
        if each.group:
            wanted[each.group] = min(each.sequence, wanted.get(each.group, each.sequence))
    late: dict[tuple[int, int], list[WatchdogStatus]] = {}
    for status in log.statuses:
        if 0 <= status.enqueued < wanted.get(status.group, 0):  # -1: no work of this group at all
            late.setdefault((status.enqueued, wanted[status.group]), []).append(status)
    said = []
    for (enqueued, sequence), statuses in list(late.items())[:SHOWN_COLLECTIVES]:
        ranks = sorted({each.rank for each in statuses})
        text = (
            f"{_ranks(ranks)} had enqueued works of this group up to number {enqueued} only, not {sequence}: look there"
            " first."
        )
        said.append(say(text))
    return said


def _missing(profile: Profile, waiting: Collection[int], others: Collection[int], behind: bool) -> list[Sentence]:
    """Who reported nothing at all, of the ranks that the output names and of those that the job has."""
    log = profile.run.job_log
    assert log is not None
    reported = {*waiting, *others, *(each.rank for each in log.statuses)}
    silent = sorted(set(log.ranks) - reported)
    said = []
    if silent and len(silent) < len(waiting) and not behind:
        said.append(say(f"{_ranks(silent)} reported none: look there first for what holds the others up."))
    world = log.whole("world_size") or profile.run.layout.world_size
    unseen = [] if world is None else sorted(set(range(world)) - reported - set(silent))
    if unseen:
        said.append(say(f"The log holds nothing of {_ranks(unseen).lower()}: read the output of all hosts."))
    return said


def _ranks(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"Rank {ranks[0]}"
    shown = ", ".join(str(rank) for rank in ranks[:SHOWN_RANKS])
    return f"Ranks {shown}" + (f" and {len(ranks) - SHOWN_RANKS} more" if len(ranks) > SHOWN_RANKS else "")
