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
    return symptom(*_elsewhere(profile), *said)


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


FEWEST_RANKS = 3  # of two that differ, either may be the one that is elsewhere
MAINLY = 50.0  # % of its samples: in less a thread is nowhere in particular
HARDLY = 20.0  # % of the samples of any other rank in the function of the one that is elsewhere


@dataclass(frozen=True)
class Elsewhere:
    """A rank whose training thread is in another function than that of every other sampled rank."""

    rank: int
    name: str
    usual: str
    others: tuple[int, ...]
    waits: bool  # it is in a collective, so it waits for the others
    claim: Sentence


def elsewhere(profile: Profile) -> Elsewhere | None:
    """The one rank that is elsewhere, where three or more were sampled; None where there is none or several are."""
    if profile.run.host_stacks is None or len(host_stacks(profile).ranks) < FEWEST_RANKS:
        return None
    table = sampled_frames(profile)
    table = table[table["rank"] >= 0]
    table = table.assign(pct=100.0 * table["samples"] / table.groupby("rank")["samples"].transform("sum"))
    first = table.groupby("rank").first()
    if len(first) < FEWEST_RANKS:
        return None
    usual, count = Counter(str(name) for name in first["name"]).most_common(1)[0]
    ranks = [int(str(rank)) for rank in first.index[(first["name"] != usual).to_numpy(dtype=bool)]]
    if len(ranks) != 1 or count < FEWEST_RANKS - 1 or float(first["pct"].min()) < MAINLY:
        return None
    (rank,) = ranks
    name = str(first["name"].loc[rank])
    shared = table[(table["name"] == name).to_numpy(dtype=bool) & (table["rank"] != rank).to_numpy(dtype=bool)]
    if len(shared) and float(shared["pct"].max()) >= HARDLY:
        return None
    others = tuple(int(str(each)) for each in first.index if int(str(each)) != rank)
    return Elsewhere(rank, name, usual, others, _in_collective(profile, rank), _claim(profile, rank, name, usual))


def _claim(profile: Profile, rank: int, name: str, usual: str) -> Sentence:
    """Where the rank is and where the others are."""
    names = (name, short_frame(usual))
    if measure(profile, "stack_samples", rank=rank).value <= 1:
        return say(
            f"Rank {rank} is elsewhere than the other sampled ranks: in {{n0}}, they are in {{n1}}.", names=names
        )
    share = measure(profile, "frame_share_pct", name=name, rank=rank)
    text = (
        f"Rank {rank} is elsewhere than the other sampled ranks: in {{n0}} in {{0}} of its samples, they are in {{n1}}."
    )
    return say(text, share, names=names)


def _in_collective(profile: Profile, rank: int) -> bool:
    """Whether most samples of the rank's training thread are in a collective."""
    record = host_stacks(profile)
    own = record.training[record.training["rank"] == rank]
    inside = [any(IN_COLLECTIVE.search(frame) for frame in record.stacks[at]) for at in own["stack"]]
    return 100.0 * float(own.loc[inside, "samples"].sum()) >= MAINLY * float(own["samples"].sum())


def _elsewhere(profile: Profile) -> list[Sentence]:
    found_at = elsewhere(profile)
    return [] if found_at is None else [found_at.claim]


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
