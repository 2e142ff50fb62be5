from __future__ import annotations

from pathlib import Path

import pytest

from evals.results.report import report
from evals.results.source_report import main
from evals.results.source_table import by_sources, source_rows
from evals.results.summary import summarise
from evals.suite.outcome import CaseResult, Standing
from tests.evals.scored import result


def _run(name: str, **standings: Standing) -> list[CaseResult]:
    found = []
    for sources, standing in standings.items():
        tags = {"source": "others", "kind": "cause", "sources": sources, "run": name}
        own = name if sources == "all" else f"{name}-{sources}"
        found.append(result(own, tags=tags, standing=standing, scores={"lead_place": 1.0}))
    return found


CASES = [
    *_run("steady", all="right", traces="right", log="cannot_answer"),
    *_run("spoiled", all="wrong", traces="right"),
    *_run("misled", all="right", traces="lead", records="wrong"),
    *_run("open", all="lead", traces="wrong"),
]


def test_a_right_answer_that_more_or_less_data_turns_into_a_wrong_one_is_listed() -> None:
    found = by_sources(CASES)
    said = {(each.run, each.given, each.wrong_with) for each in found.contradictions}
    assert said == {("spoiled", "traces", "more data"), ("misled", "records", "less data")}
    agreement = found.agreement["runs of others"]
    assert (agreement.mean, agreement.cases) == (1 / 3, 3), "inconclusive and unanswered contradict nothing"


def test_answers_are_counted_by_origin_split_and_sources() -> None:
    table = {(each.sources, each.healthy): each.counts for each in by_sources(CASES).standings}
    assert table["all", False] == {"right": 2, "lead": 1, "no_lead": 0, "cannot_answer": 0, "wrong": 1}
    assert table["traces", False]["wrong"] == 1
    assert ("all", True) not in table


def test_rows_stand_by_their_share_of_wrong_answers_and_count_right_leads_apart() -> None:
    leading = result(
        "led-traces-log",
        tags={"source": "others", "kind": "cause", "sources": "traces+log", "run": "led"},
        standing="lead",
        scores={"lead_candidate": 1.0},
    )
    calm = result("calm", tags={"source": "others", "kind": "healthy", "run": "calm"}, standing="no_lead")
    rows = source_rows(by_sources([*CASES, leading, calm]).standings, "runs of others", "dev")
    assert [(row.sources, row.wrong, row.runs) for row in rows] == [
        ("records", 1, 1),
        ("traces", 1, 4),
        ("all", 1, 5),
        ("log", 0, 1),
        ("traces+log", 0, 1),
    ]
    both = rows[-1].faulty
    assert both is not None
    assert (both.right_leads, both.inconclusive) == (1, 0)
    text = report(summarise([*CASES, leading, calm], [], "templates", "1"), "hermes-dx eval")
    assert "| all        | 2 of 4        | 0                        | 1 " in text
    assert text.index("1 of 1 (100.0 %)") < text.index("1 of 4 (25.0 %)") < text.index("1 of 5 (20.0 %)")


def test_the_report_names_the_runs_and_keeps_other_scores_to_answers_with_everything() -> None:
    results = summarise(CASES, [], "templates", "1")
    assert [(g.origin, g.cases) for g in results.groups if not g.dimension and not g.split] == [("runs of others", 4)]
    text = report(results, "hermes-dx eval")
    assert "- `spoiled`: right by its traces alone, wrong with everything" in text
    assert "- `misled`: wrong by its records alone, right with everything" in text
    assert "| runs of others | traces" in text


def test_tables_of_several_saved_runs_are_of_their_cases_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, cases in {"first": CASES, "second": _run("open", traces="right")}.items():
        saved = summarise(cases, [], "templates", "1").model_dump_json(by_alias=True)
        (tmp_path / f"{name}.json").write_text(saved, encoding="utf-8")
    main([str(tmp_path / "first.json"), str(tmp_path / "second.json")])
    text = capsys.readouterr().out
    assert "### Runs of others, dev" in text
    assert "0 of 4 (0.0 %)" in text, "the second run answers right by the traces what the first one got wrong"
