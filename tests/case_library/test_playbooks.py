"""The playbook pages: complete, true to the taxonomy, and not stale."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from case_library.library import CaseError, load_cases, validated
from case_library.playbook import BLOCK, PLAYBOOKS, case_list, faults, printed, read_playbook, renewed
from hermes_agent.demo.data import demo_run
from tests.case_library.own_cases import public_fields
from tools.analyzers.registry import all_checks
from tools.knowledge.taxonomy import causes
from tools.knowledge.thresholds import Thresholds
from tools.sources.load import load_run
from tools.sources.options import LoadOptions
from tools.views.profile import Profile

INDEX = Path(__file__).parents[2] / "docs" / "playbooks" / "README.md"
CHECK = re.compile(r"`((?:cpu|io|computation|communication|memory|parallel|step_time)\.(?!stat`)[a-z0-9_]+)`")


def section(page: str, title: str) -> str:
    return page.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def test_no_page_is_missing_incomplete_or_stale() -> None:
    assert list(faults(load_cases())) == []


@pytest.mark.parametrize("cause", causes())
def test_a_page_names_look_alikes_of_the_taxonomy_and_what_decides(cause: str) -> None:
    entries = section(read_playbook(cause), "Look-alikes").split("\n- ")[1:]
    named = [set(re.findall(r"`([a-z_]+)`", entry)) & set(causes()) for entry in entries]
    assert sum(bool(names) for names in named) >= 2
    assert all(cause not in names for names in named[:1])
    assert sum("ecide" in entry for entry in entries) >= 2


@pytest.mark.parametrize("cause", causes())
def test_a_page_has_every_change_of_the_advice_table(cause: str) -> None:
    fixes = section(read_playbook(cause), "How to fix")
    assert causes()[cause].advice
    assert all(row.title() in fixes and row.how in fixes for row in causes()[cause].advice)


def test_the_checks_that_pages_speak_of_are_those_there_are() -> None:
    options = LoadOptions(cache_dir=None, workers=1)
    known = {check.name for check in all_checks(Profile(load_run((demo_run(),), options), Thresholds({})))}
    named = {
        name for cause in causes() for name in CHECK.findall(BLOCK.sub("", read_playbook(cause)))
    }  # what people wrote
    assert len(named) >= 20
    assert named - known == set()


def test_a_new_case_makes_its_page_stale_and_renewing_mends_that() -> None:
    case = validated(public_fields("brand-new"), "test")
    cases = [*load_cases(), case]
    (fault,) = faults(cases)
    assert "cpu_contention.md is stale" in fault
    page = renewed(read_playbook("cpu_contention"), "cpu_contention", cases)
    assert "[brand-new](https://github.com/example/brand-new/issues/1): Nightly backup" in page
    assert renewed(page, "cpu_contention", cases) == page


def test_renewing_keeps_what_people_wrote() -> None:
    page = read_playbook("garbage_collection")
    emptied = renewed(page, "garbage_collection", [])
    for title in ("How it looks", "Look-alikes", "How to verify"):
        assert section(emptied, title) == section(page, title)
    assert "No confirmed case yet." in emptied


def test_a_page_without_a_section_or_a_block_is_named(tmp_path: Path) -> None:
    shutil.copytree(PLAYBOOKS, tmp_path / "pages")
    path = tmp_path / "pages" / "straggler.md"
    text = path.read_text(encoding="utf-8").replace("## Look-alikes", "## Others").replace("<!-- advice -->", "")
    path.write_text(text, encoding="utf-8")
    (tmp_path / "pages" / "slow_link.md").unlink()
    found = list(faults(load_cases(), tmp_path / "pages"))
    assert any("straggler.md lacks Look-alikes, <!-- advice -->" in fault for fault in found)
    assert any("slow_link.md is missing" in fault for fault in found)


def test_guesses_are_listed_apart_from_confirmed_cases() -> None:
    sure = validated(public_fields("sure"), "test")
    guess = validated(public_fields("guess", confidence="low"), "test")
    text = case_list([guess, sure])
    assert text.index("[sure]") < text.index("Cause not confirmed by the source: [guess]")
    assert "[guess]" not in text.split("Cause not confirmed")[0]


def test_the_printed_page_shows_no_marks() -> None:
    assert "<!--" not in printed(read_playbook("small_packet"))


def test_a_cause_without_a_page_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="cannot be read"):
        read_playbook("straggler", tmp_path)


def test_the_docs_link_to_every_page() -> None:
    links = re.findall(r"\]\(([^)]+\.md)\)", INDEX.read_text(encoding="utf-8"))
    targets = {(INDEX.parent / link).resolve() for link in links}
    assert {PLAYBOOKS / f"{cause}.md" for cause in causes()} <= targets
    assert all(target.is_file() for target in targets)
