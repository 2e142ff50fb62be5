"""Corrupted statements are refused and true ones pass: on the bundled run and on real traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.mutations import context_of, demo_diagnosis, tally
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.request import Request
from hermes_agent.statements.checks import faults_of
from hermes_agent.statements.record import Statement
from hermes_agent.workflow.diagnose import diagnose

REAL = (
    "kineto/resnet50_workers0.pt.trace.json.gz",
    "hta/trace_diff_test.json.gz",
    "tracelens/mi300_resnet_act_checkpoint.json.gz",
    "hta/critical_path_cuda_event_sync_multi_stream.json.gz",
)
KINDS = 15
TRUE_PASS = 0.99


def assert_refused(diagnosis: Diagnosis, made: int) -> None:
    """Every corruption is refused, and all but a hundredth of what is true passes."""
    counts = tally(diagnosis)
    true = counts.pop("true")
    assert {kind: each.wrong for kind, each in counts.items() if each.wrong} == {}
    assert len(counts) >= KINDS
    assert sum(each.made for each in counts.values()) > made
    assert len(true.wrong) <= (1 - TRUE_PASS) * true.made, true.wrong


def test_on_the_bundled_run_no_corruption_passes_and_what_is_true_does() -> None:
    assert_refused(demo_diagnosis(), 600)


def test_the_rank_that_others_wait_for_is_not_said_to_wait() -> None:
    diagnosis = demo_diagnosis()
    context = context_of(diagnosis)
    wait = next(each.id for each in diagnosis.evidence if each.arguments.get("last_rank") == 1)

    def faults(text: str, cause: str | None = None) -> str:
        return "; ".join(
            faults_of(
                Statement(
                    text=text, kind="causal" if cause else "measured", cause=cause, claim="about" if cause else None
                ),
                context,
            )
        )

    assert faults(f"The others wait {{{wait}}} for {{rank:1}} in collectives.") == ""
    for ranks in ("{rank:1} waits", "{rank:0} and {rank:1} wait"):
        assert f"{wait} is what others wait for {{rank:1}}" in faults(f"{ranks} {{{wait}}} in collectives.")
    assert "'each rank' needs a cause" in faults("Each rank waits for data.", "slow_data_processing")


@pytest.mark.parametrize("name", REAL)
def test_on_a_real_trace_no_corruption_passes_and_what_is_true_does(traces: Path, tmp_path: Path, name: str) -> None:
    diagnosis = diagnose(Request(paths=(traces / name,), cache_dir=tmp_path), lambda _: None)
    assert_refused(diagnosis, 550)
