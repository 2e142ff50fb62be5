from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from evals.benchmarks.big_traces import enlarge


def _trace(folder: Path, rank: int, start: float) -> Path:
    events = [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
        {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#4", "pid": 1, "tid": 1, "ts": start, "dur": 100},
        {
            **{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": start + 10, "dur": 50},
            "args": {"correlation": 9, "stream": 7, "External id": 3},
        },
        {"ph": "s", "id": 9, "cat": "ac2g", "name": "ac2g", "pid": 1, "tid": 1, "ts": start + 5},
    ]
    path = folder / f"rank{rank}.json"
    path.write_text(json.dumps({"schemaVersion": 1, "distributedInfo": {"rank": rank}, "traceEvents": events}))
    return path


def _read(path: str) -> dict[str, Any]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        whole: dict[str, Any] = json.load(file)
    return whole


def test_copies_are_shifted_in_time_and_in_ids(tmp_path: Path) -> None:
    sources = [_trace(tmp_path, 0, 1000.5), _trace(tmp_path, 1, 1003.5)]

    made = enlarge(sources, tmp_path / "big", json_bytes=2000)

    traces = [_read(path) for path in made.files]
    assert [trace["distributedInfo"]["rank"] for trace in traces] == [0, 1]
    timed = [event for event in traces[0]["traceEvents"] if event["ph"] != "M"]
    copies = len(timed) // 3
    assert copies > 1
    assert made.events == 2 * 3 * copies
    assert made.json_bytes >= 2000
    assert [event["ts"] for event in timed[:6:3]] == [1000.5, 1000.5 + 1100]
    kernels = [event for event in timed if event.get("cat") == "kernel"]
    assert [each["args"]["correlation"] for each in kernels] == [9 + 10 * copy for copy in range(copies)]
    assert {each["args"]["stream"] for each in kernels} == {7}
    assert [event["id"] for event in timed if event["ph"] == "s"][:2] == [9, 19]
    assert [event["name"] for event in timed[:6:3]] == ["ProfilerStep#4", "ProfilerStep#5"]


def test_ranks_stay_aligned(tmp_path: Path) -> None:
    made = enlarge([_trace(tmp_path, 0, 1000.5), _trace(tmp_path, 1, 1003.5)], tmp_path / "big", json_bytes=3000)

    starts = [[each["ts"] for each in _read(path)["traceEvents"] if each.get("cat") == "kernel"] for path in made.files]

    assert {round(other - one, 3) for one, other in zip(*starts, strict=True)} == {3.0}
