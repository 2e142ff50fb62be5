"""The published JSON schema is made from the records, and every output of the evaluation is what it says."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from evals.suite.carry_out import Conditions, carry_out
from evals.suite.case_files import load_cases
from evals.suite.run_places import Places
from hermes_agent.cli.commands import schema
from hermes_agent.model.contract import PATH, check_contract, contract_text, faults
from hermes_agent.model.diagnosis import Diagnosis
from tests.hermes_agent.cli.execution import execute

REPOSITORY = Path(__file__).resolve().parents[3]
GENERATED = ("small-messages-1", "healthy-noisy")


def test_the_published_schema_is_the_records() -> None:
    assert (REPOSITORY / PATH).read_text(encoding="utf-8") == contract_text()
    printed = io.StringIO()
    with redirect_stdout(printed):
        assert execute(schema) == 0
    assert printed.getvalue() == contract_text()


def test_the_bundled_runs_diagnosis_is_what_the_schema_says_and_nothing_less(demo_diagnosis: Diagnosis) -> None:
    text = demo_diagnosis.model_dump_json(by_alias=True)
    assert faults(text) == []
    wrong = json.loads(text)
    wrong["causes"][0]["impact_pct"] = "much"
    wrong["schema"] = "hermes-dx/diagnosis/0"
    del wrong["evidence"][2]["unit"]
    found = faults(json.dumps(wrong))
    assert sorted(line.partition(":")[0] for line in found) == ["$.causes[0].impact_pct", "$.evidence[2]", "$.schema"]


def test_fields_of_a_later_version_are_allowed(demo_diagnosis: Diagnosis) -> None:
    record = json.loads(demo_diagnosis.model_dump_json(by_alias=True))
    record["run"]["colour"] = record["colour"] = "blue"
    assert faults(json.dumps(record)) == []


@pytest.mark.parametrize("name", GENERATED)
def test_the_evaluation_checks_each_answer_by_the_schema(name: str, tmp_path: Path, index_only: Path) -> None:
    (case,) = (case for case in load_cases() if case.id == name)
    result = carry_out(case, Conditions(Places(tmp_path, ()), index_only))
    assert (result.status, result.reason) == ("scored", "")


def test_an_answer_that_breaks_the_contract_fails(demo_diagnosis: Diagnosis) -> None:
    broken = demo_diagnosis.model_copy(update={"headline": 7})
    with pytest.warns(UserWarning, match="Pydantic"), pytest.raises(ValueError, match=r"\$\.headline: 7 is not"):
        check_contract(broken)
