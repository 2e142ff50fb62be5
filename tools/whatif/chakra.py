"""Chakra execution traces (mlcommons/chakra, ``schema/protobuf/et_def.proto``) as graphs to replay.

A file holds the operators of one rank: length-delimited Protocol Buffers messages, first the metadata, then a node
each. A node starts when the nodes of its data dependencies have ended, as in Chakra's own feeder (control dependencies
name the enclosing operator), and its resource is free: its host thread, its stream, or the network for sends, receives
and collectives. Collectives of several ranks are not joined.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tools.errors import InputError
from tools.whatif.graph_json import LONGEST_NAME, MAX_EDGES, MAX_NODES, GraphEdge, GraphInput, GraphNode

US_PER_MS = 1000.0
METADATA_NODE = 1
COMMUNICATION = {5: "send", 6: "receive", 7: "collective"}
LONGEST_VARINT = 10  # bytes
VARINT, FIXED_64, DELIMITED, FIXED_32 = 0, 1, 2, 5
FIXED_BYTES = {FIXED_64: 8, FIXED_32: 4}


@dataclass
class _Node:
    """One operator as recorded."""

    number: int = 0
    name: str = ""
    kind: int = 0
    duration_us: int = 0
    needs: list[int] = field(default_factory=list)
    attributes: dict[str, int] = field(default_factory=dict)

    @property
    def resource(self) -> str:
        """What is busy meanwhile."""
        if self.kind in COMMUNICATION:
            return "network"
        if self.attributes.get("is_cpu_op", 0):
            return f"host thread {self.attributes.get('tid', 0)}"
        return f"device stream {self.attributes.get('stream', 0)}"


@dataclass(frozen=True)
class ChakraGraph:
    """The graph of one rank; ``dropped``: dependencies on nodes that the file does not hold."""

    graph: GraphInput
    dropped: int


def read_chakra(content: bytes) -> ChakraGraph:
    """The graph of an execution trace; InputError where the bytes are none."""
    messages = _messages(content)
    if next(messages, None) is None:
        raise InputError("the file is empty; name a Chakra execution trace (.et)")
    nodes = [node for node in map(_node, messages) if node.kind != METADATA_NODE]
    known = {node.number for node in nodes}
    if not nodes or len(known) < len(nodes):
        why = "two nodes have the same id" if nodes else "it holds no node"
        raise InputError(f"this is no Chakra execution trace: {why}")
    needed = [(need, node.number) for node in nodes for need in dict.fromkeys(node.needs)]
    edges = [(source, target) for source, target in needed if source in known]
    if len(nodes) > MAX_NODES or len(edges) > MAX_EDGES:
        raise InputError(f"the trace has more than {MAX_NODES} nodes or {MAX_EDGES} dependencies; cut out a step")
    made = GraphInput(
        schema="hermes-dx/graph/1",
        order="queues",
        nodes=[
            GraphNode(
                id=str(node.number),
                name=node.name[:LONGEST_NAME],
                resource=node.resource,
                duration_ms=node.duration_us / US_PER_MS,
                kind="communication" if node.kind in COMMUNICATION else "computation",
            )
            for node in nodes
        ],
        edges=[GraphEdge(source=str(source), target=str(target)) for source, target in edges],
    )
    return ChakraGraph(made, len(needed) - len(edges))


def _messages(content: bytes) -> Iterator[bytes]:
    place = 0
    while place < len(content):
        size, place = _varint(content, place)
        if place + size > len(content):
            raise InputError("this is no Chakra execution trace, or it was cut off: a message is longer than the file")
        yield content[place : place + size]
        place += size


def _node(message: bytes) -> _Node:
    """The fields 1 id, 2 name, 3 type, 5 data dependencies, 7 duration and 10 attributes."""
    found = _Node()
    for number, value in _fields(message):
        match number, value:
            case 1, int():
                found.number = value
            case 2, bytes():
                found.name = value.decode("utf-8", "replace")
            case 3, int():
                found.kind = value
            case 5, _:
                found.needs += _numbers(value)
            case 7, int():
                found.duration_us = value
            case 10, bytes():
                found.attributes |= _attribute(value)
    return found


def _numbers(value: int | bytes) -> list[int]:
    """A repeated field: one number, or several packed."""
    if isinstance(value, int):
        return [value]
    found, place = list[int](), 0
    while place < len(value):
        number, place = _varint(value, place)
        found.append(number)
    return found


def _attribute(message: bytes) -> dict[str, int]:
    """Name and value of an attribute that is a whole number or a truth value."""
    parts = dict(_fields(message))
    name, numbers = parts.get(1), [part for key, part in parts.items() if key > 2 and isinstance(part, int)]
    return {name.decode("utf-8", "replace"): numbers[0]} if isinstance(name, bytes) and numbers else {}


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field; fixed-width numbers, which no field read here has, as bytes."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        kind = key & 7
        if kind == VARINT:
            value, place = _varint(message, place)
            yield key >> 3, value
            continue
        if kind == DELIMITED:
            size, place = _varint(message, place)
        elif kind in FIXED_BYTES:
            size = FIXED_BYTES[kind]
        else:
            raise InputError(f"this is no Chakra execution trace: a field of unknown wire type {kind}")
        if place + size > len(message):
            raise InputError("this is no Chakra execution trace: a field is longer than its message")
        yield key >> 3, message[place : place + size]
        place += size


def _varint(content: bytes, place: int) -> tuple[int, int]:
    """A number and the place behind it."""
    value = 0
    for shift, byte in enumerate(content[place : place + LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value, place + shift + 1
    raise InputError("this is no Chakra execution trace, or it was cut off: a number does not end")
