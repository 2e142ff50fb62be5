"""Timelines of MindSpore's profiler: bare lists of events, in which a thread is a stream of the NPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.judgement.ranking import ranking
from tools.metrics.registry import measure
from tools.run.events import EventKind
from tools.sources.load import load_run
from tools.views.profile import Profile


def node(name: str, ts: float, dur: float, tid: str = "519") -> dict[str, Any]:
    return {
        "name": name,
        "ph": "X",
        "pid": 1,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": {"fullname": f"Default/{name}"},
    }


def test_numbered_nodes_are_kernels_of_their_stream(tmp_path: Path) -> None:
    events = [node("MatMul-op1", 1000, 300), node("AllReduce-op2", 1300, 100), node("MatMul-op3", 1600, 400)]
    events.append({"name": "GetNext", "ph": "X", "pid": 9000, "tid": "0", "ts": 100, "dur": 50})
    path = tmp_path / "ascend_timeline_display_0.json"
    path.write_text(json.dumps(events))
    profile = Profile(load_run([path]))
    view = profile.rank(0)
    assert view.names(view.kernels) == ["MatMul-op1", "AllReduce-op2", "MatMul-op3"]
    assert view.names(view.communication_kernels) == ["AllReduce-op2"]
    assert view.events.tracks["stream"].max() == 519
    assert (view.kind == EventKind.OTHER).sum() == 1
    assert measure(profile, "part_ms", part="compute", rank=0).value == 0.7
    assert not [lead for lead in ranking(profile).leads if "pauses" in lead.claim.template]


def test_a_timeline_of_the_device_alone_is_not_called_healthy(tmp_path: Path) -> None:
    events = [node(f"MatMul-op{at}", 1000 + 100 * at, 99) for at in range(50)]
    events.append({"name": "GetNext", "ph": "X", "pid": 9000, "tid": "0", "ts": 100, "dur": 50})
    path = tmp_path / "ascend_timeline_display_0.json"
    path.write_text(json.dumps(events))
    known = ranking(Profile(load_run([path])))
    assert known.verdict == "inconclusive"
    assert "nothing of the host was recorded" in known.why
    assert "the host's operators and calls" in known.needs


def test_threads_of_other_lists_are_no_streams(tmp_path: Path) -> None:
    events = [node(name, 1000 + 100 * at, 50) for at, name in enumerate(("load", "parse", "sort", "rank-op1"))]
    path = tmp_path / "t.json"
    path.write_text(json.dumps(events))
    (rank,) = load_run([path]).ranks
    assert not rank.has_device
