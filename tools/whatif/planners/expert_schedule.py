"""Shortest order of compression, all-to-alls and experts of the chunks of an expert layer (ScheMoE).

Each chunk runs seven tasks in order; compression, decompression and experts share a compute stream, both all-to-alls
a communication stream, and nothing is interrupted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from pydantic import Field

from tools.whatif.planners.record import Given, Milliseconds, Plan, Planned
from tools.whatif.timeline import Bar

TASKS = ("compress_1", "all_to_all_1", "decompress_1", "experts", "compress_2", "all_to_all_2", "decompress_2")
COMMUNICATION = (1, 5)  # places in TASKS of what runs on the communication stream
MOST_CHUNKS = 32
MOST_PARTIAL = 300  # partial schedules kept of one length; 2 and 3 chunks need fewer than 100, so they are exact
ROUNDING = 1e-12  # relative; orders of the same times differ by less
STREAM_IS_FULL = 0.95  # of the makespan: a stream as busy as this is what limits

Counts: TypeAlias = tuple[int, ...]


class Tasks(Given):
    """Times of one chunk; 0 where a task does not exist."""

    compress_1: Milliseconds
    all_to_all_1: Milliseconds
    decompress_1: Milliseconds
    experts: Milliseconds
    compress_2: Milliseconds
    all_to_all_2: Milliseconds
    decompress_2: Milliseconds


class Uncompressed(Given):
    """Times of both all-to-alls of one chunk without compression."""

    all_to_all_1: Milliseconds
    all_to_all_2: Milliseconds


class NodeLinks(Given):
    """An all-to-all over nodes of several devices: times of one exchange inside a node and of one between nodes."""

    nodes: Annotated[int, Field(ge=1)]
    devices_per_node: Annotated[int, Field(ge=1)]
    inside_ms: Milliseconds
    between_ms: Milliseconds


class Input(Given):
    """Chunks and the tasks of one; what the all-to-alls take without compression, and links to pipeline them on."""

    chunks: Annotated[int, Field(ge=1, le=MOST_CHUNKS)]
    tasks_ms: Tasks
    uncompressed_ms: Uncompressed | None = None
    links: NodeLinks | None = None


class Compression(Plan):
    """The best schedule with and without compression, and which to take."""

    advised: bool
    with_ms: float
    without_ms: float


class PipelinedAllToAll(Plan):
    """One all-to-all with exchanges inside and between nodes one after another, and at the same time (Pipe-A2A)."""

    sequential_ms: float
    pipelined_ms: float


class TimelineEntry(Plan):
    """When a task runs."""

    task: str
    start_ms: float
    end_ms: float


class SchedulePlan(Plan):
    """Order of both streams, as ``experts.1`` for chunk 1, and when each task runs."""

    compute: list[str]
    communication: list[str]
    timeline: list[TimelineEntry]
    compression: Compression | None
    pipelined_all_to_all: PipelinedAllToAll | None


@dataclass(frozen=True)
class Schedule:
    """Tasks in an order that keeps the order of both streams, as (place in TASKS, chunk); a bound on any schedule."""

    order: list[tuple[int, int]]
    makespan_ms: float
    bound_ms: float


def plan(given: Input) -> Planned:
    """Return the order with the least makespan.

    Exact while at most 300 partial schedules of one length are kept (always for 2 and 3 chunks); past that the best are
    kept and the gap to the best that was dropped is returned. At most 67,000 are extended, about 20 s.
    """
    times = [getattr(given.tasks_ms, name) for name in TASKS]
    made = best_schedule(given.chunks, times)
    starts = replay(made.order, times)
    busy = {
        "the communication stream": given.chunks * sum(times[place] for place in COMMUNICATION),
        "the compute stream": given.chunks * sum(times[place] for place in range(7) if place not in COMMUNICATION),
    }
    stream = max(busy, key=lambda name: busy[name])
    full = busy[stream] >= STREAM_IS_FULL * made.makespan_ms
    return Planned(
        planner="expert-schedule",
        plan=SchedulePlan(
            compute=[_name(*task) for task in made.order if task[0] not in COMMUNICATION],
            communication=[_name(*task) for task in made.order if task[0] in COMMUNICATION],
            timeline=[
                TimelineEntry(task=_name(*task), start_ms=start, end_ms=start + times[task[0]])
                for task, start in zip(made.order, starts, strict=True)
            ],
            compression=_compression(given, made.makespan_ms),
            pipelined_all_to_all=None if given.links is None else pipelined(given.links),
        ),
        before_ms=given.chunks * sum(times),
        after_ms=made.makespan_ms,
        gap_ms=made.makespan_ms - made.bound_ms,
        bound=stream if full else f"the chain of tasks of a chunk; {stream} is busy for {busy[stream]:.4g} ms",
        assumptions=[
            "Before is all tasks one after another.",
            "All chunks take the same times, and the streams do not slow each other.",
        ],
        bars=lambda: [
            Bar(
                "communication stream" if place in COMMUNICATION else "compute stream",
                _name(place, chunk),
                _kind(place),
                start,
                start + times[place],
            )
            for (place, chunk), start in sorted(zip(made.order, starts, strict=True), key=lambda each: each[1])
        ],
    )


def pipelined(links: NodeLinks) -> PipelinedAllToAll:
    """Return Pipe-A2A's ``max(M t1, (P - M) t2)`` for P devices, M per node, and the sum it replaces."""
    inside_ms = links.devices_per_node * links.inside_ms
    between_ms = (links.nodes - 1) * links.devices_per_node * links.between_ms
    return PipelinedAllToAll(sequential_ms=inside_ms + between_ms, pipelined_ms=max(inside_ms, between_ms))


def best_schedule(chunks: int, times_ms: Sequence[float]) -> Schedule:
    """Return the order with the least makespan of equal chunks.

    Chunks are alike, so each kind of task may take them in order, and a partial schedule is how many of each kind are
    done. Of those with the same counts, one that is ready no later at every place replaces another; those that cannot
    beat ScheMoE's order are dropped.
    """
    search = _Search(chunks, times_ms)
    fixed = fixed_order(chunks)
    fixed_ms = max(start + times_ms[task[0]] for task, start in zip(fixed, replay(fixed, times_ms), strict=True))
    start = _Partial(0.0, 0.0, ((),) * 6, None, None)
    kept: dict[Counts, list[_Partial]] = {(0,) * len(TASKS): [start]}
    dropped_ms = float("inf")
    for _ in range(len(TASKS) * chunks):
        grown: dict[Counts, list[_Partial]] = {}
        for counts, partials in kept.items():
            for partial in partials:
                for after, next_partial in search.extensions(counts, partial):
                    if search.bound_ms(after, next_partial) < fixed_ms * (1 - ROUNDING):
                        _insert(grown.setdefault(after, []), next_partial)
        every = [(search.bound_ms(counts, each), counts, each) for counts, them in grown.items() for each in them]
        every.sort(key=lambda entry: entry[0])
        if len(every) > MOST_PARTIAL:
            dropped_ms = min(dropped_ms, every[MOST_PARTIAL][0])
        kept = {}
        for _, counts, partial in every[:MOST_PARTIAL]:
            kept.setdefault(counts, []).append(partial)
    if not kept:
        return Schedule(fixed, fixed_ms, min(fixed_ms, dropped_ms))
    (best,) = kept.values()
    makespan_ms = max(best[0].compute_ms, best[0].communication_ms)
    return Schedule(best[0].order(), makespan_ms, min(makespan_ms, dropped_ms))


def fixed_order(chunks: int) -> list[tuple[int, int]]:
    """Return ScheMoE's order: all first compressions, then decompression, experts and compression chunk by chunk."""
    every = range(chunks)
    middle = [(place, chunk) for chunk in every for place in (2, 3, 4)]
    return [
        *((place, chunk) for place in (0, 1) for chunk in every),
        *middle,
        *((place, chunk) for place in (5, 6) for chunk in every),
    ]


def replay(order: Sequence[tuple[int, int]], times_ms: Sequence[float]) -> list[float]:
    """Return the start of each task when both streams keep this order."""
    free = {True: 0.0, False: 0.0}
    ends: dict[int, float] = {}
    starts = []
    for place, chunk in order:
        stream = place in COMMUNICATION
        start = max(free[stream], ends.get(chunk, 0.0))
        free[stream] = ends[chunk] = start + times_ms[place]
        starts.append(start)
    return starts


def _compression(given: Input, with_ms: float) -> Compression | None:
    if given.uncompressed_ms is None:
        return None
    plain = given.uncompressed_ms
    times = [0.0, plain.all_to_all_1, 0.0, given.tasks_ms.experts, 0.0, plain.all_to_all_2, 0.0]
    without_ms = best_schedule(given.chunks, times).makespan_ms
    return Compression(advised=with_ms < without_ms, with_ms=with_ms, without_ms=without_ms)


def _kind(place: int) -> str:
    """The kind of a task without its number: both all-to-alls are of one."""
    return TASKS[place].rstrip("_12").replace("_", "-")


def _name(place: int, chunk: int) -> str:
    return f"{TASKS[place]}.{chunk}"


@dataclass(frozen=True)
class _Partial:
    """Ends of both streams, and per kind of task the ends of the chunks whose next task has not begun."""

    compute_ms: float
    communication_ms: float
    waiting: tuple[tuple[float, ...], ...]
    before: _Partial | None
    task: tuple[int, int] | None

    def no_later(self, other: _Partial) -> bool:
        """Return whether every moment is no later than in the other one, which has the same counts."""
        if self.compute_ms > other.compute_ms or self.communication_ms > other.communication_ms:
            return False
        pairs = zip(self.waiting, other.waiting, strict=True)
        return all(mine <= its for ours, theirs in pairs for mine, its in zip(ours, theirs, strict=True))

    def order(self) -> list[tuple[int, int]]:
        """All tasks from the first."""
        tasks: list[tuple[int, int]] = []
        partial: _Partial | None = self
        while partial is not None and partial.task is not None:
            tasks.append(partial.task)
            partial = partial.before
        return tasks[::-1]


def _insert(partials: list[_Partial], candidate: _Partial) -> None:
    """Add a partial schedule unless one is no later, and drop those that it replaces."""
    if any(each.no_later(candidate) for each in partials):
        return
    partials[:] = [each for each in partials if not candidate.no_later(each)]
    partials.append(candidate)


class _Search:
    """Extensions and bounds of partial schedules."""

    def __init__(self, chunks: int, times_ms: Sequence[float]) -> None:
        self.chunks, self.times_ms = chunks, times_ms

    def extensions(self, counts: Counts, partial: _Partial) -> Iterator[tuple[Counts, _Partial]]:
        """All partial schedules with one more task, with their counts."""
        for place, chunk in enumerate(counts):
            if chunk == (self.chunks if place == 0 else counts[place - 1]):
                continue
            ready_ms = partial.waiting[place - 1][0] if place else 0.0
            compute_ms, communication_ms = partial.compute_ms, partial.communication_ms
            if place in COMMUNICATION:
                end_ms = communication_ms = max(communication_ms, ready_ms) + self.times_ms[place]
            else:
                end_ms = compute_ms = max(compute_ms, ready_ms) + self.times_ms[place]
            waiting = list(partial.waiting)
            if place:
                waiting[place - 1] = waiting[place - 1][1:]
            if place < len(TASKS) - 1:
                waiting[place] = (*waiting[place], end_ms)
            for kind, ends in enumerate(waiting):  # what waits for a stream is as good as ready when that is free
                free_ms = communication_ms if kind + 1 in COMMUNICATION else compute_ms
                waiting[kind] = tuple(max(end, free_ms) for end in ends)
            after = (*counts[:place], chunk + 1, *counts[place + 1 :])
            yield after, _Partial(compute_ms, communication_ms, tuple(waiting), partial, (place, chunk))

    def bound_ms(self, counts: Counts, partial: _Partial) -> float:
        """No completion ends earlier: what each stream has left, and the chain of every waiting chunk."""
        left = [(self.chunks - count) * self.times_ms[place] for place, count in enumerate(counts)]
        exchange_ms = sum(left[place] for place in COMMUNICATION)
        tail_ms = self.times_ms[-1] if counts[5] < self.chunks else 0.0
        bound = max(partial.compute_ms + sum(left) - exchange_ms, partial.communication_ms + exchange_ms + tail_ms)
        for kind, ends in enumerate(partial.waiting):
            if ends:
                bound = max(bound, ends[-1] + sum(self.times_ms[kind + 1 :]))
        return bound
