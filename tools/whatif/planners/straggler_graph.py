"""Dependencies between the operations of a pipeline- and data-parallel step, and their replay with other times.

The model is that of ByteDance's what-if analysis of stragglers: the graph of one step and one model-parallel group is
built once, and replayed for all steps and data-parallel ranks together, as arrays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tools.errors import UsageError

Times: TypeAlias = NDArray[np.float64]  # ms; shape (operations, steps, data-parallel ranks)

COMPUTE = ("forward-compute", "backward-compute")
SENDS = ("forward-send", "forward-recv", "backward-send", "backward-recv")
PEER = {
    "forward-send": ("forward-recv", 1),
    "forward-recv": ("forward-send", -1),
    "backward-send": ("backward-recv", -1),
    "backward-recv": ("backward-send", 1),
}
GATHER, REDUCE, SEPARATE = "params-all-gather", "grads-reduce-scatter", "separate-grads-all-reduce"
LAYERNORM, EMBEDDING = "layernorm-grads-all-reduce", "embedding-grads-all-reduce"
CLIP, OPTIMIZER, COLLECTION = "optimizer-clip-main-grad", "optimizer", "gc"
DATA_PARALLEL = (GATHER, REDUCE, SEPARATE)
TYPES = (*COMPUTE, *SENDS, *DATA_PARALLEL, LAYERNORM, EMBEDDING, CLIP, OPTIMIZER, COLLECTION)
CLOCK_ERROR_MS = 0.05  # sends that miss the compute by more are recorded but were not launched
LATEST_ARRIVAL_MS = 10.0  # a transfer that ends this much before its last member starts is a clock error


@dataclass(frozen=True, order=True)
class Operation:
    """One operation of a step: its place among those of its type on its stage, its model chunk and recorded times."""

    start_ms: float
    sequence: int
    kind: str
    stage: int
    chunk: int
    global_chunk: int
    end_ms: float
    index: int

    @property
    def name(self) -> str:
        """The operation in words."""
        return f"{self.kind} {self.sequence} on stage {self.stage}"


@dataclass(frozen=True)
class Group:
    """Operations that end together: each when the last has started and its own transfer is done."""

    members: tuple[int, ...]
    across_data_parallel: bool


@dataclass(frozen=True)
class Graph:
    """The operations each one waits for, and the groups that transfer together."""

    operations: list[Operation]
    waits_for: dict[int, list[int]]
    groups: list[Group]

    def order(self) -> list[int | Group]:
        """Compute operations and groups in an order in which they can end; raises UsageError naming a cycle."""
        group_of = {member: group for group in self.groups for member in group.members}
        missing = {index: len(self.waits_for.get(index, ())) for index in range(len(self.operations))}
        followers: dict[int, list[int]] = defaultdict(list)
        for index, before in self.waits_for.items():
            for each in before:
                followers[each].append(index)
        arrived: dict[Group, int] = defaultdict(int)
        ready = [index for index, count in missing.items() if count == 0]
        done: list[int | Group] = []
        ended = 0
        while ready:
            index = ready.pop()
            group = group_of.get(index)
            finished: Sequence[int] = (index,)
            if group is not None:
                arrived[group] += 1
                if arrived[group] < len(group.members):
                    continue
                finished = group.members
            done.append(index if group is None else group)
            ended += len(finished)
            for follower in (follower for each in finished for follower in followers[each]):
                missing[follower] -= 1
                if missing[follower] == 0:
                    ready.append(follower)
        if ended < len(self.operations):
            raise UsageError(f"the operations wait for each other in a cycle: {', '.join(self._cycle(group_of, done))}")
        return done

    def _cycle(self, group_of: dict[int, Group], done: Iterable[int | Group]) -> list[str]:
        ended = {each for part in done for each in (part.members if isinstance(part, Group) else (part,))}
        open_ones = [each.index for each in self.operations if each.index not in ended]
        seen: list[int] = []
        index = open_ones[0]
        while index not in seen:
            seen.append(index)
            group = group_of.get(index)
            members = group.members if group else (index,)
            index = next(each for member in members for each in self.waits_for.get(member, ()) if each not in ended)
        return [self.operations[each].name for each in seen[seen.index(index) :]]


def replay(graph: Graph, order: Sequence[int | Group], durations: Times, transfers: Times) -> tuple[Times, Times]:
    """Return starts and ends; a transfer takes ``transfers`` from the start of the last member of its group."""
    starts, ends = np.zeros_like(durations), np.zeros_like(durations)
    for entry in order:
        members = entry.members if isinstance(entry, Group) else (entry,)
        for index in members:
            before = graph.waits_for.get(index)
            if before:
                starts[index] = ends[before].max(axis=0)
        if isinstance(entry, Group):
            together = last_start(starts, entry)
            for index in members:
                ends[index] = together + transfers[index]
        else:
            ends[entry] = starts[entry] + durations[entry]
    return starts, ends


def last_start(starts: Times, group: Group) -> NDArray[np.float64]:
    """Start of the last member of a group, per step and data-parallel rank."""
    together: NDArray[np.float64] = starts[list(group.members)].max(axis=0)
    return together.max(axis=1, keepdims=True) if group.across_data_parallel else together


def transfer_times(graph: Graph, starts: Times, ends: Times) -> Times:
    """Return how long each member of a group took after the last had started; 0 for clearly wrong clocks."""
    transfers = np.full_like(starts, np.nan)
    for group in graph.groups:
        together = last_start(starts, group)
        for index in group.members:
            took = ends[index] - together
            transfers[index] = np.where(took <= -LATEST_ARRIVAL_MS, 0.0, took)
    return transfers


def build_graph(operations: list[Operation], *, data_parallel: bool) -> Graph:
    """Return the dependencies of one step; ``operations`` are those of its first data-parallel rank."""
    return _Builder(operations, data_parallel).graph()


class _Builder:
    """Collects dependencies and groups."""

    def __init__(self, operations: list[Operation], data_parallel: bool) -> None:
        self.operations, self.data_parallel = operations, data_parallel
        self.stages = 1 + max(each.stage for each in operations)
        self.global_chunks = self.stages * (1 + max(each.chunk for each in operations))
        self.waits_for: dict[int, list[int]] = defaultdict(list)
        self.groups: list[Group] = []
        self.by_type: dict[tuple[str, int], list[Operation]] = defaultdict(list)
        for each in sorted(operations):
            self.by_type[each.kind, each.stage].append(each)
        self.by_sequence = {(each.kind, each.stage, each.sequence): each for each in operations}
        self.peers: dict[tuple[str, int], list[Operation]] = {}

    def graph(self) -> Graph:
        for stage in range(self.stages):
            self._compute_and_sends(stage)
            if self.data_parallel:
                self._data_parallel(stage)
            self._after_backward(stage)
        self._pair_sends()
        self._other_groups()
        return Graph(self.operations, dict(self.waits_for), self.groups)

    def _of(self, stage: int, *kinds: str) -> list[Operation]:
        return sorted(each for kind in kinds for each in self.by_type[kind, stage])

    def _chain(self, operations: Sequence[Operation]) -> None:
        for before, after in pairwise(operations):
            self.waits_for[after.index].append(before.index)

    def _compute_and_sends(self, stage: int) -> None:
        computes = self._of(stage, *COMPUTE)
        if not computes:
            raise UsageError(f"stage {stage} has no forward-compute or backward-compute; give the whole step")
        self._chain(computes)
        for kind in SENDS:
            self._chain(self.by_type[kind, stage])
            self.peers[kind, stage] = self._match(kind, stage)
        first = next((place for place, each in enumerate(computes) if each.kind == "backward-compute"), 0)
        if first >= 2:
            for kind in ("backward-recv", "backward-send"):
                if earliest := self.by_sequence.get((kind, stage, 0)):
                    self.waits_for[earliest.index].append(computes[first - 2].index)

    def _match(self, kind: str, stage: int) -> list[Operation]:
        """Tie the sends of one kind to the compute they carry for; return those that have a peer, in order."""
        direction, _, side = kind.partition("-")
        passes = self.by_type[f"{direction}-compute", stage]
        if not passes:
            return []
        latest, earliest = max(each.start_ms for each in passes), min(each.end_ms for each in passes)
        receives = side == "recv"
        launched = [
            each
            for each in self.by_type[kind, stage]
            if (each.start_ms <= latest + CLOCK_ERROR_MS if receives else each.end_ms >= earliest - CLOCK_ERROR_MS)
        ]
        skipped = 1 if receives and len(launched) + 1 == len(passes) else 0  # the first one has nothing to receive
        if launched and len(launched) + skipped != len(passes):
            raise UsageError(f"stage {stage} has {len(launched)} {kind} for {len(passes)} {direction}-compute")
        paired = []
        for place, each in enumerate(launched, start=skipped):
            compute = self.by_sequence.get((f"{direction}-compute", stage, place))
            if compute is None:
                raise UsageError(f"stage {stage} lacks {direction}-compute {place}, which {each.name} belongs to")
            if receives:
                self.waits_for[compute.index].append(each.index)
                if place:
                    self.waits_for[each.index].append(self.by_sequence[compute.kind, stage, place - 1].index)
            else:
                self.waits_for[each.index].append(compute.index)
            if 0 <= compute.global_chunk + PEER[kind][1] < self.global_chunks:
                paired.append(each)
        return paired

    def _pair_sends(self) -> None:
        paired: set[int] = set()
        for kind in ("forward-send", "backward-send"):
            peer_kind, distance = PEER[kind]
            for stage in range(self.stages):
                peer_stage = (stage + distance) % self.stages
                sends, receives = self.peers[kind, stage], self.peers[peer_kind, peer_stage]
                if len(sends) != len(receives):
                    raise UsageError(
                        f"stage {stage} has {len(sends)} {kind} and stage {peer_stage} {len(receives)} {peer_kind}; "
                        "give all of both"
                    )
                for send, receive in zip(sends, receives, strict=True):
                    self.groups.append(Group((send.index, receive.index), across_data_parallel=False))
                    paired |= {send.index, receive.index}
        for each in self.operations:
            if each.kind in SENDS and each.index not in paired:
                self.groups.append(Group((each.index,), across_data_parallel=False))

    def _data_parallel(self, stage: int) -> None:
        self._chain(self._of(stage, GATHER, REDUCE))
        gathers = {each.chunk: each for each in self.by_type[GATHER, stage]}  # the last one of a chunk
        forwards = self.by_type["forward-compute", stage]
        for chunk, gather in gathers.items():
            first = min(
                (each for each in forwards if each.chunk == chunk), key=lambda each: each.start_ms, default=None
            )
            if first is not None:
                self.waits_for[first.index].append(gather.index)
        if self._overlapped():
            backwards = self.by_type["backward-compute", stage]
            reduces = {each.chunk: each for each in reversed(self.by_type[REDUCE, stage])}  # the first of a chunk
            for chunk, reduce in reduces.items():
                last = max(
                    (each for each in backwards if each.chunk == chunk), key=lambda each: each.end_ms, default=None
                )
                if last is not None:
                    self.waits_for[reduce.index].append(last.index)

    def _overlapped(self) -> bool:
        """Return whether gradients are reduced during the backward pass."""
        return any(kind == SEPARATE and operations for (kind, _), operations in self.by_type.items())

    def _after_backward(self, stage: int) -> None:
        last = max(self._of(stage, *COMPUTE), key=lambda each: each.end_ms)
        collections = self.by_type[COLLECTION, stage]
        for each in collections:
            self.waits_for[each.index].append(last.index)
        embeddings = self.by_type[EMBEDDING, stage] if stage in (0, self.stages - 1) else []
        reduces = self.by_type[REDUCE, stage] if self.data_parallel else []
        overlapped = self.data_parallel and self._overlapped()
        chain = [*self.by_type[LAYERNORM, stage], *embeddings]
        chain += self.by_type[SEPARATE, stage] if overlapped else reduces
        chain += [*self.by_type[CLIP, stage], *self.by_type[OPTIMIZER, stage]]
        before = [*(collections or [last]), *(reduces[-1:] if overlapped else ())]
        if chain:
            self.waits_for[chain[0].index] += [each.index for each in before]
        self._chain(chain)

    def _other_groups(self) -> None:
        ends = sorted({0, self.stages - 1})
        self._group([each for stage in ends for each in self.by_type[EMBEDDING, stage]], across=False)
        self._group([each for stage in range(self.stages) for each in self.by_type[CLIP, stage]], across=True)
        if self.data_parallel:
            for each in self.operations:
                if each.kind in DATA_PARALLEL:
                    self._group([each], across=True)

    def _group(self, members: Sequence[Operation], *, across: bool) -> None:
        if members:
            self.groups.append(Group(tuple(each.index for each in members), across_data_parallel=across))
