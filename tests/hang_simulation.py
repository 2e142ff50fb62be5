"""A job of several groups whose ranks enqueue ahead of their devices, run until it hangs: whom its dumps must name.

A device works through the calls of its rank in order, and a collective ends when it is the next of all members. A rank
whose host stops enqueues nothing more; every other rank goes on until it waits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from tests.flight_dumps import Made


@dataclass(frozen=True)
class Step:
    """One call of all members: a collective, or a send from the first to the second of two members."""

    group: str
    members: tuple[int, ...]  # those that call it
    operation: str = "all_reduce"


@dataclass
class Job:
    """Ranks of a world of 2 x 2 x 2 (tensor, data, pipeline), the groups by name, and the calls in program order."""

    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    world: int = 8

    def of(self, rank: int) -> dict[str, tuple[int, ...]]:
        """The groups that a rank is in."""
        return {name: members for name, members in self.groups.items() if rank in members}


def job(random: Random, length: int) -> Job:
    """A job with so many calls, of groups drawn at random."""
    made = Job({"0": tuple(range(8))})
    kinds: dict[int, list[tuple[int, ...]]] = {1: [(rank, rank + 1) for rank in range(0, 8, 2)]}
    kinds[2] = [(rank, rank + 2) for rank in (0, 1, 4, 5)]
    kinds[3] = [(rank, rank + 4) for rank in range(4)]
    for members in (each for kind in kinds.values() for each in kind):
        made.groups[str(len(made.groups))] = members
    names = list(made.groups)
    for _ in range(length):
        name = random.choice(names)
        members = made.groups[name]
        if name in names[-4:]:  # of the pipeline: a send there or back
            made.steps.append(Step(name, members if random.random() < 0.5 else members[::-1], "send"))
        else:
            made.steps.append(Step(name, members, random.choice(["all_reduce", "_all_gather_base", "all_to_all"])))
    return made


def run(made: Job, random: Random, stopped: Mapping[int, int], ahead: int = 6) -> dict[int, list[Made]]:
    """The calls of each rank when nothing moves any more; ``stopped`` ranks enqueue so many calls and no more."""
    own = {rank: [at for at, step in enumerate(made.steps) if rank in step.members] for rank in range(made.world)}
    called, ended = dict.fromkeys(own, 0), dict.fromkeys(own, 0)
    while True:
        moves = [
            ("call", rank)
            for rank in own
            if called[rank] < min(len(own[rank]), ended[rank] + ahead, stopped.get(rank, len(own[rank])))
        ]
        heads = {rank: own[rank][ended[rank]] for rank in own if ended[rank] < called[rank]}
        ready = {at for at in heads.values() if all(heads.get(rank) == at for rank in made.steps[at].members)}
        moves += [("end", at) for at in ready]
        if not moves:
            break
        kind, which = random.choice(moves)
        if kind == "call":
            called[which] += 1
        else:
            for rank in made.steps[which].members:
                ended[rank] += 1
    return {rank: [_made(made, rank, at, place < ended[rank]) for place, at in enumerate(own[rank][: called[rank]])]
            for rank in own}  # fmt: skip


def _made(job: Job, rank: int, at: int, ended: bool) -> Made:
    step = job.steps[at]
    state = "completed" if ended else "scheduled"
    if step.operation != "send":
        return Made(step.operation, state, step.group, at_ms=float(at))
    members = job.groups[step.group]
    first, second = (members.index(each) for each in step.members)
    sends = rank == step.members[0]
    text = f"send {first}->{second}" if sends else f"recv {second}<-{first}"
    return Made(text, state, step.group, at_ms=float(at))
