"""``hermes-dx cases``: search, show and list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from case_library.library import load_cases
from hermes_agent.cli.commands import cases
from tests.case_library.own_cases import draft, put
from tests.hermes_agent.cli.execution import execute
from tools.errors import UsageError
from tools.knowledge.taxonomy import causes

QUERY = ("many", "tiny", "kernels,", "launch", "bound,", "low", "GPU", "utilization")


@pytest.fixture(autouse=True)
def own_folder(commands_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of private cases."""
    monkeypatch.setenv("HERMES_DX_CASES_DIR", str(tmp_path / "own"))
    return tmp_path / "own"


@pytest.fixture
def own_case(own_folder: Path) -> str:
    """The id of one private case in that folder."""
    put(own_folder, {"id": "our-backup", "source": {"kind": "internal"}, **draft()})
    return "our-backup"


def found(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    assert execute(cases, *words, "--json") == 0
    rows: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return rows


def test_rows_come_best_first_with_the_agreed_fields(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(cases, "search", *QUERY, "--json", "--limit", "3") == 0
    rows = json.loads(capsys.readouterr().out)
    assert 1 <= len(rows) <= 3
    agreed = ["id", "title", "url", "cause", "family", "score", "why"]
    assert list(rows[0]) == [*agreed, "shared_signals", "conflicts", "private"]
    assert rows[0]["cause"] == "operator_dispatch"


def test_nothing_close_is_said_on_standard_error_and_is_an_empty_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(cases, "search", "the airspeed of a swallow", "--json") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == []
    assert "no case:" in printed.err


def test_the_text_form_names_title_address_and_reason(capsys: pytest.CaptureFixture[str]) -> None:
    execute(cases, "search", *QUERY, "--limit", "1")
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].strip().startswith("https://")
    assert "ranked" in lines[3]


def test_a_hit_says_what_it_contradicts(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("loss.item()", "synchronizes", "every", "step", "on", "Ascend")
    known = ("--suspect", "operator_dispatch", "--mechanism", "small_operators")
    rows = found(capsys, "search", *words, *known, "--limit", "40")
    by_id = {str(row["id"]): row["conflicts"] for row in rows}
    assert by_id["torchtune-loss-item-sync"] == ["another mechanism, host_synchronization"]
    assert by_id["aidotnet-launch-bound-graph"] == ["on NVIDIA, not Ascend"]
    execute(cases, "search", *words, *known, "--limit", "40")
    assert "speaks against it: on NVIDIA, not Ascend" in capsys.readouterr().out


def test_signals_that_were_seen_are_shared_signals_of_the_hits(capsys: pytest.CaptureFixture[str]) -> None:
    rows = found(capsys, "search", "slow", "--signal", "NCCL_IB_DISABLE=1 in the environment")
    assert rows[0]["id"] == "nccl-ib-disable-also-drops-roce"
    assert "NCCL_IB_DISABLE=1 in the environment" in list(rows[0]["shared_signals"])  # type: ignore[call-overload]


@pytest.mark.parametrize(("option", "value"), [("--suspect", "bad_luck"), ("--mechanism", "gremlins")])
def test_a_suspicion_outside_of_the_taxonomy_names_what_there_is(option: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"there is no {option[2:].replace('suspect', 'cause')} '{value}'"):
        execute(cases, "search", "slow", option, value)


def test_filters_narrow_a_search(capsys: pytest.CaptureFixture[str]) -> None:
    by_id = {case.id: case for case in load_cases()}
    rows = found(capsys, "search", *QUERY, "--year", "2024:", "--confidence", "high", "--limit", "50")
    hits = [by_id[str(row["id"])] for row in rows]
    assert hits
    assert all(hit.source.year is not None and hit.source.year >= 2024 and hit.confidence == "high" for hit in hits)


def test_a_filter_on_the_cause_leaves_only_that_cause(capsys: pytest.CaptureFixture[str]) -> None:
    rows = found(capsys, "search", "gpu", "idle", "waiting", "for", "the", "loader", "--family", "io")
    assert rows
    assert {row["family"] for row in rows} == {"io"}


@pytest.mark.parametrize(("option", "value"), [("--cause", "bad_luck"), ("--family", "weather")])
def test_a_filter_outside_of_the_taxonomy_names_what_there_is(option: str, value: str) -> None:
    with pytest.raises(UsageError, match="choose from"):
        execute(cases, "list", option, value)


@pytest.mark.parametrize("text", ["last", "2024:2020", "1999", ":"])
def test_a_year_that_is_none_is_a_usage_error(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    if text == ":":  # open at both ends: any year
        assert execute(cases, "list", "--year", text) == 0
        return
    with pytest.raises(SystemExit):
        execute(cases, "list", "--year", text)
    assert "--year" in capsys.readouterr().err


def test_the_list_holds_every_case_once(capsys: pytest.CaptureFixture[str]) -> None:
    rows = found(capsys, "list")
    assert sorted(str(row["id"]) for row in rows) == [case.id for case in load_cases()]


def test_the_list_narrows_by_framework_whatever_the_letters(capsys: pytest.CaptureFixture[str]) -> None:
    expected = [case.id for case in load_cases() if "nccl" in case.setting.framework.lower()]
    rows = found(capsys, "list", "--framework", "Nccl")
    assert sorted(str(row["id"]) for row in rows) == expected


def test_a_private_case_is_marked_in_search_list_and_show(own_case: str, capsys: pytest.CaptureFixture[str]) -> None:
    execute(cases, "search", "nightly backup slows rank on rack seven, run queue longer than the cores")
    assert f"{own_case}  (cpu: cpu_contention)  (private)" in capsys.readouterr().out
    execute(cases, "list", "--cause", "cpu_contention")
    assert "(private) Nightly backup" in capsys.readouterr().out
    execute(cases, "show", own_case)
    assert "Private: yes, it is read on this machine only" in capsys.readouterr().out
    row = next(row for row in found(capsys, "list") if row["id"] == own_case)
    assert row["private"] is True


def test_a_wrong_private_file_is_told_and_does_not_stop_the_list(
    own_folder: Path, own_case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (own_folder / "broken.yaml").write_text("id: [", encoding="utf-8")
    assert execute(cases, "list", "--cause", "cpu_contention") == 0
    printed = capsys.readouterr()
    assert own_case in printed.out
    assert "broken.yaml is not valid YAML" in printed.err


def test_a_case_is_printed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    execute(cases, "show", "aidotnet-launch-bound-graph")
    out = capsys.readouterr().out
    assert "Cause: operator_dispatch (small_operators), family cpu" in out
    assert "Effect: 32,000 ops: 1354.9 ms -> 244.8 ms" in out
    assert "Confidence: high" in out


def test_a_case_is_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    execute(cases, "show", "aidotnet-launch-bound-graph", "--json")
    assert json.loads(capsys.readouterr().out)["mechanism"] == "small_operators"


@pytest.mark.parametrize("cause", causes())
def test_a_cause_shows_its_playbook(cause: str, capsys: pytest.CaptureFixture[str]) -> None:
    execute(cases, "show", cause)
    out = capsys.readouterr().out
    assert out.startswith("# ")
    assert all(f"\n## {title}\n" in out for title in ("How it looks", "Look-alikes", "How to fix", "How to verify"))
    assert "<!--" not in out


@pytest.mark.parametrize("name", ["heavy_transform", "Heavy data transforms", "slow data processing"])
def test_a_playbook_is_found_by_the_name_of_its_cause_or_of_a_mechanism(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    execute(cases, "show", *name.split())
    assert capsys.readouterr().out.startswith("# Slow data preprocessing")


def test_the_playbook_ends_with_the_private_cases_of_its_cause(
    own_case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    execute(cases, "show", "cpu_contention")
    assert f"- `{own_case}`: Nightly backup" in capsys.readouterr().out.split("## Private cases")[1]
    execute(cases, "show", "straggler")
    assert "## Private cases" not in capsys.readouterr().out


def test_an_unknown_case_says_how_to_find_one() -> None:
    with pytest.raises(UsageError, match="cases search"):
        execute(cases, "show", "no-such-case")
