"""What holds for every run: generated runs, and small random graphs solved by enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.synthetic import RankBuilder, profile_of
from tools.views.profile import Profile
from tools.whatif.change import Scale
from tools.whatif.critical_path import critical_path
from tools.whatif.graph import EdgeKind, Edges, Graph, NodeKind, Nodes, link, settle
from tools.whatif.predict import replay, unchanged
from tools.whatif.replay import Program, Times, compile_program, recorded, rerun, run_program
from tools.whatif.window import Window

STEPS = 3


@st.composite
def runs(draw: st.DrawFn) -> Profile:
    """Runs of one or two ranks: kernels on two streams in launch order, host work, waits, another thread."""
    ranks = []
    for number in range(draw(st.integers(1, 2))):
        rank = RankBuilder(rank=number)
        streams = [rank.stream, rank.device_stream(20)]
        autograd = rank.host_thread("autograd")
        now, free = 0, {stream: 0 for stream in streams}
        for step in range(STEPS):
            begun = now
            for _ in range(draw(st.integers(1, 6))):
                action = draw(st.sampled_from(["launch", "launch", "collective", "work", "wait", "backward"]))
                length = draw(st.integers(1, 300))
                if action in ("launch", "collective"):
                    stream = draw(st.sampled_from(streams))
                    start = max(now + draw(st.integers(1, 20)), free[stream] + draw(st.integers(0, 3)))
                    name = "kernel" if action == "launch" else "ncclAllReduce"
                    rank.kernel(name, start, length, call_us=now, call_duration_us=3, stream=stream)
                    free[stream], now = start + length, now + 4
                elif action == "wait":
                    end = max(now + 1, *free.values()) + draw(st.integers(0, 4))
                    rank.runtime("cudaDeviceSynchronize", now, end - now)
                    now = end + 1
                elif action == "backward":
                    rank.operator("backward", now + 2, length, track=autograd)
                    rank.kernel("gradient", max(free[streams[0]], now + 9), 5, call_us=now + 4, host_track=autograd)
                    free[streams[0]] = max(free[streams[0]], now + 9) + 5
                    now += length + 10
                else:
                    rank.operator("work", now, length)
                    now += length + draw(st.integers(0, 40))
            now += 5
            rank.step(step, begun, now)
        ranks.append(rank)
    return profile_of(*ranks)


@settings(max_examples=15, deadline=None)
@given(runs())
def test_a_replay_without_change_reproduces_every_recorded_moment(profile: Profile) -> None:
    base = unchanged(profile)
    assert np.array_equal(base.identity.end_ns, base.graph.nodes.end_ns)
    assert base.missed_ms == 0.0


@settings(max_examples=15, deadline=None)
@given(runs())
def test_every_node_and_gap_that_a_pace_applies_to_is_of_one_track(profile: Profile) -> None:
    graph = unchanged(profile).graph
    nodes, edges = graph.nodes, graph.edges
    free = set(np.flatnonzero(~nodes.frozen).tolist())
    assert sorted(node for parts in graph.tracks.values() for node in parts.nodes.tolist()) == sorted(free)
    for (rank, track), parts in graph.tracks.items():
        assert set(nodes.rank[parts.nodes]) == {rank}
        assert set(nodes.track[parts.nodes]) == {track}
        waiting = (edges.kind == EdgeKind.STREAM) & (edges.lag_ns > 0) & np.isin(edges.target, parts.nodes)
        assert parts.gaps.tolist() == np.flatnonzero(waiting).tolist()


@settings(max_examples=15, deadline=None)
@given(runs(), st.integers(0, 3), st.floats(0, 1), st.integers(0, 1500), st.integers(1, 1500))
def test_time_taken_away_anywhere_never_delays_anything(
    profile: Profile, track: int, factor: float, start_us: int, length_us: int
) -> None:
    span = np.array([[start_us, start_us + length_us]], dtype=np.int64) * 1000
    after = replay(profile, (Scale(0, track, span, factor),))
    base = unchanged(profile)
    # Rounding to whole nanoseconds may cost half of one per node.
    assert (after.end_ns <= base.identity.end_ns + len(base.graph.nodes)).all()


@settings(max_examples=15, deadline=None)
@given(runs(), st.integers(0, 3), st.floats(0, 1), st.floats(0, 1))
def test_a_smaller_factor_never_gives_a_longer_run(profile: Profile, track: int, one: float, other: float) -> None:
    low, high = sorted((one, other))
    span = np.array([[0, 10**8]], dtype=np.int64)
    less, more = (replay(profile, (Scale(0, track, span, factor),)) for factor in (low, high))
    assert less.finish_ns <= more.finish_ns + len(unchanged(profile).graph.nodes)


@settings(max_examples=15, deadline=None)
@given(runs())
def test_the_critical_path_tiles_the_steps_of_the_rank_where_it_ends(profile: Profile) -> None:
    path = critical_path(profile)
    steps = {step.number: step for step in profile.rank(path.rank).rank.steps}
    for table in (path.families, path.segments):
        for number, mine in table.groupby("step"):
            step = steps[int(str(number))]
            bounds = np.concatenate(([step.start_ns], mine["end_ns"].to_numpy()))
            assert np.array_equal(mine["start_ns"].to_numpy(), bounds[:-1])
            assert bounds[-1] == step.end_ns
    assert path.segments["what"].tolist()
    assert sum(path.ms().values()) == pytest.approx(sum(step.wall_ns for step in steps.values()) / 1e6 / STEPS)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Up to seven nodes after the origin with random edges forward, made to match a consistent record."""
    count = draw(st.integers(1, 7))
    own = [0] + [draw(st.integers(1, 50)) for _ in range(count)]
    edges = [
        (source, target, draw(st.integers(0, 20)))
        for target in range(1, count + 1)
        for source in range(target)
        if source == 0 or draw(st.booleans())
    ]
    end = [0]
    for node in range(1, count + 1):
        end.append(max(end[source] + lag for source, target, lag in edges if target == node) + own[node])
    source, target, lag = (np.array(side, dtype=np.int64) for side in zip(*edges, strict=True))
    zero = np.zeros(count + 1, dtype=np.int64)
    nodes = Nodes(
        kind=np.array([NodeKind.ORIGIN] + [NodeKind.DEVICE] * count, dtype=np.int8),
        rank=zero,
        track=zero,
        row=zero - 1,
        end_ns=np.array(end, dtype=np.int64),
        own_ns=np.array(own, dtype=np.int64),
        frozen=zero.astype(bool),
        collective=zero - 1,
        begin_ns=np.array(end, dtype=np.int64) - np.array(own, dtype=np.int64),
    )
    moment = np.zeros(1, dtype=np.int64)
    window = Window((0,), (0,), moment, moment + max(end), (1.0,))
    return settle(window, nodes, Edges(source, target, lag, np.full(len(lag), 4, dtype=np.int8)))


@st.composite
def layered_graphs(draw: st.DrawFn) -> tuple[Program, Times]:
    """Up to 300 nodes in several chains with few edges between them, so that most changes stay local."""
    chains, length = draw(st.integers(2, 10)), draw(st.integers(2, 30))
    random = np.random.default_rng(draw(st.integers(0, 1 << 16)))
    nodes = np.arange(1, chains * length + 1)
    before = np.where(nodes > chains, nodes - chains, 0)
    across = random.random(len(nodes)) < draw(st.sampled_from([0.02, 0.3]))
    other = nodes[across] - 1 - random.integers(0, chains, across.sum())
    source = np.concatenate((before, np.maximum(other, 0)))
    target = np.concatenate((nodes, nodes[across]))
    order = np.argsort(target, kind="stable")
    edges = link(source[order], target[order], EdgeKind.STREAM)
    own = np.append(0, random.integers(0, 50, len(nodes)))
    return compile_program(edges, np.arange(len(own))), Times(own, random.integers(0, 100, len(edges)))


def longest(graph: Graph, times: Times) -> int:
    """The longest chain from the origin to any node, by trying all of them."""

    def ending_in(node: int) -> int:
        into = np.flatnonzero(graph.edges.target == node)
        before = [ending_in(int(graph.edges.source[edge])) + int(times.lag_ns[edge]) for edge in into]
        return max(before, default=0) + int(times.own_ns[node])

    return max(ending_in(node) for node in range(len(graph.nodes)))


@settings(max_examples=200, deadline=None)
@given(graphs(), st.lists(st.integers(0, 60), min_size=8, max_size=8))
def test_a_replay_takes_as_long_as_the_longest_of_all_chains(graph: Graph, own: list[int]) -> None:
    program = compile_program(graph.edges, graph.order)
    for times in (recorded(graph), Times(np.array([0, *own[: len(graph.nodes) - 1]]), graph.edges.lag_ns)):
        assert run_program(program, times).finish_ns == longest(graph, times)


@settings(max_examples=200, deadline=None)
@given(layered_graphs(), st.data())
def test_a_partial_replay_equals_the_full_one(program_and_times: tuple[Program, Times], data: st.DataObject) -> None:
    program, times = program_and_times
    before = run_program(program, times)
    own, lag = times.own_ns.copy(), times.lag_ns.copy()
    for values, first in ((own, 1), (lag, 0)):
        for place in data.draw(st.lists(st.integers(first, len(values) - 1), max_size=3)):
            values[place] = data.draw(st.integers(0, 60))
    after = Times(own, lag)
    full = run_program(program, after)
    again = rerun(program, before, after)
    assert np.array_equal(again.end_ns, full.end_ns)
    assert again.place_end_ns == full.place_end_ns
    assert np.array_equal(rerun(program, again, times).end_ns, before.end_ns)
