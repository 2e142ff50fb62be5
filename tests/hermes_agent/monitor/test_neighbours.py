from __future__ import annotations

import json
import os
from pathlib import Path
from time import time_ns

from hermes_agent.watch.journal import Neighbours, summary_bytes, summary_of


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
        assert summary_of(summary_bytes(path)) is None
    assert first.exchange({0: 1}, 0.0) == {0: 1}


def test_what_anybody_may_put_beside_the_records_does_not_end_the_agent(tmp_path: Path) -> None:
    (first,) = agents(tmp_path, "node1")
    now = time_ns()
    files = {
        "endless": '{"host":"a","unix_ns":Infinity,"steps":{}}',
        "far": '{"host":"a","unix_ns":1e999,"steps":{}}',
        "deep": "[" * 500_000,
        "deep-inside": '{"x":' + "[" * 500_000,
        "huge-step": json.dumps({"host": "a", "unix_ns": now, "steps": {"1": 1 << 80}}),
        "negative-rank": json.dumps({"host": "a", "unix_ns": now, "steps": {"-1": 1}}),
        "large": json.dumps({"host": "a" * (1 << 20), "unix_ns": now, "steps": {"1": 1}}),
    }
    for name, text in files.items():
        (tmp_path / f"monitor/agent-{name}.json").write_text(text, encoding="utf-8")
    outside = tmp_path / "outside.json"
    outside.write_text(json.dumps({"host": "a", "unix_ns": now, "steps": {"7": 7}}), encoding="utf-8")
    (tmp_path / "monitor/agent-link.json").symlink_to(outside)
    os.mkfifo(tmp_path / "monitor/agent-pipe.json")
    (tmp_path / "monitor/agent-folder.json").mkdir()
    assert first.exchange({0: 1}, 0.0) == {0: 1}
    assert summary_of(summary_bytes(outside)) is not None
