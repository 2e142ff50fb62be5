"""The workflow as a LangGraph graph."""

from __future__ import annotations

from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from hermes_agent.workflow.nodes import NODES, fan_out
from hermes_agent.workflow.state import State
from hermes_agent.workflow.workspace import Context

RECURSION_LIMIT = 25  # the longest path has nine nodes


def build() -> CompiledStateGraph[State, Context, State, State]:
    """The compiled workflow: load, coarse, inter-operator, fan out to the families, explain, recall, predict, write."""
    graph: StateGraph[State, Context, State, State] = StateGraph(State, context_schema=Context)
    for name, node in NODES.items():
        graph.add_node(name, node)  # type: ignore[call-overload]
    graph.add_edge(START, "load")
    graph.add_edge("load", "coarse")
    graph.add_edge("coarse", "inter_operator")
    graph.add_conditional_edges("inter_operator", fan_out, ["family"])
    graph.add_edge("family", "families")
    graph.add_edge("families", "explain")
    graph.add_edge("explain", "recall")
    graph.add_edge("recall", "predict")
    graph.add_edge("predict", "write")
    graph.add_edge("write", END)
    return graph.compile()


def config() -> dict[str, Any]:
    """How the graph is run: bounded. No ``max_concurrency``: LangGraph's own stream reader takes one of its places."""
    return {"recursion_limit": RECURSION_LIMIT}
