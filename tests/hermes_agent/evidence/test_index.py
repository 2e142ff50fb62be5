"""What answers may cite, and figures that are numbered on after a diagnosis."""

from __future__ import annotations

import pytest

from hermes_agent.evidence.cases import library_case, recalled_case
from hermes_agent.evidence.index import evidence_index
from hermes_agent.evidence.ledger import ContinuedLedger
from hermes_agent.model.diagnosis import AdviceRecord, CaseRecord, Diagnosis, EvidenceRecord, SourceSelector, StepTime
from hermes_agent.model.run_record import RecordedRecord, RunRecord
from tools.findings import Fact

KNOWN = EvidenceRecord(
    id="E1",
    metric="step_time_ms",
    arguments={"statistic": "median"},
    value=177.6,
    unit="ms",
    ranks=[0],
    steps=[3],
    window_ns=None,
    source=SourceSelector(path="a.json", selector="steps"),
)
CASE = CaseRecord(
    id="C1",
    case="aidotnet-launch-bound-graph",
    title="Small transformer on RTX 3080 at 8-30% utilization is launch bound",
    url="https://example.org/pull/548",
    similarity=0.6123,
    shared_signals=[],
    cause="operator_dispatch",
    why="words in common",
)
ADVICE = AdviceRecord(
    id="A1",
    for_="slow_data_processing",
    optimization="Load batches in worker processes",
    how="raise the workers to 8",
    effort=1,
    risk="none",
    verify="the span is near zero",
    predicted_step_ms=None,
    predicted_speedup=None,
    interval=None,
)


@pytest.fixture
def diagnosis() -> Diagnosis:
    run = RunRecord(sources=[], ranks=[0, 1], steps=[3, 4], step_origin="", devices=[], layout={})
    return Diagnosis(
        run=run,
        verdict="problem",
        headline="",
        step_time_ms=StepTime(median=177.6, p95=180.0, mean=178.0, steps=2),
        breakdown=[],
        causes=[],
        advice=[ADVICE],
        checks=[],
        evidence=[KNOWN],
        cases=[CASE],
    )


def test_figures_of_the_diagnosis_and_those_measured_since_are_known_by_id(diagnosis: Diagnosis) -> None:
    later = KNOWN.model_copy(update={"id": "E2", "value": 12.5})
    index = evidence_index(diagnosis, [later])
    assert [name for name in ("E1", "E2", "E3", "A1", "A2", "C1", "C2") if name in index] == ["E1", "E2", "A1", "C1"]
    assert index.evidence["E2"].value == 12.5
    assert "E2" not in evidence_index(diagnosis)


def test_a_case_is_read_from_the_library_where_it_is(diagnosis: Diagnosis) -> None:
    case = recalled_case(CASE)
    assert case is not None
    assert "1354.9 ms" in case.model_dump_json()
    assert recalled_case(CASE.model_copy(update={"case": "no-such-case"})) is None


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "", ".hidden"])
def test_a_case_name_never_leads_out_of_the_library(name: str) -> None:
    assert library_case(name) is None


def test_a_measurement_keeps_the_id_it_has_and_a_new_one_is_numbered_on() -> None:
    ledger = ContinuedLedger([KNOWN])
    assert ledger.cite(Fact("step_time_ms", (("statistic", "median"),), 177.6, "ms")) == "E1"
    assert ledger.cite(Fact("step_time_ms", (("statistic", "max"),), 190.0, "ms")) == "E2"
    assert ledger.cite(Fact("step_time_ms", (("statistic", "max"),), 190.0, "ms")) == "E2"
    assert ledger.cite(Fact("step_time_ms", (("statistic", "median"),), 1.0, "ms", run="baseline")) == "E3"
    assert [record.id for record in ledger.added()] == ["E2", "E3"]


RECORDED = RecordedRecord(ranks=[0, 1, 50], steps=[(0, 39), (60, 99)], hosts=["node000", "node006", "trainer"])


def with_records(diagnosis: Diagnosis) -> Diagnosis:
    return diagnosis.model_copy(update={"run": diagnosis.run.model_copy(update={"recorded": RECORDED})})


def test_ranks_and_steps_that_only_the_monitor_recorded_are_known(diagnosis: Diagnosis) -> None:
    index = evidence_index(with_records(diagnosis))
    assert [rank for rank in (0, 1, 50, 51) if rank in index.ranks] == [0, 1, 50]
    assert [step for step in (0, 39, 40, 59, 60, 99, 100) if step in index.steps] == [0, 39, 60, 99]


def test_without_records_only_what_was_traced_is_known(diagnosis: Diagnosis) -> None:
    index = evidence_index(diagnosis)
    assert (50 in index.ranks, 60 in index.steps, 3 in index.steps) == (False, False, True)
