"""``hermes-dx/graph/1``: a dependency graph as JSON, of any origin."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import ConfigDict, Field, model_validator

from tools.errors import UsageError
from tools.views.profile import Profile
from tools.whatif.graph import ORIGIN, EdgeKind, Graph, NodeKind
from tools.whatif.planners.reading import read_input
from tools.whatif.planners.record import Given, Milliseconds

SCHEMA = "hermes-dx/graph/1"
MAX_NODES = 1_000_000
MAX_EDGES = 4_000_000
LONGEST_NAME = 200  # characters

Name = Annotated[str, Field(max_length=LONGEST_NAME)]


class GraphNode(Given):
    """An operator. With queues a resource does one operator at a time; one without a resource waits for edges only."""

    id: Name
    name: Name = ""
    resource: Name = Field(default="", description="what is busy meanwhile: a stream, a link, a host thread")
    duration_ms: Milliseconds
    kind: Name = Field(default="computation", description="computation, communication, or any other word")


class GraphEdge(Given):
    """``target`` starts at the earliest ``lag_ms`` after the end of ``source``."""

    source: Name
    target: Name
    lag_ms: Milliseconds = 0.0
    kind: Name = "data"


class GraphInput(Given):
    """A graph to replay."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False, serialize_by_alias=True)

    schema_: Literal["hermes-dx/graph/1"] = Field(alias="schema")
    order: Literal["queues", "edges"] = Field(
        default="queues",
        description="queues: each resource takes its operators in the order in which they become ready, ties in the "
        "order of the file; edges: nothing but the edges holds an operator back",
    )
    nodes: list[GraphNode] = Field(min_length=1, max_length=MAX_NODES)
    edges: list[GraphEdge] = Field(default=[], max_length=MAX_EDGES)

    @model_validator(mode="after")
    def _connected(self) -> Self:
        known = {node.id for node in self.nodes}
        if len(known) < len(self.nodes):
            (twice, _), *_ = Counter(node.id for node in self.nodes).most_common(1)
            raise ValueError(f"two nodes have the id {twice!r}; give each its own")
        for place, edge in enumerate(self.edges):
            for end in (edge.source, edge.target):
                if end not in known:
                    raise ValueError(f"edges[{place}] names {end!r}, which is the id of no node")
        return self


def read_graph(text: str | bytes) -> GraphInput:
    """The graph of a JSON text; raises UsageError with the first fault, and how many there are."""
    if b'"traceEvents"' in (text if isinstance(text, bytes) else text.encode())[:100_000]:
        raise UsageError("this is a trace, not a graph; replay TRACE --graph FILE writes its graph")
    return read_input(GraphInput, text)


def graph_json(profile: Profile, graph: Graph) -> GraphInput:
    """The graph of a run's representative steps, with the order of each thread and stream as edges."""
    nodes, edges = graph.nodes, graph.edges
    names, resources = node_labels(profile, graph)
    kinds = [NodeKind(kind).name.lower() for kind in range(len(NodeKind))]
    words = [EdgeKind(kind).name.lower() for kind in range(len(EdgeKind))]
    listed = zip(nodes.own_ns.tolist(), nodes.kind.tolist(), names, resources, strict=True)
    ends = zip(edges.source.tolist(), edges.target.tolist(), edges.lag_ns.tolist(), edges.kind.tolist(), strict=True)
    return GraphInput(
        schema="hermes-dx/graph/1",
        order="edges",
        nodes=[
            GraphNode(
                id=str(place), name=name or kinds[kind], resource=resource, duration_ms=own / 1e6, kind=kinds[kind]
            )
            for place, (own, kind, name, resource) in enumerate(listed, ORIGIN)
        ],
        edges=[
            GraphEdge(source=str(source), target=str(target), lag_ms=lag / 1e6, kind=words[kind])
            for source, target, lag, kind in ends
        ],
    )


def node_labels(profile: Profile, graph: Graph) -> tuple[list[str], list[str]]:
    """The name of each node's operation, and the rank with its thread or stream; "" where it has none."""
    nodes = graph.nodes
    names, resources = [""] * len(nodes), [""] * len(nodes)
    for number in graph.window.ranks:
        rank = profile.rank(number)
        mine = np.flatnonzero(nodes.rank == number)
        named = mine[nodes.row[mine] >= 0]
        for node, name in zip(named.tolist(), rank.names(nodes.row[named]), strict=True):
            names[node] = name[:LONGEST_NAME]
        tracks = rank.events.tracks
        lanes = [
            f"stream {stream}" if stream >= 0 else f"thread {thread}"
            for stream, thread in zip(tracks["stream"].tolist(), tracks["tid"].astype(str).tolist(), strict=True)
        ]
        for node, track in zip(mine.tolist(), nodes.track[mine].tolist(), strict=True):
            resources[node] = f"rank {number} {lanes[track]}"[:LONGEST_NAME]
    return names, resources
