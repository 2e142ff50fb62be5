"""Finding events: filters against a plain pandas filter, pages that give every row once, ids that open again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.agent_tools.questions_run import questions_profile
from tools.agent_tools.context import RunContext
from tools.agent_tools.registry import BY_NAME
from tools.agent_tools.result import Result
from tools.errors import UsageError
from tools.run.events import EventKind
from tools.run.row_ids import GROUPS

CONTEXT = RunContext(questions_profile())
KINDS = ("kernel", "memcpy", "operator", "annotation", "runtime", "python", "device")


def ask(tool: str, /, **arguments: object) -> Result:
    return BY_NAME[tool].call(CONTEXT, json.dumps(arguments))


def naive() -> pd.DataFrame:
    """The events of rank 0 with their ids; times in ns."""
    frame = questions_profile().rank(0).events.frame
    return pd.DataFrame(
        {
            "id": [f"e0.{row}" for row in range(len(frame))],
            "name": frame["name"].astype(str),
            "kind": [EventKind(kind).name.lower() for kind in frame["kind"]],
            "start_ns": frame["start_ns"],
            "ns": frame["end_ns"] - frame["start_ns"],
            "step": frame["start_ns"] // 10_000_000,
        }
    )


EVENTS = naive()
FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from(KINDS),
        "name": st.sampled_from(sorted(set(EVENTS["name"]))),
        "contains": st.sampled_from(["sgemm", "ATEN", "cuda", "Linear_0", "(", ".*"]),
        "step": st.integers(0, 3),
        "from_ms": st.floats(0, 40, allow_nan=False),
        "to_ms": st.floats(0, 40, allow_nan=False),
        "min_us": st.floats(0, 1000, allow_nan=False),
        "sort": st.sampled_from(["duration", "start"]),
    },
)


def expected(asked: dict[str, Any]) -> pd.DataFrame | None:
    """The same choice by plain pandas; None where no event of that kind has the name."""
    table = EVENTS
    if asked.get("kind") == "device":
        table = table[table["kind"].isin(["kernel", "memcpy", "memset"])]
    elif "kind" in asked:
        table = table[table["kind"] == asked["kind"]]
    if "name" in asked:
        table = table[table["name"] == asked["name"]]
    if "contains" in asked:
        table = table[table["name"].str.lower().str.contains(asked["contains"].lower(), regex=False)]
    if table.empty and {"name", "contains"} & asked.keys():
        return None
    if "step" in asked:
        table = table[table["step"] == asked["step"]]
    table = table[table["start_ns"] >= asked.get("from_ms", 0.0) * 1e6]
    table = table[table["start_ns"] < asked.get("to_ms", 1e9) * 1e6]
    table = table[table["ns"] >= asked.get("min_us", 0.0) * 1e3]
    longest_first: pd.DataFrame = table.sort_values("ns", ascending=False, kind="stable")
    return table if asked.get("sort") == "start" else longest_first


@settings(max_examples=40, deadline=None)
@given(FILTERS, st.integers(1, 500))
def test_filters_choose_what_plain_pandas_chooses_page_by_page(asked: dict[str, Any], limit: int) -> None:
    table = expected(asked)
    if table is None:
        with pytest.raises(UsageError, match="no such event of rank 0"):
            ask("find_events", rank=0, **asked)
        return
    pages = list(pages_of("find_events", rank=0, limit=limit, **asked))
    assert [row["id"] for page in pages for row in rows(page)] == list(table["id"])
    assert {page.total for page in pages} == {len(table)}


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(["name", "phase", "stream", "stack", "module", "shape"]),
    st.sampled_from(KINDS),
    st.sampled_from([None, 0, 3]),
)
def test_groups_hold_every_event_once(by: str, kind: str, step: int | None) -> None:
    table = expected({"kind": kind} | ({} if step is None else {"step": step}))
    assert table is not None
    found = [
        row
        for page in pages_of("find_events", rank=0, kind=kind, step=step, group_by=by, limit=3)
        for row in rows(page)
    ]
    assert sum(row["count"] for row in found) == len(table)
    assert sum(row["total_ms"] for row in found) == pytest.approx(table["ns"].sum() / 1e6)
    assert len({row["id"] for row in found}) == len(found)
    if found:
        assert sum(row["share_pct"] for row in found) == pytest.approx(100.0)
    if by == "name":
        assert {row["name"]: row["count"] for row in found} == table["name"].value_counts().to_dict()


def rows(result: Result) -> list[dict[str, Any]]:
    return [row.model_dump() for row in result.rows]


def pages_of(tool: str, /, **arguments: object) -> Iterator[Result]:
    """All pages of a question."""
    page = ask(tool, **arguments)
    yield page
    while page.cursor is not None:
        page = ask(tool, cursor=page.cursor, **arguments)
        yield page


LISTING: list[tuple[str, dict[str, Any]]] = [
    ("run_overview", {}),
    ("series", {}),
    ("rank_comparison", {}),
    ("phases", {"rank": 0}),
    ("find_events", {"rank": 1, "kind": "kernel"}),
    *(("find_events", {"rank": 1, "group_by": by}) for by in GROUPS),
    ("find_events", {"rank": 0, "kind": "operator", "group_by": "name"}),
    ("collective_instances", {}),
    ("gaps", {"rank": 1}),
    ("compare", {"between": "steps", "a": 0, "b": 1, "by": "module"}),
    ("compare", {"between": "ranks", "a": 0, "b": 1}),
]


@pytest.mark.parametrize(("tool", "arguments"), LISTING, ids=lambda each: each if isinstance(each, str) else "")
def test_every_id_of_a_row_opens_and_gives_that_row(tool: str, arguments: dict[str, Any]) -> None:
    listed = rows(ask(tool, **arguments))
    assert listed
    for each in {row["id"]: row for row in listed}.values():
        opened = rows(ask("event", id=each["id"]))
        if tool == "compare":
            assert opened[0]["id"] == each["id"]
        elif "group_by" in arguments:
            assert each in opened
        else:
            assert each.items() <= opened[0].items()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("e0.99999", "rank 0 has no event e0.99999; it has rows 0 to"),
        ("e7.1", "the run has no rank 7; it has 0, 1"),
        ("c0.1", "there is no collective c0.1; rank 0 has 8, among them c0."),
        ("g0.1.99", "there is no gap g0.1.99; step 1 of rank 0 has"),
        ("g0.9.0", "rank 0 has no step 9; its steps are 0 to 3"),
        ("s0.9", "rank 0 has no step 9"),
        ("w0.1", "no monitor records and no step log"),
        ("n0.00000000", "no name on rank 0 has the id n0.00000000"),
        ("n0.1f0c", "is no id of this run; ids look like e0.1520"),
        ("g0.1", "'g0.1' is not whole"),
        ("e0", "'e0' is not whole"),
        ("volta_sgemm", "'volta_sgemm' is no id of this run"),
    ],
)
def test_an_id_that_is_none_is_an_error_with_what_there_is(wrong: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        ask("event", id=wrong)
    assert message in str(error.value)


def test_the_cursor_of_another_question_is_refused() -> None:
    cursor = ask("find_events", rank=0, limit=1).cursor
    with pytest.raises(UsageError, match="belongs to another call"):
        ask("find_events", rank=1, limit=1, cursor=cursor)
    with pytest.raises(UsageError, match="belongs to another call"):
        ask("series", cursor=cursor)


def test_figures_of_rows_measure_the_same_again() -> None:
    for tool, arguments in LISTING:
        for fact in ask(tool, **arguments).facts:
            again = ask(
                "measure", metric=fact.metric, arguments={k: v for k, v in fact.arguments.items() if v is not None}
            )
            assert again.facts[0].value == fact.value
