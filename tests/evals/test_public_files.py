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


def test_a_fact_that_is_defined_otherwise_is_listed_apart_from_those_that_agree() -> None:
    """The second figure of our own is a wrong one: it differs, and is not listed as defined otherwise."""
    run = demo_run()
    asked = held()
    given = Entry(path=run.name, facts={"compute_ms": 1.0, "memcpy_ms": 7.0})
    first = judged(run.parent, given, asked)
    measured = float(next(each for each in first.faults if each.startswith("compute_ms")).split()[1].rstrip(","))
    own = HeldFile(defined_otherwise={"compute_ms": round(measured, 2), "memcpy_ms": 8.0})
    found = judged(run.parent, given, asked.model_copy(update={"files": {run.name: own}}))
    assert found.figures == 0
    assert found.otherwise == (f"compute_ms {round(measured, 2)}, stated 1.0",)
    assert [each.partition(" ")[0] for each in found.faults if "_ms" in each] == ["memcpy_ms"]


@pytest.mark.parametrize(
    "path", ["straggler_analysis/trace-ST.parquet", "logs/megatron_gpt2_206B_tp4_pp64.out", "nsys/healthy_1pct.sqlite"]
)
def test_entries_are_read_and_answered_as_labelled(traces: Path, path: str) -> None:
    entry = next(each for each in manifest(traces) if each.path == path)
    assert judged(traces, entry, held()).faults == ()
