"""The server through a client in memory: every tool, what is refused, and how much one result may hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermes_agent.mcp_server.open_runs import OpenRuns
from hermes_agent.mcp_server.payload import MOST_BYTES
from hermes_agent.mcp_server.registry import BY_NAME
from hermes_agent.registered_runs import RegisteredRuns
from tests.hermes_agent.mcp_server.served import ARGUMENTS, DEMO, served, text_of
from tools.agent_tools.registry import TOOLS

pytest.importorskip("mcp", reason="the extra mcp is not installed")
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp.types import PromptReference, ResourceTemplateReference

from hermes_agent.mcp_server.server import server_of


@pytest.fixture(scope="module")
def runs(shared_cache: Path) -> Iterator[OpenRuns]:
    found = served(shared_cache, DEMO)
    yield found
    found.close()


def client(runs: OpenRuns, mode: str = "auto") -> Client:
    return Client(server_of(runs), mode=mode)


async def called(runs: OpenRuns, name: str, **arguments: Any) -> Any:  # noqa: ANN401 (results of any tool)
    async with client(runs) as connected:
        return await connected.call_tool(name, arguments)


async def test_every_tool_of_the_registry_is_offered_once_and_only_reads(runs: OpenRuns) -> None:
    async with client(runs) as connected:
        listed = (await connected.list_tools()).tools
    names = [each.name for each in listed]
    assert len(names) == len(set(names))
    assert {each.name for each in TOOLS} < set(names) == set(ARGUMENTS)
    for each in listed:
        assert each.annotations is not None
        assert each.annotations.read_only_hint
        assert each.annotations.idempotent_hint
        assert each.output_schema is not None
        assert each.input_schema["additionalProperties"] is False
        assert ("run" in each.input_schema["properties"]) == (each.name != "list_runs")


async def test_every_tool_gives_a_result_that_fits_its_schema(runs: OpenRuns) -> None:
    async with client(runs) as connected:
        await connected.list_tools()  # the client then holds results against the schemas
        for name, arguments in ARGUMENTS.items():
            result = await connected.call_tool(name, arguments)
            assert not result.is_error, text_of(result)
            assert text_of(result).startswith("[data ")
            assert result.structured_content is not None
            assert name == "list_runs" or result.structured_content["run"].startswith("slow-")


def columns_of(schema: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The columns of each kind of row that a schema of results declares."""
    assert schema is not None
    items = schema["properties"]["rows"].get("items", {})
    kinds = [each["$ref"].rpartition("/")[2] for each in items.get("anyOf", [items]) if each]
    return [schema["$defs"][kind]["properties"] for kind in kinds]


async def test_each_tool_declares_the_columns_of_its_rows(runs: OpenRuns) -> None:
    async with client(runs) as connected:
        declared = {each.name: each.output_schema for each in (await connected.list_tools()).tools}
        for tool in TOOLS:
            columns = columns_of(declared[tool.name])
            assert len(columns) == len(tool.rows), tool.name
            rows = (await connected.call_tool(tool.name, ARGUMENTS[tool.name])).structured_content["rows"]
            assert all(row.keys() in [each.keys() for each in columns] for row in rows), tool.name
            assert bool(rows) <= bool(columns)


async def test_rows_of_every_kind_that_an_id_opens_are_declared(runs: OpenRuns) -> None:
    grouped = {"run": "slow", "rank": 1, "group_by": "phase", "kind": "operator"}
    async with client(runs) as connected:
        columns = columns_of(next(t.output_schema for t in (await connected.list_tools()).tools if t.name == "event"))
        ids = ["r0", "s1.40"]
        for tool, arguments in (("find_events", ARGUMENTS["find_events"]), ("find_events", grouped)):
            ids += [(await connected.call_tool(tool, arguments)).structured_content["rows"][0]["id"]]
        ids += [
            (await connected.call_tool("collective_instances", {"run": "slow"})).structured_content["rows"][0]["id"]
        ]
        for each in ids:
            opened = await connected.call_tool("event", {"run": "slow", "id": each})
            rows = opened.structured_content["rows"]
            assert rows, each
            assert all(row.keys() in [kind.keys() for kind in columns] for row in rows), each


@pytest.mark.parametrize(
    ("tool", "metric", "column"),
    [("find_events", "event_ms", "duration_ms"), ("rank_comparison", "rank_time_ms", "own_ms")],
)
async def test_the_unit_of_a_column_is_that_of_the_figure_measured(
    runs: OpenRuns, tool: str, metric: str, column: str
) -> None:
    async with client(runs) as connected:
        declared = {each.name: each.output_schema for each in (await connected.list_tools()).tools}
        found = (await connected.call_tool(tool, ARGUMENTS[tool])).structured_content
    fact = next(each for each in found["facts"] if each["metric"] == metric)
    assert fact["value"] == pytest.approx(found["rows"][0][column])
    assert columns_of(declared[tool])[0][column]["unit"] == fact["unit"]


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        ("slow_device", "No sign of a slow device"),
        ("slow_data_fetching", "slow batch transfer to the device"),
        ("slow_data_processing", "Yes: the first of the causes found is heavy data transforms on rank 1"),
        ("slow_data_reading", "slow data reading"),
        ("slow_link", "a slow link"),
    ],
)
async def test_why_not_is_about_the_cause(runs: OpenRuns, cause: str, said: str) -> None:
    text = text_of(await called(runs, "why_not", run="slow", cause=cause))
    assert said in text.split(". ")[0] + text.split(". ")[1]


async def test_the_figures_are_those_of_the_tools(runs: OpenRuns) -> None:
    found = (await called(runs, "measure", **ARGUMENTS["measure"])).structured_content["facts"][0]
    record = (await called(runs, "diagnose", run="slow")).structured_content
    assert found["value"] == pytest.approx(record["step_time_ms"]["mean"])
    assert record["causes"][0]["cause"] == "slow_data_processing"
    fix = (await called(runs, "confirm", **ARGUMENTS["confirm"])).structured_content
    assert fix["measured_speedup"] == pytest.approx(fix["before_ms"] / fix["after_ms"])
    assert fix["outcome"] == "confirmed"


async def test_the_pages_of_a_long_result_hold_every_row_once(runs: OpenRuns) -> None:
    asked: dict[str, Any] = {"run": "slow", "rank": 1, "limit": 500}
    ids: list[str] = []
    for _ in range(3):
        result = await called(runs, "find_events", **asked)
        assert len(text_of(result)) < MOST_BYTES + 500
        assert len(json.dumps(result.structured_content, separators=(",", ":"))) < MOST_BYTES + 500
        ids += [row["id"] for row in result.structured_content["rows"]]
        asked["cursor"] = result.structured_content["cursor"]
    assert len(ids) == len(set(ids)) > 300


async def test_a_result_is_read_again_by_its_handle(runs: OpenRuns) -> None:
    first = (await called(runs, "gaps", run="slow", rank=0)).structured_content
    again = await called(runs, "read_result", run=first["run"], handle=first["handle"])
    assert first["notes"][0][:40] in again.structured_content["text"]
    unknown = await called(runs, "read_result", run="slow", handle="R99999")
    assert "There is no result 'R99999'" in text_of(unknown)


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("gapz", {}, "the nearest are gaps"),
        ("gaps", {"run": "slow", "rnak": 0}, "no parameter 'rnak'; did you mean 'rank'?"),
        ("gaps", {"run": "slow", "zzzzzz": 0}, "zzzzzz is unknown (known: run, limit"),
        ("gaps", {"rank": 0}, "run is missing"),
        ("gaps", {"run": "slow", "rank": 9}, "the run has no rank 9"),
        ("gaps", {"run": "slwo", "rank": 0}, "did you mean slow"),
        ("gaps", {"run": "/etc/passwd", "rank": 0}, "neither a registered run nor inside an allowed folder"),
        ("gaps", {"run": "slow/../../../etc", "rank": 0}, "neither a registered run nor inside an allowed folder"),
        ("gaps", {"run": "s3://bucket/run", "rank": 0}, "neither a registered run nor inside an allowed folder"),
        ("open_run", {"run": "slow", "ranks": [7]}, "7"),
        ("open_run", {"run": "measured.json"}, "measured.json"),
        ("ask", {"run": "slow", "question": "x" * 5000}, "at most 4000 characters"),
        ("why_not", {"run": "slow", "cause": "slow_lin"}, "the nearest are slow_link"),
    ],
)
async def test_what_is_wrong_is_one_sentence(
    runs: OpenRuns, name: str, arguments: dict[str, Any], sentence: str
) -> None:
    result = await called(runs, name, **arguments)
    assert result.is_error
    assert sentence in text_of(result)
    assert len(text_of(result).splitlines()) == 3  # between two lines that mark it as data


async def test_a_question_that_is_not_understood_is_no_answer(runs: OpenRuns) -> None:
    result = await called(runs, "ask", run="slow", question="qwertz uiop")
    assert not result.is_error
    assert result.structured_content["answered"] is False


async def test_a_registered_run_is_found_by_name_until_it_is_removed(
    own_cache: Path,
) -> None:
    runs = served(own_cache)
    RegisteredRuns.load(runs.settings).add("toy", [DEMO / "slow"])
    assert (await called(runs, "list_runs")).structured_content["rows"][0]["run"] == "toy"
    assert (await called(runs, "breakdown", run="toy")).structured_content["run"] == "toy"
    assert "no folder is allowed" in text_of(await called(runs, "breakdown", run=str(DEMO / "fixed")))
    RegisteredRuns.load(runs.settings).remove("toy")
    assert "toy is no registered run" in text_of(await called(runs, "breakdown", run="toy"))
    runs.close()


async def test_resources_hold_the_diagnosis_its_evidence_cases_and_causes(runs: OpenRuns) -> None:
    async with client(runs) as connected:
        run = (await connected.call_tool("diagnose", {"run": "slow"})).structured_content["run"]
        listed = [str(each.uri) for each in (await connected.list_resources()).resources]
        assert f"hermes://runs/{run}/diagnosis" in listed

        async def read(uri: str) -> str:
            content: Any = (await connected.read_resource(uri)).contents[0]
            return str(content.text)

        record = json.loads(await read(f"hermes://runs/{run}/diagnosis"))
        assert record["schema"] == "hermes-dx/diagnosis/1"
        assert record["headline"] in (await read(f"hermes://runs/{run}/diagnosis.md")).replace("\n", " ")
        assert "Measured again" in (shown := await read(f"hermes://runs/{run}/evidence/E1"))
        assert shown.startswith("[data ")
        assert (await read(f"hermes://runs/{run}/diagnosis.md")).startswith("[data ")
        case = record["cases"][0]["case"]
        assert case in await read(f"hermes://cases/{case}")
        assert "slow_data_processing" in await read("hermes://causes")
        assert "How to verify" in await read("hermes://causes/slow_data_processing")
        for wrong in (
            "hermes://runs/nothing/diagnosis",
            "hermes://causes/none",
            "hermes://other",
            "file:///etc/passwd",
        ):
            with pytest.raises(MCPError):
                await read(wrong)


async def test_prompts_name_their_runs_and_the_tools_there_are(runs: OpenRuns) -> None:
    async with client(runs) as connected:
        assert [each.name for each in (await connected.list_prompts()).prompts] == ["diagnose_run", "verify_fix"]
        fix = await connected.get_prompt("verify_fix", {"before": "slow", "after": "fixed", "advice": "A1"})
        content: Any = fix.messages[0].content
        assert "`slow`" in content.text
        for text in ("confirm", "open_run"):
            assert f"`{text}`" in content.text
            assert text in BY_NAME
        with pytest.raises(MCPError, match="after missing"):
            await connected.get_prompt("verify_fix", {"before": "slow", "advice": "A1"})


async def test_names_of_runs_and_causes_are_completed(runs: OpenRuns) -> None:
    async with client(runs) as connected:
        handle = (await connected.call_tool("diagnose", {"run": "slow"})).structured_content["run"]
        prompt = PromptReference(name="diagnose_run")
        found = (await connected.complete(prompt, {"name": "run", "value": handle[:-2]})).completion
        assert found.values == [handle]
        template = ResourceTemplateReference(uri="hermes://causes/{cause}")
        found = (await connected.complete(template, {"name": "cause", "value": "slow_li"})).completion
        assert found.values == ["slow_link"]
        assert (await connected.complete(prompt, {"name": "advice", "value": ""})).completion.values == []


async def test_two_clients_work_on_two_runs_at_once(runs: OpenRuns) -> None:
    import anyio

    found: dict[str, float] = {}

    async def work(run: str) -> None:
        async with client(runs, "legacy") as connected:
            for _ in range(3):
                record = (await connected.call_tool("diagnose", {"run": run})).structured_content
                await connected.call_tool("breakdown", {"run": run})
            found[run] = record["step_time_ms"]["mean"]

    async with anyio.create_task_group() as group:
        group.start_soon(work, "slow")
        group.start_soon(work, "fixed")
    assert found["slow"] > 1.5 * found["fixed"]


async def test_names_are_masked_and_masks_understood_where_that_is_set(shared_cache: Path) -> None:
    runs = served(shared_cache, DEMO, redact=True)
    listed = await called(runs, "list_runs")
    record = await called(runs, "evidence", run="slow", id="E1")
    wrong = await called(runs, "breakdown", run="/etc")
    for result in (listed, record, wrong):
        assert str(DEMO) not in text_of(result) + json.dumps(result.structured_content)
    runs.close()


async def test_the_host_of_a_trace_is_masked_in_rows(traces: Path, index_only: Path) -> None:
    runs = served(index_only, traces / "nsys", redact=True)  # the export names the machine "modal"
    result = await called(runs, "rank_comparison", run="h100_2gpu_1s.sqlite")
    assert result.structured_content["rows"][0]["host"] == "host-1"
    assert "modal" not in text_of(result)
    runs.close()
