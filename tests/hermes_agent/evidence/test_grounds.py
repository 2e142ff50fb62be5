"""What answers may rest on, and figures that are numbered on after a diagnosis."""

from __future__ import annotations

import pytest

from hermes_agent.evidence.grounds import case_words, grounds, library_case
from hermes_agent.evidence.ledger import ContinuedLedger
from hermes_agent.evidence.verifier import verify
from hermes_agent.model.diagnosis import (
    AdviceRecord,
    CaseRecord,
    Diagnosis,
    EvidenceRecord,
    RecordedRecord,
    RunRecord,
    SourceSelector,
    StepTime,
)
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


def kinds(text: str, diagnosis: Diagnosis, *extra: EvidenceRecord) -> list[str]:
    return [problem.kind for problem in verify(text, grounds(diagnosis, extra))]


def test_figures_of_the_diagnosis_and_those_measured_since_are_grounds(diagnosis: Diagnosis) -> None:
    later = KNOWN.model_copy(update={"id": "E2", "value": 12.5})
    assert kinds("Rank 1 takes 12.5 ms [E2] of 177.6 ms [E1] in step 4.", diagnosis, later) == []
    assert kinds("It takes 12.5 ms [E2].", diagnosis) == ["unknown_id", "wrong_number"]
    assert kinds("Rank 7 waits.", diagnosis) == ["unknown_rank"]


def test_the_words_of_advice_and_of_the_whole_case_are_grounds(diagnosis: Diagnosis) -> None:
    assert kinds("Raise the workers to 8 [A1].", diagnosis) == []
    assert kinds("There 32,000 ops took 1354.9 ms, later 244.8 ms [C1].", diagnosis) == []
    assert kinds("Its similarity is 0.61 [C1].", diagnosis) == []
    assert kinds("There it took 999 ms [C1].", diagnosis) == ["wrong_number"]


def test_a_case_that_the_library_does_not_have_rests_on_its_record(diagnosis: Diagnosis) -> None:
    assert library_case("no-such-case") is None
    assert "RTX 3080" in case_words(CASE.model_copy(update={"case": "no-such-case"}))


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


def test_a_size_within_a_device_name_is_no_figure(diagnosis: Diagnosis) -> None:
    assert kinds("It runs on `Tesla V100-DGXS-32GB`.", diagnosis) == []
    assert kinds("It runs on `NVIDIA H100 80GB HBM3`.", diagnosis) == []
    assert kinds("It moves 32 GB per step.", diagnosis) == ["uncited_number"]


RECORDED = RecordedRecord(ranks=[0, 1, 50], steps=[(0, 39), (60, 99)], hosts=["node000", "node006", "trainer"])


def with_records(diagnosis: Diagnosis) -> Diagnosis:
    return diagnosis.model_copy(update={"run": diagnosis.run.model_copy(update={"recorded": RECORDED})})


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("Rank 50 waits.", []),
        ("Ranks 0, 1 and 50 wait.", []),
        ("Rank 51 waits.", ["unknown_rank"]),
        ("Ranks 1 to 51 wait.", ["unknown_rank"]),
        ("From step 60 on it is slower.", []),
        ("From step 59 on it is slower.", ["unknown_step"]),
        ("From step 100 on it is slower.", ["unknown_step"]),
    ],
)
def test_ranks_and_steps_that_only_the_monitor_recorded_are_grounds(
    diagnosis: Diagnosis, text: str, problems: list[str]
) -> None:
    assert kinds(text, with_records(diagnosis)) == problems


def test_without_records_only_what_was_traced_is_grounds(diagnosis: Diagnosis) -> None:
    assert kinds("Rank 50 waits from step 60 on.", diagnosis) == ["unknown_rank", "unknown_step"]


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("Rank 50 runs on node006.", []),
        ("Rank 50 runs on node007.", ["unknown_host"]),
        ("It is trainer that is slow.", []),
        ("It is node006.", []),
        ("Its device is A100.", []),
        ("On node006 it takes 12.5 ms.", ["uncited_number"]),
    ],
)
def test_a_host_must_be_one_of_the_run_and_its_number_is_no_figure(
    diagnosis: Diagnosis, text: str, problems: list[str]
) -> None:
    assert kinds(text, with_records(diagnosis)) == problems


def test_numbers_between_hyphens_of_a_host_are_no_figures(diagnosis: Diagnosis) -> None:
    recorded = RecordedRecord(hosts=["ip-10-0-0-12", "4", "7 ms"])
    known = diagnosis.model_copy(update={"run": diagnosis.run.model_copy(update={"recorded": recorded})})
    assert kinds("It is ip-10-0-0-12.", known) == []
    assert kinds("It is ip-10-0-0-13.", known) == ["unknown_host"]
    assert kinds("It is 4.", known) == ["uncited_number"]
    assert kinds("It takes 7 ms.", known) == ["uncited_number"]
