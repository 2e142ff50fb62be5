"""Reading and checking case files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from case_library.check import examine
from case_library.library import BUNDLED_CASES, MAX_CASE_BYTES, CaseError, load_cases
from tools.errors import ExitCode

GOOD = (BUNDLED_CASES / "torchtune-loss-item-sync.yaml").read_text(encoding="utf-8")


def write(folder: Path, text: str, name: str = "torchtune-loss-item-sync") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def fault(folder: Path) -> str:
    with pytest.raises(CaseError) as caught:
        load_cases(folder)
    assert caught.value.exit_code == ExitCode.INPUT
    return str(caught.value)


def test_the_bundled_cases_are_all_valid_and_cover_all_families() -> None:
    cases = load_cases()
    families = Counter(case.family for case in cases)
    assert len(cases) >= 114
    assert [case.id for case in cases] == sorted(path.stem for path in BUNDLED_CASES.glob("*.yaml"))
    assert set(families) == {"parallel", "io", "cpu", "computation", "communication", "memory", "storage"}
    assert min(families.values()) >= 5


def test_the_bundled_cases_pass_the_check() -> None:
    assert examine().faults == ()


def test_a_cause_outside_the_taxonomy_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace("cause: operator_dispatch", "cause: bad_luck"))
    assert fault(tmp_path) == f"{path}: cause 'bad_luck' is not in the taxonomy; fix the field."


def test_a_fault_repeats_no_more_than_a_part_of_what_is_written(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace("cause: operator_dispatch", f"cause: {'x' * 5000}"))
    assert len(fault(tmp_path).removeprefix(str(path))) < 400


def test_a_cause_of_another_family_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace("family: cpu", "family: io"))
    expected = f"{path}: cause 'operator_dispatch' belongs to family 'cpu', not 'io'; fix the field."
    assert fault(tmp_path) == expected


def test_a_mechanism_of_another_cause_is_refused(tmp_path: Path) -> None:
    write(tmp_path, GOOD.replace("mechanism: host_synchronization", "mechanism: thermal"))
    assert "mechanism 'thermal' is not one of 'operator_dispatch' (known: small_operators," in fault(tmp_path)


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "\n".join(line for line in GOOD.splitlines() if not line.startswith("confidence:")))
    assert fault(tmp_path) == f"{path}: field 'confidence': Field required; fix the field."


def test_an_unknown_field_is_named_with_its_place(tmp_path: Path) -> None:
    write(tmp_path, GOOD.replace("setting:\n", "setting:\n  colour: red\n"))
    assert "field 'setting.colour': Extra inputs are not permitted" in fault(tmp_path)


def test_a_source_without_https_is_refused(tmp_path: Path) -> None:
    write(tmp_path, GOOD.replace("url: https://", "url: file://"))
    assert "field 'source.url'" in fault(tmp_path)


def test_several_faults_of_one_file_are_counted(tmp_path: Path) -> None:
    write(tmp_path, GOOD.replace("confidence: high", "confidence: sure").replace("kind: pr", "kind: rumour"))
    assert "(and 1 more)" in fault(tmp_path)


def test_a_file_name_that_is_not_the_id_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD, "other")
    expected = f"{path}: id 'torchtune-loss-item-sync' differs from the file name 'other'; make them the same."
    assert fault(tmp_path) == expected


def test_broken_yaml_is_named_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path, "id: a\ntitle: [never closed\n")
    assert fault(tmp_path) == f"{path} is not valid YAML at line 3; fix the syntax there."


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "just words"])
def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, text)
    assert fault(tmp_path) == f"{path} must hold one mapping of case fields; start it with 'id:'."


def test_a_yaml_tag_that_would_run_code_is_refused(tmp_path: Path) -> None:
    write(tmp_path, f"id: !!python/object/apply:pathlib.Path.touch [{tmp_path / 'ran'}]\n")
    assert "is not valid YAML" in fault(tmp_path)
    assert not (tmp_path / "ran").exists()


def test_a_file_too_large_for_a_case_is_refused_unread(tmp_path: Path) -> None:
    path = write(tmp_path, "#" * (MAX_CASE_BYTES + 1))
    assert fault(tmp_path) == f"{path} is larger than 64 KiB, too large for a case; shorten it."


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "noise.yaml").write_bytes(b"\xff\xfe\x00\x80id: a")
    assert "noise.yaml is not valid YAML" in fault(tmp_path)


def test_a_folder_without_cases_and_a_missing_folder_are_told_apart(tmp_path: Path) -> None:
    assert fault(tmp_path) == f"{tmp_path} holds no case file (*.yaml); add one or give another folder."
    missing = tmp_path / "missing"
    assert fault(missing) == f"{missing} is not a folder; give the folder that holds the case files (*.yaml)."


def test_the_check_names_every_fault_and_not_only_the_first(tmp_path: Path) -> None:
    write(tmp_path, GOOD.replace("confidence: high", "confidence: sure"))
    write(tmp_path, "id: [", "second")
    (tmp_path / "third.yml").write_text(GOOD, encoding="utf-8")
    problems = examine(tmp_path).faults
    assert len(problems) == 3
    assert problems[0] == f"{tmp_path / 'third.yml'} is not read; case files end in .yaml."
    assert "second.yaml is not valid YAML" in problems[1]
    assert "'confidence'" in problems[2]


def test_the_check_finds_a_source_and_a_text_used_twice(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    copy = GOOD.replace("id: torchtune-loss-item-sync", "id: copied").replace("pull/522", "pull/522#discussion")
    write(tmp_path, copy, "copied")
    problems = examine(tmp_path).faults
    assert len(problems) == 2
    assert problems[0].startswith("copied and torchtune-loss-item-sync have the same source https://")
    assert problems[1].startswith("copied and torchtune-loss-item-sync say nearly the same (100% of their words)")
