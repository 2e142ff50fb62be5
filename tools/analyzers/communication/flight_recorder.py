"""By the dumps of PyTorch's flight recorder: which rank holds up the others, and do all call the same collectives?

The check declares no causes: dumps in which nothing waits do not rule out that a rank is slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from tools.analyzers.support.answers import cannot_answer, clean, say, symptom
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding, Sentence
from tools.metrics.recorded.collective_calls import flight_records, hang, other_timeouts, seen_to_last
from tools.metrics.registry import measure
from tools.views.communication.collective_hang import Entered, Hang, Mismatch, MissingRank
from tools.views.profile import Profile

NO_COST = "a step that does not end has no length"
SEEN_TO_LAST, ONLY_DUMPS = 0.85, 0.6  # with a wait as long as a time-out, or by dumps alone, which hold no time
SHOWN_RANKS = 8
ALL_DUMPS = (
    "dumps of all ranks, written when a collective times out (`TORCH_NCCL_DUMP_ON_TIMEOUT=1`, "
    "`TORCH_NCCL_TRACE_BUFFER_SIZE=2000`)"
)
RUNNING = "A running job looks the same where all ranks write their dumps within one collective: a dump holds no time."

OTHER_TIMEOUT = (
    "The job's output reports a time-out of another collective (number, name, group or day differ): it may be of "
    "another run."
)


@check(
    *("communication.flight_recorder", "Unfinished collectives", "Which rank holds up collectives that do not end?"),
    from_records="collectives",
    may_find=("straggler", "slow_device"),
)
def flight_recorder(profile: Profile) -> Check | None:
    """Ranks that have not called what others wait in, or on which nothing ends; calls that do not match."""
    if profile.run.collectives is None or profile.run.collectives.flight is None:
        return None
    found, dumps = hang(profile), measure(profile, "flight_dumps")
    if not found.waiting:
        unread = _without_dump(profile)
        if unread:
            return cannot_answer(f"in no dump a collective waits, and {_named(unread)} left none", ALL_DUMPS)
        return clean(say("No collective waits in any of {0}.", dumps))
    differing = [_different(each) for each in found.mismatches]
    if findings := _findings(profile, found):
        return Check("", "found", findings=tuple(findings), support=tuple(differing))
    waiting = say("A collective has not ended on {0}.", measure(profile, "waiting_ranks"))
    if differing or found.entered:
        return symptom(*differing, *(line for each in found.entered for line in _inside(each)), waiting)
    if found.each_other:
        return symptom(
            say(f"{_named(found.each_other, True)} wait for one another: their calls are in different orders."), waiting
        )
    reason = _unclear(found)
    return cannot_answer(reason, ALL_DUMPS, waiting)


def _findings(profile: Profile, found: Hang) -> list[Finding]:
    certain = seen_to_last(profile)
    confidence = SEEN_TO_LAST if certain else ONLY_DUMPS
    against = () if certain else (say(RUNNING),)
    if other_timeouts(profile):
        against = (*against, say(OTHER_TIMEOUT))
    waiting = measure(profile, "waiting_ranks")
    findings = []
    for _, same in groupby(sorted(found.missing, key=_place), key=_place):
        group = list(same)
        ranks = [each.rank for each in group]
        findings.append(
            Finding(
                cause="straggler",
                claim=say(
                    f"{_named(ranks, True)} {_have(ranks)} not called {{n0}} (sequence number {{n1}} of group {{n2}}) "
                    f"and {_wait(ranks)} in no collective; a collective has not ended on {{0}}.",
                    waiting,
                    names=_names(group[0]),
                ),
                confidence=confidence,
                ranks=tuple(ranks),
                impact_ms=0.0,
                impact_method=NO_COST,
                details=tuple(
                    say(f"Rank {rank} is {{0}} behind.", measure(profile, "calls_behind", rank=rank)) for rank in ranks
                ),
                against=against,
            )
        )
    if found.stalled:
        ranks = [each.rank for each in found.stalled]
        findings.append(
            Finding(
                cause="slow_device",
                mechanism="faulty_device",
                claim=say(
                    f"On {_named(ranks)} collectives do not end that all have called and other ranks have finished; "
                    "a collective has not ended on {0}.",
                    waiting,
                ),
                confidence=confidence,
                ranks=tuple(ranks),
                impact_ms=0.0,
                impact_method=NO_COST,
                details=tuple(
                    say(
                        f"On rank {each.rank} {{0}} did not end, the first {{n0}} (sequence number {{n1}} of {{n2}}).",
                        measure(profile, "unconfirmed_calls", rank=each.rank),
                        names=(each.first.operation, str(each.first.sequence), each.first.group.description),
                    )
                    for each in found.stalled
                ),
                against=against,
            )
        )
    return findings


def _place(missing: MissingRank) -> tuple[str, int]:
    return missing.first.group.name, missing.first.sequence


def _names(missing: MissingRank) -> tuple[str, ...]:
    first = missing.first
    return first.operation, str(first.sequence), f"{first.group.description} {first.group.name}".strip()


def _different(found: Mismatch) -> Sentence:
    """The calls that do not match, and the ranks whose call is that of the fewest."""
    calls = "; ".join(f"{_named(ranks)}: {{n{at}}}" for at, (_, ranks) in enumerate(found.calls, start=2))
    odd = f" Look at {_named(found.odd_ranks)} first." if found.odd_ranks else ""
    return say(
        f"The ranks of group {{n0}} differ in the {found.difference} of sequence number {{n1}}: {calls}.{odd}",
        names=(found.group.description or found.group.name, str(found.sequence), *(text for text, _ in found.calls)),
    )


def _inside(found: Entered) -> list[Sentence]:
    """A collective that all have called: whose kernel runs, where the dumps show it."""
    names = (found.collective.operation, str(found.collective.sequence), found.collective.group.description)
    said = [say("All ranks of {n2} have called {n0} (sequence number {n1}), and it has not ended on any.", names=names)]
    if found.started and found.scheduled:
        text = f"Its kernel runs on {_named(found.started)} and has not started on {_named(found.scheduled)}: "
        return [*said, say(f"{text}look there at what the device does before it.")]
    if found.started:
        return [*said, say("Its kernel runs on all of them: if it lasts, the transfer itself hangs (network or link).")]
    return [*said, say("Which kernels have started was not recorded (`TORCH_NCCL_ENABLE_TIMING=1`).")]


def _unclear(found: Hang) -> str:
    if found.moments is not None:
        late, early = found.moments.later, found.moments.earlier
        return (
            f"the dumps are of different moments: rank {late} has finished collectives that rank {early} had not called"
        )
    if found.unseen:
        return f"collectives wait, and no dump shows what {_named(found.unseen)} called"
    return "collectives wait, and the dumps do not show for whom"


def _without_dump(profile: Profile) -> tuple[int, ...]:
    records = flight_records(profile)
    dumped = {each.rank for each in records.dumps}
    return tuple(sorted({rank for group in records.groups for rank in group.ranks} - dumped))


def _named(ranks: Sequence[int], first: bool = False) -> str:
    """``rank 3``, ``ranks 9 and 14``; ``first``: as the first word of a sentence."""
    shown = [str(rank) for rank in ranks[:SHOWN_RANKS]]
    if len(ranks) > SHOWN_RANKS:
        shown.append(f"{len(ranks) - SHOWN_RANKS} more")
    listed = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    word = "rank" if len(ranks) == 1 else "ranks"
    return f"{word.capitalize() if first else word} {listed}"


def _have(ranks: Sequence[int]) -> str:
    return "has" if len(ranks) == 1 else "have"


def _wait(ranks: Sequence[int]) -> str:
    return "waits" if len(ranks) == 1 else "wait"
