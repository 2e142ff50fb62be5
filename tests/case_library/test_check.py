"""What the check finds in a folder of cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from case_library.check import dead_fields, examine
from case_library.library import CaseError, load_cases, validated
from case_library.playbook import tally
from tests.case_library.own_cases import draft, public_fields, put
from tools.knowledge.taxonomy import causes

PAPER = "https://example.org/paper.pdf"


def told(name: str, words: str, url: str) -> dict[str, object]:
    """A case whose text shares nothing with others, from a page of a paper."""
    text = {"title": words, "symptom": f"{words} {words}.", "signals": [f"{words} again"]}
    return {**public_fields(name, **text), "source": {"kind": "paper", "url": url}}


@pytest.mark.parametrize(
    ("first", "second", "faults"),
    [
        (f"{PAPER}#case-a", f"{PAPER}#case-b", 0),
        (f"{PAPER}#case-a", f"{PAPER}#case-a", 1),
        (f"{PAPER}#case-a", PAPER, 1),
        (f"{PAPER}#page=3", f"{PAPER}#page=4", 1),
        (PAPER, f"{PAPER}/", 1),
    ],
)
def test_one_publication_may_carry_cases_that_are_told_apart(
    tmp_path: Path, first: str, second: str, faults: int
) -> None:
    put(tmp_path, told("one", "alpha bravo charlie delta", first))
    put(tmp_path, told("two", "echo foxtrot golf hotel", second))
    found = examine(tmp_path).faults
    assert len(found) == faults
    assert all("have the same source" in fault for fault in found)


@pytest.mark.parametrize("text", ["unknown", "Unknown.", "n/a", "None", "-", "TBD", "?"])
def test_a_telling_field_that_says_nothing_is_dead(text: str) -> None:
    (fault,) = dead_fields(validated(public_fields("dead", diagnosis=text), "test"))
    assert fault == f"dead: diagnosis says nothing ({text!r}); say what was not seen."


def test_saying_what_was_not_seen_is_no_dead_field() -> None:
    assert list(dead_fields(validated(public_fields("honest", effect="Not seen."), "test"))) == []


def test_a_field_told_twice_is_dead() -> None:
    fields = public_fields("twice", signals=["run queue long", "Run  queue long"], effect=draft()["optimization"])
    faults = list(dead_fields(validated(fields, "test")))
    said = [fault.split(" (")[0] for fault in faults]
    assert said == ["twice: effect repeats optimization", "twice: signals repeats signals"]


def test_a_setting_of_which_nothing_is_known_is_dead() -> None:
    nothing = dict.fromkeys(("framework", "hardware", "scale", "model"), "unknown")
    (fault,) = dead_fields(validated(public_fields("nowhere", setting=nothing), "test"))
    assert "nothing is known of the setting" in fault


def test_a_thread_that_the_address_contradicts_is_named() -> None:
    source = {"kind": "issue", "url": "https://github.com/a/b/issues/7", "repo": "a/c", "number": 8}
    faults = list(dead_fields(validated({**public_fields("thread"), "source": source}, "test")))
    assert [fault.split(",")[0] for fault in faults] == ["thread: source.repo is a/c", "thread: source.number is 8"]


@pytest.mark.parametrize(
    "url", ["http://example.org/page", "https://host/page", "https://example.org", "", "file:///x"]
)
def test_a_public_case_needs_a_public_address(url: str) -> None:
    with pytest.raises(CaseError, match=r"field 'source\.url': an address has to look like https"):
        validated({**public_fields("addressed"), "source": {"kind": "issue", "url": url}}, "test")


def test_a_public_case_cannot_leave_its_address_out() -> None:
    with pytest.raises(CaseError, match=r"field 'source\.url'"):
        validated({**public_fields("addressed"), "source": {"kind": "issue"}}, "test")


@pytest.mark.parametrize("url", ["", "http://tracker/T-1", "https://wiki.corp/page"])
def test_an_internal_case_may_have_any_address_or_none(url: str) -> None:
    case = validated({**public_fields("own"), "source": {"kind": "internal", "url": url}}, "test")
    assert case.source.url == url


def test_private_cases_are_checked_with_the_public_ones(tmp_path: Path) -> None:
    public, private = tmp_path / "public", tmp_path / "private"
    put(public, public_fields("public-one"))
    put(private, {"id": "own-one", **draft(), "source": {"kind": "internal"}})
    checked = examine(public, private)
    assert [case.id for case in checked.cases] == ["public-one", "own-one"]
    assert len(checked.faults) == 1
    assert "say nearly the same" in checked.faults[0]


def test_the_counts_cover_every_cause_and_add_up() -> None:
    cases = load_cases()
    rows = tally(cases)
    assert list(rows) == list(causes())
    assert sum(row["cases"] for row in rows.values()) == len(cases)
    assert sum(row["low"] for row in rows.values()) == sum(case.confidence == "low" for case in cases)


def test_the_library_has_two_hundred_cases_and_every_cause() -> None:
    rows = tally(load_cases())
    assert sum(row["cases"] for row in rows.values()) >= 200
    assert [cause for cause, row in rows.items() if row["confirmed"] == 0] == []
