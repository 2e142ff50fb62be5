from __future__ import annotations

import json
from pathlib import Path
from time import time_ns

from hermes_agent.watch.neighbours import Neighbours, read_summary


def agents(folder: Path, *hosts: str) -> list[Neighbours]:
    (folder / "monitor").mkdir()
    return [Neighbours(folder, host) for host in hosts]


def test_agents_hear_of_each_others_ranks(tmp_path: Path) -> None:
    first, second = agents(tmp_path, "node/1", "node2")
    assert first.exchange({0: 10, 1: 10}, 0.0) == {0: 10, 1: 10}
    assert second.exchange({2: 9}, 0.0) == {0: 10, 1: 10, 2: 9}
    assert first.exchange({0: 11, 1: 10}, 1.0) == {0: 11, 1: 10}  # not yet looked again
    assert first.exchange({0: 11, 1: 10}, 3.0) == {0: 11, 1: 10, 2: 9}


def test_an_agent_that_fell_silent_or_writes_nonsense_is_not_heard(tmp_path: Path) -> None:
    (first,) = agents(tmp_path, "node1")
    old = {"host": "node2", "unix_ns": time_ns() - 60_000_000_000, "steps": {"4": 7}}
    (tmp_path / "monitor/agent-node2.json").write_text(json.dumps(old), encoding="utf-8")
    for name, text in (("a", "{"), ("b", "[]"), ("c", '{"steps": {"x": 1}, "host": "c", "unix_ns": 1}')):
        path = tmp_path / f"monitor/agent-{name}.json"
        path.write_text(text, encoding="utf-8")
        assert read_summary(path) is None
    assert first.exchange({0: 1}, 0.0) == {0: 1}
