"""Files of flight recorders: what is read, whose they are, and what is refused before anything of it is loaded."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.flight_dumps import Made, done, dump, records_of, write
from tools.errors import InputError
from tools.sources.flight_recorder.dump import read_dump
from tools.sources.flight_recorder.plain_pickle import PickleError, loads
from tools.sources.flight_recorder.recognise import is_dump
from tools.sources.load import load_run

GROUPS = {"0": range(4), "2": [1, 3]}
CALLS = [*done(3), Made("broadcast", group="2"), Made("send 0->1", group="2"), Made(state="started", elements=77)]
WHOLE = pickle.dumps(dump(CALLS, GROUPS), protocol=2)
TEXT = json.dumps(dump(CALLS, GROUPS, json_form=True)).encode()


class Harmful:
    """What a planted pickle would run."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("exit 1",)


@pytest.mark.parametrize("form", ["pickle", "json"])
def test_the_calls_of_a_dump_are_read_as_they_are_written(tmp_path: Path, form: str) -> None:
    made = {1: dump(CALLS, GROUPS, json_form=form == "json")}
    records = records_of(write(tmp_path, made, form=form))
    assert records.calls["sequence"].tolist() == [1, 2, 3, 1, 0, 4]
    assert records.calls["peer"].tolist() == [-1, -1, -1, -1, 3, -1]  # the second of ranks 1 and 3
    assert records.calls["elements"].tolist() == [1024, 1024, 1024, 1024, -1, 77]
    assert records.calls["state"].tolist() == [2, 2, 2, 2, 2, 1]
    assert [group.ranks for group in records.groups] == [(0, 1, 2, 3), (1, 3)]
    assert records.status.to_numpy().tolist() == [[1, 0, 4, 3], [1, 1, 1, 1]]
    assert records.world_size == 4
    assert records.dumps[0].whole


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_that_would_run_something_is_refused_unread(protocol: int) -> None:
    with pytest.raises(PickleError, match="no dump needs"):
        loads(pickle.dumps({"entries": [Harmful()]}, protocol=protocol))


def test_a_place_of_the_memo_far_beyond_those_in_use_is_refused() -> None:
    with pytest.raises(PickleError, match="larger than any dump"):
        loads(b"\x80\x02}r\xff\xff\xff\x7f.")


@settings(max_examples=150, deadline=None)
@given(end=st.integers(0, len(WHOLE) - 1))
def test_a_cut_pickle_is_refused(end: int) -> None:
    with pytest.raises(PickleError):
        loads(WHOLE[:end])


@settings(max_examples=150, deadline=None)
@given(
    whole=st.sampled_from([WHOLE, TEXT]),
    at=st.integers(0, min(len(WHOLE), len(TEXT)) - 1),
    put=st.binary(max_size=3),
    taken=st.integers(0, 3),
)
def test_a_changed_dump_is_read_or_named(
    tmp_path_factory: pytest.TempPathFactory, whole: bytes, at: int, put: bytes, taken: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "changed_dump_1"
    path.write_bytes(whole[:at] + put + whole[at + taken :])
    said = ""
    try:
        read = read_dump(path)
        assert len(read.calls) + read.left_out <= len(CALLS)
    except InputError as error:
        said = str(error)
    assert not said or said.startswith(str(path))


def test_entries_without_what_every_call_has_are_left_out_with_a_note(tmp_path: Path) -> None:
    value = dump(CALLS, GROUPS)
    entries = value["entries"]
    assert isinstance(entries, list)
    del entries[0]["state"]
    entries[1]["collective_seq_id"] = 1 << 70
    run = load_run([write(tmp_path, {1: value})])
    assert [(each.status, each.note) for each in run.sources] == [("partial", "2 of its entries cannot be read")]


def test_a_second_dump_of_a_rank_and_one_of_no_rank_are_left_out(tmp_path: Path) -> None:
    folder = write(tmp_path, {rank: dump(CALLS, GROUPS) for rank in (1, 3)})
    (folder / "again_rank_3.pkl").write_bytes(WHOLE)
    (folder / "dump").write_bytes(WHOLE)
    run = load_run([folder])
    assert sorted(each.status for each in run.sources) == ["complete", "complete", "excluded", "excluded"]
    assert any("neither its name nor its groups" in note for note in run.notes)
    assert any("second dump of rank 3" in note for note in run.notes)


def test_the_groups_show_the_rank_where_the_name_does_not(tmp_path: Path) -> None:
    (tmp_path / "dump.pkl").write_bytes(pickle.dumps(dump(CALLS, {"0": range(4), "2": [1, 3], "5": [3]}), protocol=2))
    assert [each.rank for each in records_of(tmp_path).dumps] == [3]


def test_dumps_are_known_by_their_content_and_one_alone_is_a_run(tmp_path: Path) -> None:
    path = tmp_path / "trace_1.json"
    path.write_bytes(TEXT)
    assert is_dump(path)
    assert [each.format for each in load_run([path]).sources] == ["flight recorder"]
    path.write_bytes(b'{"traceEvents": [], "entries": []}')
    assert not is_dump(path)


def test_a_file_that_only_begins_like_a_dump_is_named(tmp_path: Path) -> None:
    path = tmp_path / "_dump_0"
    path.write_bytes(WHOLE[: len(WHOLE) // 2])
    with pytest.raises(InputError, match="_dump_0: is no plain dump of a flight recorder: it is cut or damaged"):
        load_run([path])


def test_a_group_that_the_rank_is_not_in_does_not_hide_its_rank(tmp_path: Path) -> None:
    records = records_of(write(tmp_path, {1: dump(done(2), {"0": range(4), "6": [2, 3]})}))
    assert [each.rank for each in records.dumps] == [1]
    assert [group.ranks for group in records.groups] == [(0, 1, 2, 3)]


@pytest.mark.parametrize("state", ["completed", "started"])
def test_calls_of_a_batch_are_as_far_as_the_call_that_closes_it(tmp_path: Path, state: str) -> None:
    """PyTorch leaves a send and a receive of a batch scheduled; one that is alone is what it says."""
    calls = [Made("send 0->1", "scheduled"), Made("send 1->0", "scheduled"), Made("recv 0<-1", "scheduled")]
    value = dump([*calls, Made("coalesced", state)], {"0": range(2)})
    entries = value["entries"]
    assert isinstance(entries, list)
    for each, number in zip(entries, (1, 2, 2, 2), strict=True):
        each.update(p2p_seq_id=number, is_p2p=True)
    records = records_of(write(tmp_path, {0: value}))
    assert records.calls["state"].tolist() == [0, *[2 if state == "completed" else 1] * 3]


@pytest.mark.parametrize("content", ["groups", "tensors"])
def test_what_a_pickle_repeats_is_counted_before_it_is_read(tmp_path: Path, content: str) -> None:
    group = {"desc": "", "ranks": "[" + "0, " * 100_000 + "0]"}
    entry = {"input_dtypes": ["Float"] * 10_000}
    made: dict[str, object] = (
        {"pg_config": {str(name): group for name in range(1000)}, "entries": []}
        if content == "groups"
        else {"pg_config": {}, "entries": [entry] * 2000}
    )
    path = tmp_path / "dump_0"
    path.write_bytes(pickle.dumps(made, 2))
    with pytest.raises(InputError, match="more ranks or tensors than any dump"):
        read_dump(path)
