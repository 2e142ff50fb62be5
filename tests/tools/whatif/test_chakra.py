"""Chakra execution traces, written here by an encoder of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from hermes_agent.cli.main import main
from tools.errors import InputError
from tools.whatif.chakra import read_chakra
from tools.whatif.graph_replay import replay_graph

COMPUTE, COLLECTIVE = 4, 7


def varint(value: int) -> bytes:
    """Seven bits a byte, the last byte below 128."""
    pieces = []
    while value > 0x7F:
        pieces.append(0x80 | value & 0x7F)
        value >>= 7
    return bytes([*pieces, value])


def number(place: int, value: int) -> bytes:
    """A field with a number."""
    return varint(place << 3) + varint(value)


def text(place: int, value: bytes) -> bytes:
    """A field with text, packed numbers or a message."""
    return varint(place << 3 | 2) + varint(len(value)) + value


def node(
    place: int,
    name: str,
    kind: int,
    duration_us: int,
    needs: Sequence[int] = (),
    packed: bool = True,
    **attributes: int,
) -> bytes:
    """One operator; its control dependency names the enclosing one."""
    listed = text(5, b"".join(map(varint, needs))) if packed else b"".join(number(5, need) for need in needs)
    described = b"".join(text(10, text(1, key.encode()) + number(9, value)) for key, value in attributes.items())
    ratio = text(10, text(1, b"ratio") + varint(3 << 3 | 1) + bytes(8))
    shape = text(8, text(2, b"[[1]]"))
    named = number(1, place) + text(2, name.encode()) + number(3, kind) + text(4, varint(99))
    return named + listed + number(7, duration_us) + shape + described + ratio


def trace(*nodes: bytes) -> bytes:
    """The metadata and the operators, each with its length in front."""
    return b"".join(varint(len(each)) + each for each in (text(1, b"0.0.4"), *nodes))


STEP = trace(
    node(1, "launch", COMPUTE, 300, is_cpu_op=1, tid=7),
    node(2, "gemm", COMPUTE, 2000, needs=(1,), is_cpu_op=0, stream=20),
    node(3, "relu", COMPUTE, 1000, needs=(1,), packed=False, is_cpu_op=0, stream=20),
    node(4, "all_reduce", COLLECTIVE, 5000, needs=(2, 3, 2), is_cpu_op=0),
    node(300, "norm", COMPUTE, 400, needs=(2, 77), is_cpu_op=0, stream=20),
)


def test_operators_durations_resources_and_dependencies_are_read() -> None:
    found = read_chakra(STEP)
    nodes = {each.id: (each.name, each.resource, each.duration_ms, each.kind) for each in found.graph.nodes}
    assert nodes == {
        "1": ("launch", "host thread 7", 0.3, "computation"),
        "2": ("gemm", "device stream 20", 2.0, "computation"),
        "3": ("relu", "device stream 20", 1.0, "computation"),
        "4": ("all_reduce", "network", 5.0, "communication"),
        "300": ("norm", "device stream 20", 0.4, "computation"),
    }
    edges = [(each.source, each.target) for each in found.graph.edges]
    assert edges == [("1", "2"), ("1", "3"), ("2", "4"), ("3", "4"), ("2", "300")]
    assert found.dropped == 1


def test_the_replay_keeps_one_operator_per_resource() -> None:
    made = replay_graph(read_chakra(STEP).graph)
    assert made.makespan_ms == pytest.approx(0.3 + 2.0 + 1.0 + 5.0)  # the relu waits for the gemm's stream
    assert made.busy_ms["device stream 20"] == pytest.approx(3.4)


def test_the_command_replays_a_trace_and_counts_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "chakra.0.et"
    file.write_bytes(STEP)
    assert main(["replay", str(file), "--scale", "all_reduce=0.5"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("Makespan (by simulation): 5.8 ms instead of 8.3 ms")
    assert "dependencies on nodes that the trace does not hold are left out: 1" in printed.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (STEP[:-3], "cut off"),
        (b"\xff" * 30, "a number does not end"),
        (trace(), "it holds no node"),
        (trace(node(1, "a", COMPUTE, 1), node(1, "b", COMPUTE, 1)), "the same id"),
        (trace(varint(3 << 3 | 3)), "unknown wire type 3"),
        (trace(text(2, b"name")[:-2]), "longer than its message"),
    ],
)
def test_what_is_no_trace_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_chakra(content)


def test_a_broken_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "broken.et"
    file.write_bytes(b"\xff" * 30)
    assert main(["replay", str(file)]) == 3
    assert "broken.et: this is no Chakra execution trace" in capsys.readouterr().err
