"""Writing a team's own case."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from case_library.draft import identifier, objections, private_case, store, written
from case_library.library import CaseError, parse_case, read_case_bytes, read_mapping
from tests.case_library.own_cases import draft, public_fields, put


def test_a_draft_without_id_and_source_becomes_an_internal_private_case() -> None:
    case = private_case(draft())
    assert case.id == "nightly-backup-halves-the-speed-of-ranks-on-rack-seven"
    assert (case.source.kind, case.source.url, case.private) == ("internal", "", True)


def test_a_draft_cannot_declare_itself_public() -> None:
    assert private_case(draft(private=False)).private


def test_what_is_missing_is_named() -> None:
    with pytest.raises(CaseError, match=r"^the draft: field 'effect': Field required; fix the field\.$"):
        private_case(draft(effect=None))


def test_an_id_that_is_taken_gets_a_number() -> None:
    assert identifier("Loader is slow", {"loader-is-slow", "loader-is-slow-2"}) == "loader-is-slow-3"
    assert identifier("慢") == "case"
    assert len(identifier("word " * 60)) <= 60


def test_a_stored_case_reads_back_the_same(tmp_path: Path) -> None:
    case = private_case(draft(confidence_reason="measured on two nights"))
    path = store(case, tmp_path / "own" / "cases")
    assert parse_case(path, path.read_bytes()) == case
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_case_is_never_overwritten(tmp_path: Path) -> None:
    path = store(private_case(draft()), tmp_path)
    before = path.read_bytes()
    with pytest.raises(CaseError, match="exists and is not overwritten"):
        store(private_case(draft(effect="Nothing changed at night.")), tmp_path)
    assert path.read_bytes() == before


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(CaseError, match="cannot be written"):
        store(private_case(draft()), tmp_path / "file" / "cases")


def test_a_case_that_is_known_already_is_objected_to() -> None:
    public = private_case(public_fields("known-before"))
    faults = objections(private_case(draft()), [public])
    assert len(faults) == 1
    assert "say nearly the same" in faults[0]


def test_faults_of_other_cases_are_no_objection() -> None:
    one, two = (private_case(public_fields(name)) for name in ("known-once", "known-twice"))
    new = {
        "title": "Checkpoints on a shared mount stop all ranks",
        "symptom": "Every 500th step takes 40 s.",
        "signals": ["long step at the save interval"],
        "family": "storage",
        "cause": "checkpoint_stall",
        "mechanism": "slow_storage",
        "diagnosis": "Saving was turned off for an hour.",
        "optimization": "Local staging, then upload.",
    }
    assert objections(private_case(draft(**new)), [one, two]) == ()


def test_a_source_used_already_is_objected_to() -> None:
    source = {"kind": "issue", "url": "https://github.com/example/known-before/issues/1"}
    other = private_case(public_fields("known-before", title="Another thing", symptom="Else.", signals=["none of it"]))
    faults = objections(private_case(draft(source=source)), [other])
    assert any("have the same source" in fault for fault in faults)


def test_a_field_that_says_nothing_is_objected_to() -> None:
    (fault,) = objections(private_case(draft(effect="Unknown.")), [])
    assert fault.endswith("effect says nothing ('Unknown.'); say what was not seen.")


def test_a_draft_file_may_have_any_name(tmp_path: Path) -> None:
    path = put(tmp_path, draft(), "draft-of-mine")
    assert private_case(read_mapping(path, read_case_bytes(path))).title == draft()["title"]


def test_a_draft_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "list.yaml"
    path.write_text("- a\n", encoding="utf-8")
    with pytest.raises(CaseError, match="must hold one mapping"):
        read_mapping(path, read_case_bytes(path))


def test_fields_left_at_their_default_are_not_written() -> None:
    text = written(private_case(draft(mechanism=None)))
    assert "mechanism" not in text
    assert "private: true" in text
    assert text.startswith("id: nightly-backup")
