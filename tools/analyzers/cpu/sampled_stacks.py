"""By stacks that py-spy sampled: where is the host's training thread, and does one rank stand elsewhere?"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from tools.analyzers.support.answers import affected, cannot_answer, found, say, symptom, worst_of
from tools.analyzers.support.spec import check
from tools.findings import Check, Fact, Finding, Sentence
from tools.metrics.recorded.host_stacks import host_stacks, sampled_frames
from tools.metrics.registry import measure
from tools.run.program_frames import short_frame
from tools.views.profile import Profile

HYPOTHESIS = 0.45  # below what makes a verdict: samples do not show whether the device waited
SHOWN = 3  # functions of a rank
SHOWN_RANKS = 4
NO_COST = "samples of the host do not show what the step loses"
AGAINST = "py-spy leaves out samples of idle threads, and does not show whether the device had work meanwhile."
NO_TRAINING_THREAD = "`py-spy record --pid PID -f speedscope` on the process of the training, not on its workers"


@dataclass(frozen=True)
class Meaning:
    """What much time in an activity stands for."""

    activity: str
    cause: str
    text: str
    mechanism: str | None = None


MEANINGS = (
    Meaning("data_loading", "slow_data_processing", "asks its data loader for a batch", "unexplained_wait"),
    Meaning("saving", "checkpoint_stall", "saves", "synchronous_save"),
    Meaning("compiling", "operator_compilation", "compiles operators"),
)


@check(
    *("cpu.sampled_stacks", "Host by sampled stacks", "Where is the training thread by sampled stacks?"),
    from_records="tables",
)
def sampled_stacks(profile: Profile) -> Check | None:
    """The functions with most samples of each rank, and a rank that is elsewhere than the others."""
    if profile.run.host_stacks is None:
        return None
    record = host_stacks(profile)
    if not record.ranks:
        return cannot_answer("no sampled thread is one of a training", NO_TRAINING_THREAD)
    said = [each for rank in record.ranks[:SHOWN_RANKS] for each in (_functions(profile, rank), *_waits(profile, rank))]
    return symptom(*said, *_elsewhere(profile))


@check(
    *(
        "cpu.sampled_activity",
        "Activities by sampled stacks",
        "Does the host load data, save or compile by its stacks?",
    ),
    causes=("slow_data_processing", "checkpoint_stall", "operator_compilation"),
    from_records="tables",
)
def sampled_activity(profile: Profile) -> Check | None:
    """Much time in an activity, as a hypothesis where no trace shows more; too little of one rules nothing out."""
    if profile.run.host_stacks is None or profile.traced:
        return None
    findings = _findings(profile, [_functions(profile, rank) for rank in host_stacks(profile).ranks[:SHOWN_RANKS]])
    return found(*findings) if findings else None


def _functions(profile: Profile, rank: int) -> Sentence:
    table = sampled_frames(profile)
    names = [str(name) for name in table.loc[table["rank"] == rank, "name"].iloc[:SHOWN]]
    count = measure(profile, "stack_samples", rank=rank)
    who = "the training thread" if rank < 0 else f"the training thread of rank {rank}"
    if count.value <= 1:
        return say(f"At one moment {who} was in {{n0}}.", names=(short_frame(names[0]),))
    shares = [measure(profile, "frame_share_pct", name=name, rank=rank) for name in names]
    listed = ", ".join(f"{{{at + 1}}} in {{n{at}}}" for at in range(len(names)))
    return say(f"Of {{0}} of {who}: {listed}.", count, *shares, names=tuple(map(short_frame, names)))


IN_COLLECTIVE = re.compile(r"\(\S*(?:torch/distributed/distributed_c10d\.py|deepspeed/comm/)")
IN_LOADER = re.compile(r"\b(?:_try_get_data|_get_data|_next_data)\b \(\S*torch/utils/data/dataloader\.py")
COLLECTIVE = (
    " is in {n0}, a collective: it ends once every rank of the group has called it. Which rank has not, the dumps of"
    " the other ranks of the same moment show."
)
LOADER = (
    "It waits there for a batch of its data loader; what holds the batch up shows in dumps of the loader's worker"
    " processes."
)


def _waits(profile: Profile, rank: int) -> list[Sentence]:
    """What a dump of one moment shows that the process waits for: a collective of any thread, or a batch."""
    record = host_stacks(profile)
    own = record.rows[record.rows["rank"] == rank]
    if measure(profile, "stack_samples", rank=rank).value > 1 or len(record.ranks) > 1:
        return []
    said = []
    for main in (True, False):
        stacks = [record.stacks[at] for at in own.loc[own["main"] == main, "stack"]]
        frames = [frame for stack in stacks for frame in reversed(stack) if IN_COLLECTIVE.search(frame)]
        if frames:
            who = "The training thread" if main else "Another thread of the process"
            return [say(f"{who}{COLLECTIVE}", names=(short_frame(frames[0]),))]
        if main and any(IN_LOADER.search(frame) for stack in stacks for frame in stack):
            said.append(say(LOADER))
    return said


def _elsewhere(profile: Profile) -> list[Sentence]:
    """The one rank that is in another function than all the others, where there are three or more."""
    table = sampled_frames(profile)
    first = table[table["rank"] >= 0].groupby("rank")["name"].first()
    usual, count = Counter(str(name) for name in first).most_common(1)[0] if len(first) else ("", 0)
    other = [int(str(rank)) for rank, name in first.items() if name != usual]
    if len(first) < 3 or len(other) != 1 or count < 2:
        return []
    text = f"Rank {other[0]} is elsewhere than the other sampled ranks: in {{n0}}, they are in {{n1}}."
    return [say(text, names=(short_frame(str(first[other[0]])), short_frame(usual)))]


def _findings(profile: Profile, said: list[Sentence]) -> list[Finding]:
    sampled = [
        rank
        for rank in host_stacks(profile).ranks
        if measure(profile, "stack_samples", rank=rank).value >= profile.thresholds["fewest_stack_samples"]
    ]
    findings: list[Finding] = []
    for each in MEANINGS:
        shares: dict[int, Fact] = {
            rank: measure(profile, "activity_share_pct", activity=each.activity, rank=rank) for rank in sampled
        }
        ranks = affected(shares, profile.thresholds["sampled_activity_pct"]) if shares else ()
        ranks = tuple(rank for rank in ranks if shares[rank].value >= profile.thresholds["sampled_activity_pct"])
        if not ranks:
            continue
        worst = worst_of(shares)
        findings.append(
            Finding(
                cause=each.cause,
                mechanism=each.mechanism,
                claim=say(f"In {{0}} of its samples the training thread {each.text}.", shares[worst]),
                confidence=HYPOTHESIS,
                ranks=tuple(rank for rank in ranks if rank >= 0),
                impact_ms=0.0,
                impact_method=NO_COST,
                details=tuple(said),
                against=(say(AGAINST),),
                disproved_by="a trace of these steps shows the device at work meanwhile",
            )
        )
    return findings
