"""Every format of the registry has a target, and takes what files meet on their way: cuts, encodings, other names."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evals.fuzz.campaign import execute
from evals.fuzz.targets import TARGETS, OfRecords, Target
from tools.sources.registry import RECORDS, START_BYTES, TRACES

READERS = [each for each in TARGETS if isinstance(each.execute, OfRecords)]
TRACE_READERS = [each for each in TARGETS if each.file.endswith((".json", ".sqlite", ".db", ".pb")) and not each.named]
HEAD = re.compile(rb"[A-Za-z][A-Za-z ]{3,}")


def test_every_format_of_records_has_a_target() -> None:
    covered = {each.execute.wanted.name for each in READERS if isinstance(each.execute, OfRecords)}
    assert covered >= {each.name for each in RECORDS}


@pytest.mark.parametrize("wanted", TRACES, ids=lambda each: each.name)
def test_every_format_of_traces_has_a_target(wanted: object) -> None:
    starts = [seed[:START_BYTES] for each in TRACE_READERS for seed in each.seeds()]
    assert any(each is wanted and each.recognises(start) for each in TRACES for start in starts)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(READERS), st.data())
def test_a_file_that_is_cut_at_any_byte_gives_a_result_or_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, target: Target, data: st.DataObject
) -> None:
    whole = data.draw(st.sampled_from(target.seeds()))
    at = data.draw(st.integers(0, len(whole) - 1))
    verdict = execute(target, tmp_path_factory.mktemp("cut") / "x", whole[:at])
    assert not verdict.failed, f"{target.name} at {at}: {verdict.detail}"


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "UTF-16": lambda data: data.decode("utf-8", "replace").encode("utf-16"),
    "UTF-8 with a mark": lambda data: b"\xef\xbb\xbf" + data,
    "Latin-1": lambda data: data.replace(b" ", b" \xe9\xfc "),
    "carriage returns": lambda data: data.replace(b"\n", b"\r\n"),
    "decimal commas": lambda data: re.sub(rb"(\d)\.(\d)", rb"\1,\2", data),
    "renamed columns": lambda data: HEAD.sub(lambda found: b"x" + found[0][::-1], data, count=20),
    "two versions in one": lambda data: data + b"\n" + HEAD.sub(b"other", data, count=3),
    "empty": lambda data: b"",
    "no bytes but zero": lambda data: bytes(len(data)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("target", READERS, ids=lambda each: each.name)
def test_other_encodings_names_and_versions_give_a_result_or_one_sentence(
    tmp_path: Path, target: Target, change: str
) -> None:
    for at, seed in enumerate(target.seeds()):
        verdict = execute(target, tmp_path / str(at), CHANGES[change](seed))
        assert not verdict.failed, f"seed {at}: {verdict.detail}"
