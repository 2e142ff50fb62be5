"""Cases as JSON, Markdown and CSV."""

from __future__ import annotations

import csv
import io
import json

import pytest

from case_library.library import CaseError, load_cases, validated
from hermes_agent.cli.library.export import COLUMNS, FORMS, export
from tests.case_library.own_cases import public_fields


def test_every_bundled_case_survives_the_way_through_json() -> None:
    cases = load_cases()
    record = json.loads(export(cases, "json"))
    assert record["schema"] == "hermes-dx/cases/1"
    assert tuple(validated(fields, "exported") for fields in record["cases"]) == cases


def test_csv_has_one_row_for_each_case_and_keeps_commas_and_quotes() -> None:
    cases = load_cases()
    rows = list(csv.DictReader(io.StringIO(export(cases, "csv"))))
    assert [row["id"] for row in rows] == [case.id for case in cases]
    assert list(rows[0]) == list(COLUMNS)
    assert [row["symptom"].removeprefix("'") for row in rows] == [case.symptom for case in cases]


def test_a_cell_that_a_spreadsheet_would_calculate_is_text() -> None:
    case = validated(public_fields("formula", effect="=HYPERLINK(1)"), "test")
    (row,) = csv.DictReader(io.StringIO(export([case], "csv")))
    assert row["effect"] == "'=HYPERLINK(1)"


def test_markdown_names_source_and_marks_private_cases() -> None:
    public = validated(public_fields("told"), "test")
    own = public.model_copy(update={"private": True})
    text = export([public, own], "md")
    assert text.count("- Source: https://github.com/example/told/issues/1, 2024") == 2
    assert text.count("(private)") == 1


@pytest.mark.parametrize("form", FORMS)
def test_nothing_to_export_is_said(form: str) -> None:
    with pytest.raises(CaseError, match="widen the filters"):
        export([], form)
