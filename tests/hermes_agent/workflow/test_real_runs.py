"""Every sentence of every diagnosis of a real trace stands up to the evidence, and the parts add up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_agent.demo.data import demo_fixed_run, demo_run
from hermes_agent.evidence.citations import wrong_citations
from hermes_agent.evidence.index import evidence_index
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.request import Request
from hermes_agent.workflow.diagnose import diagnose

REAL = (
    "kineto/resnet50_workers0.pt.trace.json.gz",
    "kineto/resnet50_workers4.pt.trace.json.gz",
    "hta/amd_trace.json.gz",
    "hta/cpu_only.json.gz",
    "hta/critical_path_alexnet.json.gz",
    "hta/critical_path_cuda_event_sync.json.gz",
    "hta/critical_path_cuda_event_sync_multi_stream.json.gz",
    "hta/critical_path_simple_add.json.gz",
    "hta/df_index_resolver.json.gz",
    "hta/nccl_parser_config.json.gz",
    "hta/negative_queue_length_values_check.json.gz",
    "hta/timeline_analysis.json.gz",
    "hta/trace_diff_control.json.gz",
    "hta/trace_diff_test.json.gz",
    "hta/trace_filter.json.gz",
    "param/dlrm_8rank",
    "tracelens/mi300_resnet_act_checkpoint.json.gz",
)


Diagnose = Callable[..., Diagnosis]


@pytest.fixture
def diagnosed(shared_cache: Path) -> Diagnose:
    """Return a function that diagnoses runs, each of them once in a session."""

    def diagnosed(*paths: Path, baseline: tuple[Path, ...] = ()) -> Diagnosis:
        return diagnose(Request(paths, baseline, cache_dir=shared_cache), lambda _: None)

    return diagnosed


def said(diagnosis: Diagnosis) -> list[str]:
    """Every sentence a reader is shown."""
    texts = [diagnosis.headline, *diagnosis.answer]
    for cause in diagnosis.causes:
        texts += [cause.claim, *cause.details, *cause.against, *cause.symptoms]
    texts += [item.text for item in diagnosis.advice]
    texts += [text for check in diagnosis.checks for text in check.text]
    if diagnosis.comparison:
        texts += [diagnosis.comparison.headline, *diagnosis.comparison.changes]
    return texts


def assert_sound(diagnosis: Diagnosis) -> None:
    """What holds for every diagnosis, whatever it says."""
    known = evidence_index(diagnosis)
    assert [fault for text in said(diagnosis) for fault in wrong_citations(text, known)] == []
    for row in diagnosis.breakdown:
        parts = (
            row.compute_ms
            + row.exposed_communication_ms
            + row.exposed_memcpy_ms
            + row.data_wait_ms
            + row.host_ms
            + row.idle_ms
        )
        assert parts == pytest.approx(row.wall_ms, abs=1e-6)
    assert diagnosis.step_time_ms is not None
    assert sum(cause.impact_ms_per_step for cause in diagnosis.causes) <= diagnosis.step_time_ms.mean * (1 + 1e-9)
    assert (diagnosis.verdict == "problem") <= bool(diagnosis.causes)
    ids = {record.id for record in diagnosis.evidence}
    for cause in diagnosis.causes:
        assert set(cause.evidence) <= ids
        assert cause.evidence
    assert Diagnosis.model_validate_json(diagnosis.model_dump_json(by_alias=True)) == diagnosis


@pytest.mark.parametrize("name", REAL)
def test_a_diagnosis_of_a_real_trace_is_sound(diagnosed: Diagnose, traces: Path, name: str) -> None:
    assert_sound(diagnosed(traces / name))


def test_the_bundled_run_is_traced_to_the_loader_of_rank_1(diagnosed: Diagnose) -> None:
    diagnosis = diagnosed(demo_run())
    assert_sound(diagnosis)
    first = diagnosis.causes[0]
    assert (diagnosis.verdict, first.cause, first.ranks) == ("problem", "slow_data_processing", [1])
    assert any("rank" in symptom for symptom in first.symptoms), "the waiting of rank 0 is shown as a symptom"
    assert diagnosis.advice[0].interval is not None
    low, high = diagnosis.advice[0].interval
    assert low <= 2.052 <= high, "the measured speedup of the fixed twin"


def test_the_fixed_twin_shows_no_problem_in_what_was_recorded(diagnosed: Diagnose) -> None:
    diagnosis = diagnosed(demo_fixed_run())
    assert_sound(diagnosis)
    assert diagnosis.verdict == "inconclusive"
    assert "no problem is visible" in diagnosis.answer[1]
    assert not diagnosis.causes
    assert diagnosis.leads


def test_the_pair_of_bundled_runs_can_be_compared(diagnosed: Diagnose) -> None:
    diagnosis = diagnosed(demo_run(), baseline=(demo_fixed_run(),))
    assert_sound(diagnosis)
    assert diagnosis.comparison is not None
    assert "rose" in diagnosis.comparison.headline
    assert {record.run for record in diagnosis.evidence} == {"run", "baseline"}


def test_too_few_workers_come_first_and_the_prediction_holds_the_measured_gain(
    diagnosed: Diagnose, traces: Path
) -> None:
    diagnosis = diagnosed(traces / REAL[0])
    first = diagnosis.causes[0]
    assert (diagnosis.verdict, first.family, first.mechanism) == ("problem", "io", "too_few_workers")
    interval = next(item.interval for item in diagnosis.advice if item.for_ == first.cause)
    assert interval is not None
    assert interval[0] <= 177.592 / 141.068 <= interval[1]


def test_with_four_workers_data_is_not_the_first_cause_and_the_comparison_says_what_changed(
    diagnosed: Diagnose, traces: Path
) -> None:
    diagnosis = diagnosed(traces / REAL[1], baseline=(traces / REAL[0],))
    assert_sound(diagnosis)
    assert diagnosis.causes[0].family != "io"
    assert diagnosis.comparison is not None
    assert any(change.startswith("Data wait fell") for change in diagnosis.comparison.changes)
