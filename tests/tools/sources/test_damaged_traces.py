"""What is whole of a damaged file is kept and the rest accounted for; what is no trace is refused with a reason."""

from __future__ import annotations

import gzip
import json
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.tools.sources.kineto_text import JsonEvent, span, trace_text, write_trace
from tools.errors import ExitCode, InputError
from tools.run.model import Run
from tools.sources.kineto.miswritten import is_single_event
from tools.sources.kineto.reader import read_trace
from tools.sources.load import load_run
from tools.sources.options import Limits, LoadOptions

ALONE = LoadOptions(workers=1)
DEFAULT = Limits()


def events(count: int = 50) -> list[JsonEvent]:
    return [span(f"op{i}", 1000 + 10 * i, 5) for i in range(count)]


def load(path: Path, limits: Limits = DEFAULT) -> Run:
    return load_run([path], replace(ALONE, limits=limits))


def names_read(path: Path, limits: Limits = DEFAULT) -> list[str]:
    """The names of the events that are read of a trace, cut or not."""
    return read_trace(path, "", replace(ALONE, limits=limits)).table.frame["name"].astype(str).tolist()


def refusal(path: Path, limits: Limits = DEFAULT) -> str:
    with pytest.raises(InputError) as caught:
        load(path, limits)
    assert caught.value.exit_code == ExitCode.INPUT
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_a_plain_file_cut_in_the_middle_keeps_the_whole_events(tmp_path: Path) -> None:
    text = trace_text(events(50))
    cut = text[: text.index('"op30"')]
    path = tmp_path / "cut.json"
    path.write_text(cut)

    run = load(path)

    assert names_read(path) == [f"op{i}" for i in range(30)]
    assert run.ranks == ()
    assert [(each.rank, each.events, each.text_bytes) for each in run.cut] == [(0, 30, len(cut))]
    assert run.sources[0].status == "partial"
    assert run.sources[0].events == 30
    assert f"30 events were read from {len(cut)} bytes of text" in run.sources[0].note


def test_a_gzip_file_cut_in_the_middle_keeps_the_whole_events(tmp_path: Path) -> None:
    path = tmp_path / "cut.json.gz"
    whole = gzip.compress(trace_text(events(5000)).encode())
    path.write_bytes(whole[: len(whole) // 2])

    run = load(path)

    read = run.cut[0].events
    assert 1000 < read < 4000
    assert names_read(path) == [f"op{i}" for i in range(read)]
    assert run.sources[0].status == "partial"
    assert "the gzip stream ends before its end mark" in run.sources[0].note
    assert any("the gzip stream ends before its end mark" in note for note in run.notes)


def test_gzip_with_a_flipped_byte_keeps_what_came_before(tmp_path: Path) -> None:
    path = tmp_path / "bad.json.gz"
    whole = bytearray(gzip.compress(trace_text(events(20000)).encode()))
    whole[len(whole) * 3 // 4] ^= 0xFF
    path.write_bytes(whole)

    run = load(path)

    assert 0 < run.cut[0].events < 20000
    assert run.sources[0].status == "partial"


def test_a_missing_end_of_array_and_object_is_a_partial_trace(tmp_path: Path) -> None:
    path = tmp_path / "open.json"
    path.write_text('{"traceEvents": [' + ",\n".join(json.dumps(event) for event in events(3)))

    run = load(path)

    assert [each.events for each in run.cut] == [3]
    assert run.sources[0].status == "partial"


def test_text_after_the_end_of_the_trace_does_not_cost_events(tmp_path: Path) -> None:
    path = tmp_path / "more.json"
    path.write_text(trace_text(events(3)) + "\n{]garbage")

    run = load(path)

    assert len(run.ranks[0].events) == 3
    assert run.sources[0].status == "partial"
    assert "what follows the events is damaged" in run.sources[0].note


@pytest.mark.parametrize("slice_bytes", [200, 1 << 20])
@pytest.mark.parametrize(
    ("number", "field"),
    [
        ("NaN", "ts"),
        ("Infinity", "dur"),
        ("-Infinity", "ts"),
        ("-5", "dur"),
        ("1e300", "ts"),
        ("9300000000000000", "ts"),
        ("99999999999999999999999999", "ts"),
        ("1e400", "dur"),
        ("1" * 400, "dur"),
        ("1" * 400, "ts"),
        ("1e99999999999", "ts"),
        ('"soon"', "ts"),
        ("null", "ts"),
        ("[1]", "dur"),
        ("{}", "ts"),
        ("true", "ts"),
    ],
)
def test_an_event_with_an_absurd_time_is_left_out_and_counted(
    tmp_path: Path, number: str, field: str, slice_bytes: int
) -> None:
    bad = json.dumps(span("bad", 1, 1) | {field: "@"}).replace('"@"', number)
    text = trace_text([*events(10), span("mark", 0, 0), *events(10)])
    path = tmp_path / "absurd.json"
    path.write_text(text.replace(json.dumps(span("mark", 0, 0)), bad))

    run = load(path, Limits(slice_bytes=slice_bytes))

    names = run.ranks[0].events.frame["name"].astype(str).tolist()
    assert len(names) == 20
    assert "bad" not in names
    assert "1 event " in run.sources[0].note
    assert "left out" in run.sources[0].note
    assert run.sources[0].status == "complete"


def test_an_event_far_from_all_others_is_left_out(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "far.json", [*events(10), span("zero", 0, 1), span("eternal", 1000, 10**13)])
    late = write_trace(tmp_path / "late.json", [*(span(f"op{i}", 1.6e15 + i, 1) for i in range(9)), span("zero", 0, 1)])

    assert "eternal" not in load(path).ranks[0].events.frame["name"].astype(str).tolist()
    run = load(late)
    assert len(run.ranks[0].events) == 9
    assert "1 event with a time far away from all others was left out" in run.sources[0].note


@pytest.mark.parametrize(
    "change",
    [
        {"name": 7},
        {"cat": ["x"]},
        {"pid": [1]},
        {"args": "none"},
        {"args": [1, 2]},
        {"ph": None},
        {"tid": {"a": 1}},
    ],
)
def test_an_event_of_wrong_types_costs_only_itself(tmp_path: Path, change: JsonEvent) -> None:
    path = write_trace(tmp_path / "types.json", [*events(5), span("bad", 2000, 5) | change, *events(5)])

    run = load(path)

    names = run.ranks[0].events.frame["name"].astype(str).tolist()
    assert names.count("op0") == 2
    assert len(names) - names.count("bad") - names.count("7") == 10


@pytest.mark.parametrize(
    "args",
    [
        {"correlation": "abc", "External id": None, "stream": "0x0", "device": [1]},
        {"correlation": 2**70, "registers per thread": "many", "grid": "wide", "block": [1, "x"]},
        {"correlation": 1.5, "Input Dims": {"a": 1}, "Collective name": 5, "Group size": "all"},
    ],
)
def test_attributes_of_wrong_types_are_taken_as_absent(tmp_path: Path, args: dict[str, object]) -> None:
    odd = [
        span("k", 10, 5, "kernel", args=args),
        span("o", 10, 5, args=args),
        span("r", 1, 5, "cuda_runtime", args=args),
    ]
    run = load(write_trace(tmp_path / "args.json", odd))

    assert len(run.ranks[0].events) == 3
    assert run.ranks[0].events.frame["correlation"].isin([-1, 1]).all()


def test_members_of_the_array_that_are_no_events_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "mixed.json"
    path.write_text(trace_text(events(4)).replace('"traceEvents": [', '"traceEvents": [null, 5, "x", [], {}, '))

    assert len(load(path).ranks[0].events) == 4


MARK = json.dumps(span("mark", 5000, 1))


def with_event(path: Path, written: str) -> Path:
    """A trace with ten events before and after the one that is written so."""
    late = [span(f"late{i}", 6000 + i, 1) for i in range(10)]
    path.write_text(trace_text([*events(10), span("mark", 5000, 1), *late]).replace(MARK, written))
    return path


@pytest.mark.parametrize("slice_bytes", [300, 1 << 20])
@pytest.mark.parametrize(
    ("written", "name"),
    [
        (r"C:\Users\q", r"C:\Users\q"),
        (r"\users", r"\users"),
        (r"\d+\\", "\\d+\\"),
        (r"a\/b\u0041", "a/bA"),
    ],
)
def test_a_backslash_that_begins_no_escape_is_one(tmp_path: Path, written: str, name: str, slice_bytes: int) -> None:
    path = with_event(tmp_path / "escape.json", MARK.replace('"mark"', f'"{written}"'))

    run = load(path, Limits(slice_bytes=slice_bytes))

    assert run.ranks[0].events.frame["name"].astype(str).tolist()[10] == name
    assert (len(run.ranks[0].events), run.sources[0].status) == (21, "complete")
    assert "left out" not in run.sources[0].note


BADLY_WRITTEN = {
    "quotes": MARK.replace('"mark"', '"say "hello" to"'),
    "quotes and a backslash": MARK.replace('"mark"', r'"C:\U "is" there"'),
    "quotes in an attribute": MARK[:-1] + ', "args": {"Call stack": "f("x") in [g]", "External id": 5}}',
    "no number": MARK[:-1] + ', "args": {"bandwidth": -nan, "grid": [inf, -nan(ind)]}}',
}


@pytest.mark.parametrize("kind", BADLY_WRITTEN)
def test_a_single_event_that_is_badly_written_costs_itself_alone(tmp_path: Path, kind: str) -> None:
    run = load(with_event(tmp_path / "single.json", BADLY_WRITTEN[kind]))

    assert run.cut == ()
    assert len(run.ranks[0].events) == 20
    assert "1 event not readable was left out" in run.sources[0].note


@pytest.mark.parametrize(
    "written",
    [
        MARK.replace('"mark"', '"say "x" to", "name": "b"'),
        MARK.replace("5000", "50 00"),
        MARK[:-1] + ', "args": {"a": "b" "c": "d"}}',
        MARK[:-1] + ', "args": {"a": "b" [1, 2], "c": "d"}}',
    ],
)
def test_what_may_be_two_halves_of_events_is_damage(tmp_path: Path, written: str) -> None:
    run = load(with_event(tmp_path / "halves.json", written))

    assert [(each.within, each.reason) for each in run.cut] == [
        (True, "it is damaged in the middle of the events: some are no JSON")
    ]


def test_two_parts_of_an_event_that_are_joined_are_never_a_badly_written_one() -> None:
    event = json.dumps(span("aten::mm", 1, 2, args={"dims": [[1], []], "type": ["", "a b"], "f": 'g"h'}))
    joined = {event[:end] + event[start:] for end in range(len(event)) for start in range(len(event))}
    assert [text for text in joined if is_single_event(text) and not _is_json(text)] == []


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deep_nesting_does_not_crash(tmp_path: Path, opening: str) -> None:
    closing = "]" if opening == "[" else "}"
    deep = opening * 200_000 + "1" + closing * 200_000
    event = json.dumps(span("deep", 5000, 1) | {"args": {"x": "@"}}).replace('"@"', deep)
    path = tmp_path / "deep.json"
    path.write_text(trace_text([*events(10), span("mark", 0, 0)]).replace(json.dumps(span("mark", 0, 0)), event))

    run = load(path)

    assert {f"op{i}" for i in range(10)} <= set(run.ranks[0].events.frame["name"].astype(str))


def test_nothing_but_brackets_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "brackets.json"
    path.write_text("[" * 1_000_000)

    assert "nothing in it can be read" in refusal(path)


def test_control_characters_and_bad_utf8_in_names_are_kept_readable(tmp_path: Path) -> None:
    text = trace_text([span("A", 1, 1), span("B", 2, 1), span("C", 3, 1)]).encode()
    path = tmp_path / "utf8.json"
    path.write_bytes(text.replace(b'"A"', b'"a\xff\xfe"').replace(b'"B"', b'"b\x01\t"').replace(b'"C"', b'"c\\ud800"'))

    names = load(path).ranks[0].events.frame["name"].astype(str).tolist()

    assert len(names) == 3
    assert [name[0] for name in names] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"hello", "is no profiler trace"),
        (b"   \n", "is no profiler trace"),
        (b'{"a": 1, "b": [1, 2]}', "is no profiler trace"),
        (b'{"traceEvents": "none"}', "is no profiler trace"),
        (b'{"traceEvents": []}', "holds no training run"),
        (b"[]", "holds no training run"),
        (b"[1, 2]", "holds no training run"),
        (b'{"traceEvents": [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "x"}}]}', "no training run"),
        (b'{"traceEvents": [{"ph": "i", "name": "mark", "pid": 1, "ts": 5}]}', "holds no training run"),
        (b'{"traceEvents": [{"ph": "X", "name": "a", "ts": NaN, "dur": 1}]}', "holds no training run"),
        (b'{"traceEvents": [{"ph": "X", "na', "nothing in it can be read"),
        (bytes(range(256)) * 40, "is no profiler trace"),
        (b"\x1f\x8b" + bytes(range(256)), "is no profiler trace"),
        (gzip.compress(b"", mtime=0), "is no profiler trace"),
    ],
)
def test_what_is_no_trace_is_refused_with_the_reason(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)

    assert reason in refusal(path)


def test_a_missing_path_and_a_folder_without_traces_are_refused(tmp_path: Path) -> None:
    assert "there is no such file" in refusal(tmp_path / "none.json")
    (tmp_path / "notes.txt").write_text("x")
    assert "no trace there" in refusal(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_read_permission_is_refused(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "secret.json", events(3))
    path.chmod(0)

    assert "cannot be read" in refusal(path)


def test_a_bomb_is_refused_by_size_and_by_ratio(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.gz"
    packer = zlib.compressobj(9, wbits=31)
    parts = [packer.compress(b'{"traceEvents": [')] + [packer.compress(b" " * 1_000_000) for _ in range(40)]
    path.write_bytes(b"".join(parts) + packer.flush())

    assert "expands beyond the limit" in refusal(path, Limits(expanded_bytes=10_000_000, event_bytes=1 << 26))
    assert "expands more than 500 times" in refusal(
        path, Limits(ratio=500, ratio_free_bytes=1 << 20, event_bytes=1 << 26)
    )


def test_an_endless_event_stops_the_reading_not_the_process(tmp_path: Path) -> None:
    path = tmp_path / "endless.json"
    path.write_text(trace_text(events(10))[:-30] + ', {"ph": "X", "name": "' + "x" * 300_000)

    run = load(path, Limits(slice_bytes=1000, event_bytes=10_000))

    assert run.sources[0].status == "partial"
    assert 8 <= run.cut[0].events <= 10


def test_several_gzip_members_are_one_text(tmp_path: Path) -> None:
    text = trace_text(events(100)).encode()
    path = tmp_path / "members.json.gz"
    path.write_bytes(gzip.compress(text[:3000]) + gzip.compress(text[3000:]))

    run = load(path)

    assert len(run.ranks[0].events) == 100
    assert run.sources[0].status == "complete"


def test_large_metadata_after_the_events_is_not_taken_for_events(tmp_path: Path) -> None:
    more = [{"ph": "X", "name": f"no event {i}", "ts": i, "dur": 1} for i in range(200)]
    text = trace_text(events(30))[:-1] + ', "more": ' + json.dumps(more) + ', "distributedInfo": {"rank": 5}}'
    path = tmp_path / "tail.json"
    path.write_text(text)

    run = load(path, Limits(slice_bytes=500))

    assert len(run.ranks[0].events) == 30
    assert run.rank_numbers == (5,)
    assert run.sources[0].status == "complete"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"loss 0.3 at step 1\n", "expecting value at byte 0"),
        (b"[2026-01-01 10:00:00] step 1\n", "expecting ',' delimiter at byte 5"),
        (b'\xef\xbb\xbf{"a": nope}', "expecting value at byte 9"),
        ('{"ä": 1}\n{"b": 2}\n'.encode(), "extra data at byte 10"),
    ],
)
def test_a_file_that_is_not_json_is_refused_with_the_byte(tmp_path: Path, text: bytes, fault: str) -> None:
    path = tmp_path / "notes.json"
    path.write_bytes(text)
    assert f"it is not JSON ({fault})" in refusal(path)


def numbered(count: int) -> list[JsonEvent]:
    """Events that carry numbers as PyTorch's profiler gives them."""
    return [each | {"args": {"Ev Idx": place}} for place, each in enumerate(events(count))]


def test_a_piece_that_is_lost_between_the_same_places_of_two_events_is_noticed(tmp_path: Path) -> None:
    text = trace_text(numbered(200))
    first, last = text.index('op60"') + 2, text.index('op90"') + 2
    path = tmp_path / "lost.json.gz"
    path.write_bytes(gzip.compress(text[:first].encode()) + gzip.compress(text[last:].encode()))

    assert isinstance(json.loads(gzip.decompress(path.read_bytes())), dict)
    facts = read_trace(path, "", ALONE).facts
    assert facts.cut == "it is damaged in the middle of the events: 30 that the profiler numbered are missing"
    assert facts.damaged_within
    assert load(path).ranks == ()


@pytest.mark.parametrize(
    "left",
    [
        lambda place: True,
        lambda place: place not in (7, 50, 51),  # some events were not usable
        lambda place: place % 3,  # somebody filtered the trace
        lambda place: place < 10 or place > 180,  # most of it was taken out
        lambda place: 40 <= place < 150,  # trimmed to some of its steps
    ],
)
@pytest.mark.parametrize("slice_bytes", [DEFAULT.slice_bytes, 700])
def test_numbers_without_a_lost_piece_are_no_damage(
    tmp_path: Path, left: Callable[[int], bool], slice_bytes: int
) -> None:
    path = write_trace(tmp_path / "t.json", [each for place, each in enumerate(numbered(200)) if left(place)])

    facts = read_trace(path, "", replace(ALONE, limits=Limits(slice_bytes=slice_bytes))).facts

    assert facts.cut == ""


def test_two_recordings_in_one_file_are_no_damage(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "t.json", [*numbered(60)[:20], *numbered(60)])

    assert read_trace(path, "", ALONE).facts.cut == ""


def test_an_archive_and_a_text_without_records_are_named_as_such(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as tar, zipfile.ZipFile(tmp_path / "b.zip", "w") as zipped:
        zipped.writestr("trace.json", "{}")
        tar.add(tmp_path, arcname="run", recursive=False)
    assert "is a tar archive; unpack it" in refusal(tmp_path / "a.tar.gz")
    assert "is a zip archive; unpack it" in refusal(tmp_path / "b.zip")
    (tmp_path / "job.log").write_text("hello world\n")
    refused = refusal(tmp_path / "job.log")
    assert "no line of it is known as a step" in refused
    assert refused.endswith(r"as in 'step (?P<step>\d+) .*took (?P<time_s>[\d.]+)'")


@pytest.mark.parametrize("text", ["[12.5] NVRM: loading\n", "{'a': 1}\n", '{"a": 1}\n{"a": 2}\n'])
def test_a_text_that_begins_with_a_bracket_is_judged_by_what_it_holds(tmp_path: Path, text: str) -> None:
    (tmp_path / "paste.txt").write_text(text)
    assert "no line of it is known as a step" in refusal(tmp_path / "paste.txt")
