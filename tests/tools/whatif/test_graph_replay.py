"""Graphs from JSON: queues, edges, longest path, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_agent.demo.data import demo_run
from tools.errors import UsageError
from tools.sources.load import load_run
from tools.views.profile import Profile
from tools.whatif.graph_json import GraphInput, graph_json, read_graph
from tools.whatif.graph_replay import GraphReplay, replay_graph
from tools.whatif.predict import unchanged


def graph(nodes: Mapping[str, tuple[str, float]], edges: Mapping[str, float] | None = None, **more: str) -> GraphInput:
    """A graph of ``id: (resource, duration_ms)`` and edges ``"source target": lag_ms``; names are first letters."""
    record = {
        "schema": "hermes-dx/graph/1",
        "nodes": [{"id": i, "name": i[0], "resource": where, "duration_ms": ms} for i, (where, ms) in nodes.items()],
        "edges": [
            {"source": pair.split()[0], "target": pair.split()[1], "lag_ms": lag} for pair, lag in (edges or {}).items()
        ],
    }
    return read_graph(json.dumps(record | more))


def starts(replay: GraphReplay) -> dict[str, float]:
    """Start of each operator of the longest path."""
    return {node.id: node.start_ms for node in replay.path}


BACKWARD = {"f0": ("gpu", 3), "b1": ("gpu", 4), "b0": ("gpu", 2), "r1": ("link", 5), "r0": ("link", 3)}
EDGES = {"f0 b1": 0, "b1 b0": 0, "b1 r1": 0, "b0 r0": 0}


def test_one_resource_does_one_operator_at_a_time() -> None:
    found = replay_graph(graph(BACKWARD, EDGES))
    assert found.makespan_ms == 3 + 4 + 5 + 3  # the second transfer waits for the link
    assert starts(found) == {"f0": 0, "b1": 3, "r1": 7, "r0": 12}
    assert found.busy_ms == {"gpu": 9, "link": 8}
    assert sum(found.path_ms.values()) == found.makespan_ms


def test_with_edges_alone_resources_hold_nothing_back() -> None:
    found = replay_graph(graph(BACKWARD, EDGES, order="edges"))
    assert found.makespan_ms == 12  # b0 ends at 9, r0 at 12, r1 at 12


def test_the_operator_that_is_ready_first_goes_first_whatever_the_order_of_the_file() -> None:
    nodes = {"late": ("gpu", 1.0), "first": ("host", 2.0), "early": ("gpu", 10.0), "other": ("host2", 1.0)}
    found = replay_graph(graph(nodes, {"first late": 0, "other early": 0}))
    assert found.makespan_ms == 12
    assert starts(found) == {"other": 0, "early": 1, "late": 11}


def test_a_lag_counts_on_the_path() -> None:
    found = replay_graph(graph({"a": ("", 1), "b": ("", 2)}, {"a b": 0.5}))
    assert found.path_ms == {"computation": 3, "lag": 0.5}
    assert found.makespan_ms == 3.5


def test_durations_are_scaled_by_name_pattern() -> None:
    half = replay_graph(graph(BACKWARD, EDGES), [("r*", 0.5)])
    assert half.makespan_ms == 3 + 4 + 2.5 + 1.5
    none = replay_graph(graph(BACKWARD, EDGES), [("*", 0.0)])
    assert none.makespan_ms == 0
    with pytest.raises(UsageError, match=r"no node has the name 'forwrd'; the nearest one is '[fbr]'"):
        replay_graph(graph(BACKWARD, EDGES), [("forwrd", 0.5)])


@pytest.mark.parametrize(
    ("edges", "named"),
    [({"a b": 0, "b a": 0}, "a -> b -> a|b -> a -> b"), ({"a b": 0, "b c": 0, "c b": 0}, "b -> c -> b|c -> b -> c")],
)
def test_a_cycle_is_named(edges: dict[str, float], named: str) -> None:
    with pytest.raises(UsageError, match=f"the graph has a cycle: ({named}); remove one of its edges"):
        replay_graph(graph({"a": ("", 1), "b": ("", 1), "c": ("", 1)}, edges))


def test_an_operator_that_waits_for_itself_is_a_cycle() -> None:
    with pytest.raises(UsageError, match="the graph has a cycle: a -> a;"):
        replay_graph(graph({"a": ("", 1)}, {"a a": 0}))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"nodes": []}, "nodes"),
        ({"nodes": [{"id": "a", "duration_ms": -1}]}, r"nodes\[0\].duration_ms: -1 is not possible"),
        ({"nodes": [{"id": "a"}]}, r"nodes\[0\].duration_ms is missing"),
        ({"nodes": [{"id": "a", "duration_ms": 1}] * 2}, "two nodes have the id 'a'"),
        ({"edges": [{"source": "a", "target": "x"}]}, r"edges\[0\] names 'x', which is the id of no node"),
        ({"edges": [{"source": "a", "target": "b", "lag_ms": -2}]}, r"edges\[0\].lag_ms: -2 is not possible"),
        ({"schema": "hermes-dx/graph/2"}, "schema"),
        ({"traceEvents": []}, "this is a trace, not a graph"),
        ({"nodez": []}, "unknown field 'nodez'; the nearest known one is nodes"),
    ],
)
def test_a_wrong_graph_is_refused_in_one_sentence(change: dict[str, object], sentence: str) -> None:
    nodes = [{"id": "a", "duration_ms": 1}, {"id": "b", "duration_ms": 1}]
    with pytest.raises(UsageError, match=sentence) as error:
        read_graph(json.dumps({"schema": "hermes-dx/graph/1", "nodes": nodes} | change))
    assert "\n" not in str(error.value)


def test_times_that_no_clock_holds_are_refused() -> None:
    nodes = {str(place): ("", 1e12) for place in range(5)}
    with pytest.raises(UsageError, match="add up to more than 146 years"):
        replay_graph(graph(nodes, {"0 1": 0, "1 2": 0}))


def test_the_graph_of_a_run_replays_to_its_recorded_end() -> None:
    profile = Profile(load_run([demo_run()]))
    base = unchanged(profile)
    given = graph_json(profile, base.graph)
    again = read_graph(given.model_dump_json())
    assert again == given
    recorded_ms = (base.graph.recorded_end_ns - base.graph.window.origin_ns) / 1e6
    assert replay_graph(again).makespan_ms == pytest.approx(recorded_ms, abs=1e-9)


def by_minutes(nodes: list[tuple[int, int]], edges: set[tuple[int, int]]) -> int:
    """Makespan of first-come-first-served queues, found by going forward one unit of time after the other."""
    end: dict[int, int] = {}
    free: dict[int, int] = {}
    ready: dict[int, int] = {}
    now = 0
    while len(end) < len(nodes):
        for node in range(len(nodes)):
            before = [source for source, target in edges if target == node]
            if node not in ready and all(source in end and end[source] <= now for source in before):
                ready[node] = now
        for node in sorted((each for each in ready if each not in end), key=lambda each: (ready[each], each)):
            resource, lasts = nodes[node]
            if free.get(resource, 0) <= now:
                end[node] = free[resource] = now + lasts
        now += 1
    return max(end.values())


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 6)), min_size=1, max_size=9), st.data())
def test_queues_equal_a_simulation_minute_by_minute(nodes: list[tuple[int, int]], data: st.DataObject) -> None:
    pairs = [(source, target) for target in range(len(nodes)) for source in range(target)]
    chosen = data.draw(st.sets(st.sampled_from(pairs), max_size=12)) if pairs else set()
    # Another order of the file only breaks ties, and sources may come after their targets there.
    order = np.array(data.draw(st.permutations(range(len(nodes)))))
    place = np.argsort(order)
    edges = {(int(place[source]), int(place[target])) for source, target in chosen}
    shuffled = [nodes[each] for each in order]
    made = graph(
        {str(each): (f"resource {where}", lasts) for each, (where, lasts) in enumerate(shuffled)},
        {f"{source} {target}": 0 for source, target in edges},
    )
    assert replay_graph(made).makespan_ms == by_minutes(shuffled, edges)
