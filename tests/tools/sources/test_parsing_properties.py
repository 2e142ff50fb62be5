"""Parsing keeps every event, whatever the style of the file and wherever it is cut."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.tools.sources.kineto_text import JsonEvent, trace_text
from tools.errors import InputError
from tools.sources.kineto.reader import read_trace
from tools.sources.options import Limits, LoadOptions
from tools.sources.trace_file import TraceFile

NANOSECONDS = st.integers(min_value=0, max_value=10**12)
NAMES = st.sampled_from(["aten::mm", 'quoted "},{" name', "back\\slash", "ünïcode 漢", "", "[memory]", '"ph": "X"'])
CATEGORIES = st.sampled_from(["cpu_op", "kernel", "cuda_runtime", "python_function", "user_annotation", "odd", None])
BASES_US = st.sampled_from([0, 4_458_676_456_914, 1_694_128_201_422_525])
STYLES = st.sampled_from(["int", "float", "string"])

settings.register_profile(
    "files", deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("files")


@st.composite
def event_lists(draw: st.DrawFn) -> list[JsonEvent]:
    base_us, style = draw(BASES_US), draw(STYLES)
    events = []
    for start_ns, length_ns, name, cat in draw(
        st.lists(st.tuples(NANOSECONDS, NANOSECONDS, NAMES, CATEGORIES), min_size=1, max_size=20)
    ):
        event: JsonEvent = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": draw(st.sampled_from([1, "2"]))}
        if cat is None:
            del event["cat"]
        event["ts"] = written(base_us, start_ns, style)
        event["dur"] = written(0, length_ns, style)
        event["args"] = {"nested": [{"a": 1}, {"b": ["}", "{"]}], "correlation": start_ns % 7}
        event["start_ns"] = base_us * 1000 + (start_ns // 1000 * 1000 if style == "int" else start_ns)
        event["length_ns"] = length_ns // 1000 * 1000 if style == "int" else length_ns
        events.append(event)
        if draw(st.booleans()):
            events.append({"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 1, "pid": 1, "tid": 1, "ts": event["ts"]})
    return events


def written(base_us: int, ns: int, style: str) -> Any:  # noqa: ANN401
    us, rest = base_us + ns // 1000, ns % 1000
    if style == "int":
        return us
    return f"{us}.{rest:03d}" if style == "string" else Digits(f"{us}.{rest:03d}")


class Digits(float):
    """A number that json writes with exactly the digits it was made of."""

    def __new__(cls, digits: str) -> Digits:
        value = super().__new__(cls, digits)
        value.digits = digits
        return value

    digits: str

    def __repr__(self) -> str:
        return self.digits


def text_of(events: list[JsonEvent], **layout: Any) -> str:  # noqa: ANN401
    """JSON text in which ``Digits`` keep theirs, which json itself does not offer."""
    marked = [{key: f"@@{v!r}@@" if isinstance(v, Digits) else v for key, v in event.items()} for event in events]
    return trace_text(marked, **layout).replace('"@@', "").replace('@@"', "")


def read(path: Path, slice_bytes: int = 1 << 20) -> TraceFile:
    return read_trace(path, "", LoadOptions(workers=1, limits=Limits(slice_bytes=slice_bytes)))


def rows(trace: TraceFile) -> list[tuple[int, int, str]]:
    frame = trace.table.frame
    start = (frame["start_ns"] + trace.facts.origin_ns).tolist()
    return sorted(zip(start, (frame["end_ns"] - frame["start_ns"]).tolist(), frame["name"].astype(str), strict=True))


def expected(events: list[JsonEvent]) -> list[tuple[int, int, str]]:
    return sorted((e["start_ns"], e["length_ns"], e["name"]) for e in events if e["ph"] == "X")


@given(event_lists(), st.sampled_from([1, 17, 100, 1000, 1 << 20]), st.sampled_from([None, 2]), st.booleans())
def test_every_span_is_read_exactly_at_any_slice_size(
    tmp_path: Path, events: list[JsonEvent], slice_bytes: int, indent: int | None, zipped: bool
) -> None:
    text = text_of(events, indent=indent).encode()
    path = tmp_path / "t.json"
    path.write_bytes(gzip.compress(text) if zipped else text)

    trace = read(path, slice_bytes)

    assert rows(trace) == expected(events)
    assert trace.facts.status == "complete"
    assert trace.facts.events == len(events)
    assert trace.facts.metadata.plain["traceName"] == "t.json"


@given(event_lists(), st.randoms(use_true_random=False))
def test_the_order_of_events_in_the_file_changes_nothing(
    tmp_path: Path, events: list[JsonEvent], order: random.Random
) -> None:
    shuffled = list(events)
    order.shuffle(shuffled)
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    first.write_text(text_of(events), "utf-8")
    second.write_text(text_of(shuffled), "utf-8")

    a, b = read(first), read(second)

    columns = ["start_ns", "end_ns", "kind", "name", "track"]
    pd.testing.assert_frame_equal(a.table.frame[columns], b.table.frame[columns])
    pd.testing.assert_frame_equal(a.table.tracks, b.table.tracks)


@given(event_lists(), st.floats(min_value=0, max_value=1), st.sampled_from([50, 1 << 20]), st.booleans())
def test_a_cut_file_gives_the_events_before_the_cut_or_a_clear_error(
    tmp_path: Path, events: list[JsonEvent], share: float, slice_bytes: int, zipped: bool
) -> None:
    text = text_of(events).encode()
    whole = gzip.compress(text) if zipped else text
    cut = whole[: int(len(whole) * share)]
    path = tmp_path / "cut.json"
    path.write_bytes(cut)

    spans = [event for event in events if event["ph"] == "X"]
    try:
        found = rows(read(path, slice_bytes))
    except InputError as error:
        found, message = [], str(error)
        event("refused")
        if str(path) not in message:
            raise

    assert found == expected(spans[: len(found)])


@given(event_lists())
def test_a_bare_list_of_events_is_read_like_a_trace(tmp_path: Path, events: list[JsonEvent]) -> None:
    text = text_of(events)
    inner = text[text.index('"traceEvents": ') + len('"traceEvents": ') : text.rindex(', "traceName"')]
    path = tmp_path / "list.json"
    path.write_text(inner, "utf-8")

    assert rows(read(path)) == expected(events)


@pytest.mark.parametrize("slice_bytes", [64, 4096, 1 << 20])
def test_real_traces_keep_all_their_spans_and_marks(traces: Path, slice_bytes: int) -> None:
    path = traces / "hta" / "critical_path_alexnet.json.gz"
    recorded = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    wanted = sorted((e["ts"] * 1000, e.get("dur", 0) * 1000, e["name"]) for e in recorded if e["ph"] in "Xi")

    assert rows(read(path, slice_bytes)) == wanted
