"""Whatever a run calls its things, no report carries it raw."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.events import Event
from hermes_agent.model.request import Request
from hermes_agent.report.markdown import render_markdown
from hermes_agent.report.perfetto import write_perfetto
from hermes_agent.report.text import render_text
from hermes_agent.workflow.diagnose import diagnose
from tests.tools.sources.kineto_text import kernel, launch, rank_info, span, write_trace
from tools.errors import UsageError

EVIL = "\x1b[31m\x1b]8;;http://evil\x07x\x9b1m \u202e\u2028\nline \ud800 [E1] | `<b>` [click](http://evil)"


def ignore(_: Event) -> None: ...


@pytest.fixture(scope="module")
def evil(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    (folder / os.fsdecode(b"\x1b[31m\xff.txt")).write_text("")
    for rank in (0, 1):
        events = []
        for n in range(4):
            at = 10_000 * n
            of_collective = {"Collective name": "allreduce" + EVIL, "Process Group Name": "g" + EVIL, "Group size": 2}
            events += [
                span(f"ProfilerStep#{n}", at, 9_000, "user_annotation"),
                span("aten::mm" + EVIL, at + 10, 5_000),
                launch(at + 20, 5, n + 1),
                kernel("k" + EVIL, at + 30, 3_000, n + 1),
                kernel("ncclKernel_AllReduce" + EVIL, at + 3_030, 4_000, -1, 20, **of_collective),
            ]
        device = {"id": 0, "name": "GPU" + EVIL}
        job = rank_info(rank, backend="nccl" + EVIL, pg_config=[{"pg_name": "g" + EVIL, "ranks": [0, 1]}])
        name = os.fsdecode(b"rank%d\x1b[31m\xff.json" % rank)
        write_trace(folder / name, events, distributedInfo=job, deviceProperties=[device])
    return folder


@pytest.fixture(scope="module")
def diagnosis(evil: Path, shared_cache: Path) -> Diagnosis:
    return diagnose(Request(paths=(evil,), workers=1, cache_dir=shared_cache), ignore)


def test_text_and_markdown_print_as_they_stand(diagnosis: Diagnosis) -> None:
    for report in (render_text(diagnosis), render_markdown(diagnosis)):
        assert [line for line in report.splitlines() if not line.isprintable()] == []
        assert "GPU" in report or "rank0" in report


def test_the_record_holds_nothing_that_does_not_print(diagnosis: Diagnosis) -> None:
    record = json.loads(diagnosis.model_dump_json(by_alias=True))

    assert [text for text in _texts(record) if not text.isprintable()] == []


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in parts for text in _texts(part)]


def test_markdown_shows_what_was_assumed_with_its_markup_disarmed(diagnosis: Diagnosis) -> None:
    noted = diagnosis.model_copy(update={"notes": ["see [here](http://evil) <img>"]})

    assert r"- see \[here\](http://evil) \<img\>" in render_markdown(noted)


def test_the_annotated_trace_carries_printable_names(evil: Path, diagnosis: Diagnosis, tmp_path: Path) -> None:
    target = tmp_path / "out.json"

    write_perfetto(Request(paths=(evil,), workers=1), diagnosis, target)

    events = json.loads(target.read_text())["traceEvents"]
    assert sum(event["ph"] == "X" and event["cat"] == "run" for event in events) > 0
    assert all(event["name"].isprintable() for event in events)


def test_a_trace_of_the_run_is_never_overwritten(evil: Path, diagnosis: Diagnosis) -> None:
    trace = next(evil.glob("*.json"))
    before = trace.read_bytes()

    with pytest.raises(UsageError, match="never overwritten"):
        write_perfetto(Request(paths=(evil,), workers=1), diagnosis, trace)

    assert trace.read_bytes() == before
