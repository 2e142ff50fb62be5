"""How long a graph of a million operators takes to build and to replay on one core."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from tools.whatif.graph import EdgeKind, Edges, link
from tools.whatif.replay import Program, Times, compile_program, rerun, run_program

RANKS = 16
ROUNDS_PER_COLLECTIVE = 50  # rounds of one host stretch and one kernel on each rank between two collectives
SEED = 1
Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class Made:
    """A graph with its times; node 0 is the origin and nodes are in the order of replay."""

    edges: Edges
    times: Times

    def __len__(self) -> int:
        return len(self.times.own_ns)


def training_graph(operators: int, ranks: int = RANKS) -> Made:
    """At least that many operators: per rank a host thread that launches kernels of one stream, and collectives.

    Each round has one host stretch and one kernel per rank: host after host, kernel after its launch and after the
    kernel before. Every ``ROUNDS_PER_COLLECTIVE`` rounds a transfer waits for the kernels of all ranks, and the next
    kernels wait for it.
    """
    rounds = -(-operators // (2 * ranks))
    every = np.arange(rounds)
    meetings = every // ROUNDS_PER_COLLECTIVE  # transfers before each round
    first = 1 + every * 2 * ranks + meetings  # node of rank 0's host stretch
    lane = np.arange(ranks)
    host = first[:, None] + lane
    kernel = host + ranks
    transfer = first[ROUNDS_PER_COLLECTIVE::ROUNDS_PER_COLLECTIVE] - 1
    before = np.zeros_like(kernel)
    before[1:] = kernel[:-1]
    after = every[ROUNDS_PER_COLLECTIVE::ROUNDS_PER_COLLECTIVE]
    parts = [
        link(np.vstack((np.zeros((1, ranks), dtype=np.int64), host[:-1])).ravel(), host.ravel(), EdgeKind.THREAD),
        link(host.ravel(), kernel.ravel(), EdgeKind.LAUNCH, np.full(host.size, 4_000)),
        link(before.ravel(), kernel.ravel(), EdgeKind.STREAM, np.full(host.size, 1_000)),
        link(kernel[after - 1].ravel(), np.repeat(transfer, ranks), EdgeKind.COLLECTIVE),
        link(np.repeat(transfer, ranks), kernel[after].ravel(), EdgeKind.COLLECTIVE),
    ]
    edges = parts[0].joined(*parts[1:])
    random = np.random.default_rng(SEED)
    own = random.integers(1_000, 200_000, int(kernel[-1, -1]) + 1)
    own[0] = 0
    edges = edges.taken(np.argsort(edges.target, kind="stable"))
    return Made(edges, Times(own, edges.lag_ns))


@dataclass(frozen=True)
class Speed:
    """Seconds; ``replay_s`` with the compiled program, ``local_s`` after a change of the last operators."""

    operators: int
    edges: int
    compile_s: float
    replay_s: float
    local_s: float
    far_s: float  # a change of one operator in the middle that moves everything after it
    same: bool  # partial replays equal full ones


def measure(operators: int) -> Speed:
    """The times of one graph."""
    made = training_graph(operators)
    program, compile_s = timed(lambda: compile_program(made.edges, np.arange(len(made))))
    _, replay_s = timed(lambda: run_program(program, made.times))
    _ = program.following  # is sorted once, like the program itself
    local_s, local = _partial(program, made, len(made) - 100, 0)
    far_s, far = _partial(program, made, len(made) // 2, 10_000_000)
    return Speed(len(made) - 1, len(made.edges), compile_s, replay_s, local_s, far_s, local and far)


def _partial(program: Program, made: Made, node: int, own_ns: int) -> tuple[float, bool]:
    """Seconds of a partial replay with another own time of a node, and whether it equals the full replay."""
    before = run_program(program, made.times)
    own = made.times.own_ns.copy()
    own[node] = own_ns
    times = Times(own, made.times.lag_ns)
    again, seconds = timed(lambda: rerun(program, before, times))
    return seconds, bool(np.array_equal(again.end_ns, run_program(program, times).end_ns))


def timed(action: Callable[[], Value]) -> tuple[Value, float]:
    """The result and the CPU seconds of this process."""
    began = time.process_time()
    value = action()
    return value, time.process_time() - began
