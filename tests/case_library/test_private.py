"""A team's own cases beside the public ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from case_library.library import load_cases, load_private
from case_library.retrieval.recall import CaseIndex, CaseQuery
from tests.case_library.own_cases import draft, public_fields, put

SEEN = CaseQuery(text="Step grows from 310 to 640 ms at night on one rack, run queue longer than the cores")


@pytest.fixture
def public(tmp_path: Path) -> Path:
    folder = tmp_path / "public"
    put(folder, public_fields("aa-backup-at-night"))
    other = {
        "title": "Loader decodes large images in one process",
        "symptom": "The device idles at the start of each step while pictures are decoded.",
        "signals": ["single-process loader", "device idle while the loader span is open"],
        "family": "io",
        "cause": "slow_data_processing",
        "mechanism": "too_few_workers",
        "diagnosis": "Loader timed alone.",
        "optimization": "Eight workers.",
    }
    put(folder, public_fields("decoding-in-one-process", **other))
    return folder


@pytest.fixture
def private(tmp_path: Path) -> Path:
    folder = tmp_path / "private"
    put(folder, {"id": "zz-our-backup", "source": {"kind": "internal"}, **draft()})
    return folder


def test_a_folder_that_is_not_there_or_empty_holds_no_private_case(tmp_path: Path) -> None:
    assert load_private(None).cases == ()
    assert load_private(tmp_path / "missing").cases == ()
    assert load_private(tmp_path).cases == ()


def test_what_lies_in_the_private_folder_is_private_whatever_it_says(tmp_path: Path) -> None:
    put(tmp_path, public_fields("copied-from-a-thread"))
    (case,) = load_private(tmp_path).cases
    assert case.private
    assert case.source.kind == "issue"


def test_a_private_file_that_is_no_case_is_left_out_and_said(tmp_path: Path, private: Path) -> None:
    (private / "broken.yaml").write_text("id: [", encoding="utf-8")
    own = load_private(private)
    assert [case.id for case in own.cases] == ["zz-our-backup"]
    assert len(own.left_out) == 1
    assert "broken.yaml is not valid YAML" in own.left_out[0]


def test_a_private_case_never_takes_the_id_of_a_public_one(private: Path) -> None:
    own = load_private(private, {"zz-our-backup"})
    assert own.cases == ()
    assert "rename the private one" in own.left_out[0]


def test_of_equal_cases_the_private_one_comes_first_and_is_marked(public: Path, private: Path) -> None:
    with CaseIndex.open(public, private_folder=private) as index:
        hits = index.search(SEEN).hits
    assert [hit.id for hit in hits[:2]] == ["zz-our-backup", "aa-backup-at-night"]
    assert hits[0].similarity == hits[1].similarity
    assert [hit.private for hit in hits[:2]] == [True, False]
    assert hits[0].file == str(private / "zz-our-backup.yaml")


def test_a_nearer_public_case_stays_before_a_private_one(public: Path, private: Path) -> None:
    with CaseIndex.open(public, private_folder=private) as index:
        hits = index.search(CaseQuery(text="single-process loader decodes images, device idle at step start")).hits
    assert hits[0].id == "decoding-in-one-process"


def test_without_the_private_folder_no_private_case_is_found(public: Path, private: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with CaseIndex.open(public, cache, private) as both:
        assert both.private_ids == {"zz-our-backup"}
    with CaseIndex.open(public, cache) as alone:
        assert alone.private_ids == frozenset()
        assert {hit.id for hit in alone.search(SEEN, 10).hits} <= {"aa-backup-at-night", "decoding-in-one-process"}


def test_a_case_moved_to_the_public_folder_is_no_longer_private(public: Path, private: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with CaseIndex.open(public, cache, private) as index:
        assert index.case("zz-our-backup").private
    (private / "zz-our-backup.yaml").rename(public / "zz-our-backup.yaml")
    with CaseIndex.open(public, cache, private) as index:
        assert not index.case("zz-our-backup").private
        assert index.private_ids == frozenset()


def test_a_wrong_private_file_does_not_stop_the_index_and_is_noted_each_time(
    public: Path, private: Path, tmp_path: Path
) -> None:
    put(private, {"id": "no-cause", **draft(cause="bad_luck")})
    for _ in range(2):
        with CaseIndex.open(public, tmp_path / "cache", private) as index:
            assert any("no-cause.yaml" in note and "left out" in note for note in index.notes)
            assert index.private_ids == {"zz-our-backup"}


def test_no_bundled_case_is_private_or_internal() -> None:
    assert [case.id for case in load_cases() if case.private or case.source.kind == "internal"] == []
