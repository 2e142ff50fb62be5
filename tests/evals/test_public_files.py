"""The table of public files: what is asked of each entry can be measured, and some entries are as labelled."""

from __future__ import annotations

from pathlib import Path

import pytest

from evals.public_files import Entry, HeldFile, Label, held, judged, manifest
from hermes_agent.demo.data import demo_run
from tools.judgement.catalog import metrics


def test_every_fact_has_a_metric_and_its_arguments() -> None:
    for name, fact in held().facts.items():
        assert fact.metric in metrics(), name


def test_every_entry_of_the_manifest_that_is_named_exists(traces: Path) -> None:
    known = {each.path for each in manifest(traces)}
    assert set(held().files) <= known


def test_an_entry_with_another_label_reader_and_figure_is_reported() -> None:
    run = demo_run()
    asked = held().model_copy(update={"files": {run.name: HeldFile(formats=("nsys",))}})
    label = Label(verdict="healthy", cause="pipeline_bubble", fault_ranks=(12, 14))
    found = judged(run.parent, Entry(path=run.name, label=label, facts={"compute_ms": 1.0}), asked)
    assert [each.partition(" ")[0] for each in found.faults] == ["read", "verdict", "first", "the", "compute_ms"]
    assert found.figures == 0


@pytest.mark.parametrize(
    "path", ["straggler_analysis/trace-ST.parquet", "logs/megatron_gpt2_206B_tp4_pp64.out", "nsys/healthy_1pct.sqlite"]
)
def test_entries_are_read_and_answered_as_labelled(traces: Path, path: str) -> None:
    entry = next(each for each in manifest(traces) if each.path == path)
    assert judged(traces, entry, held()).faults == ()
