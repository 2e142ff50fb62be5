"""All tools that a model gets, on the made-up run: every figure they give can be cited."""

from __future__ import annotations

import pytest

from hermes_agent.evidence.citations import cited_ids, wrong_citations
from hermes_agent.statements.question import tools_for
from tests.hermes_agent.statements.slow_loader import diagnosis, discussion, id_of
from tools.errors import UsageError

ASKED: dict[str, dict[str, object]] = {
    "diagnosis_summary": {},
    "explain_cause": {"cause": "slow_data_processing"},
    "advice": {},
    "baseline_comparison": {},
    "run_overview": {},
    "environment": {},
    "series": {"rank": 0, "limit": 2},
    "breakdown": {},
    "rank_comparison": {},
    "phases": {"rank": 0},
    "critical_path": {},
    "find_events": {"rank": 0, "group_by": "name", "limit": 1},
    "event": {"id": "s0.1"},
    "collective_instances": {},
    "gaps": {"rank": 0, "limit": 3},
    "launch_queue": {"rank": 0},
    "compare": {"between": "steps", "a": 0, "b": 1},
    "mfu": {},
    "what_if": {"changes": [{"cause": "slow_data_processing"}]},
    "checks": {"status": "cannot_answer"},
    "measure": {"metric": "part_ms", "arguments": {"part": "compute"}},
}
NO_FIGURES_OF_THE_RUN = {"list_metrics", "evidence", "cases", "plan"}


def test_the_tools_are_these_and_no_others() -> None:
    tools = tools_for(discussion())
    assert set(tools) == {*ASKED, *NO_FIGURES_OF_THE_RUN}
    for name, tool in tools.items():
        assert tool.name == name
        assert len(tool.description) > 20
        assert tool.schema["additionalProperties"] is False


@pytest.mark.parametrize("name", ASKED)
def test_every_figure_of_a_tool_carries_an_id_that_bears_it_out(name: str) -> None:
    about = discussion()
    text = tools_for(about)[name].call(ASKED[name])
    assert text
    assert len(text) < 6_000
    assert wrong_citations(text, about.index()) == []


def test_what_the_diagnosis_measured_keeps_its_id_and_what_is_new_is_numbered_on() -> None:
    about = discussion()
    text = tools_for(about)["series"].call({"limit": 1})
    assert id_of("step_time_ms", statistic="mean") in cited_ids(text)
    known = {record.id for record in diagnosis().evidence}
    new = [name for name in cited_ids(text) if name not in known]
    assert new == [f"E{len(known) + 1 + place}" for place in range(len(new))]
    assert [record.id for record in about.ledger.added()] == new


def test_rows_behind_a_figure_are_shown_without_the_path_of_the_file() -> None:
    text = tools_for(discussion())["evidence"].call({"id": id_of("loader_span_ms")})
    assert "Rows, 4 of 4:" in text
    assert "_SingleProcessDataLoaderIter" in text
    assert "Source:" not in text


def test_a_mechanism_that_nothing_looks_for_is_open() -> None:
    text = tools_for(discussion())["explain_cause"].call(
        {"cause": "environment_configuration", "mechanism": "power_governor"}
    )
    assert "open, not ruled out" in text


def test_a_mechanism_has_to_belong_to_its_cause() -> None:
    with pytest.raises(UsageError, match="straggler has no mechanism 'too_few_workers'"):
        tools_for(discussion())["what_if"].call({"changes": [{"cause": "straggler", "mechanism": "too_few_workers"}]})
