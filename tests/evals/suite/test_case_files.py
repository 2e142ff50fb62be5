from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from evals.suite.case_files import load_cases, select
from evals.synthetic.faults import FAULTS
from tools.errors import InputError, UsageError
from tools.knowledge.taxonomy import causes

CASE: dict[str, Any] = {
    "id": "one",
    "what": "a run",
    "run": {"synthetic": {"ranks": 1}},
    "expected": {"verdict": ["healthy"]},
    "tags": {"source": "synthetic", "kind": "healthy"},
}

CAUSE_OF = {
    "loader_single_process": "slow_data_processing",
    "loader_transform": "slow_data_processing",
    "loader_workers": "slow_data_processing",
    "loader_reading": "slow_data_reading",
    "pageable_copy": "slow_data_fetching",
    "no_prefetch": "slow_data_fetching",
    "small_operators": "operator_dispatch",
    "item_calls": "operator_dispatch",
    "launch_blocking": "operator_dispatch",
    "garbage_collection": "garbage_collection",
    "host_contention": "cpu_contention",
    "recompilation": "operator_compilation",
    "checkpoint": "checkpoint_stall",
    "unrecorded_stall": "cpu_contention",
    "allocator_thrash": "memory_pressure",
    "profiler_stacks": "profiling_overhead",
    "slow_device": "slow_device",
    "single_precision": "underutilization",
    "odd_shapes": "underutilization",
    "double_precision": "underutilization",
    "layout_conversion": "underutilization",
    "elementwise_chain": "memory_bound",
    "sequence_skew": "data_skew",
    "hot_expert": "moe_imbalance",
    "heavy_stage": "pipeline_imbalance",
    "late_reduction": "poor_overlap",
    "small_messages": "small_packet",
    "slow_transfer": "network_configuration",
    "few_micro_batches": "pipeline_bubble",
}


def _written(folder: Path, *cases: dict[str, Any]) -> Path:
    (folder / "cases.yaml").write_text(yaml.safe_dump({"cases": list(cases)}), encoding="utf-8")
    return folder


def test_the_committed_cases_are_enough_of_every_kind() -> None:
    cases = load_cases()
    kinds = Counter(str(case.tags.kind) for case in cases)
    assert len(cases) >= 150
    least = {"cause": 60, "healthy": 15, "missing_data": 5, "masked": 5, "two_causes": 5, "injected": 5}
    assert {kind for kind, count in least.items() if kinds[kind] < count} == set()
    assert kinds["incomparable"] >= 3


def test_every_label_of_a_single_injected_fault_is_the_cause_of_that_fault() -> None:
    for case in load_cases():
        made = case.run.synthetic
        if made is not None and case.tags.kind == "cause":
            assert CAUSE_OF[made.faults[0].kind] in case.expected.causes, case.id


def test_every_injectable_fault_stands_for_a_cause_of_the_taxonomy() -> None:
    assert set(CAUSE_OF) == set(FAULTS)
    assert set(CAUSE_OF.values()) <= set(causes())


def test_both_splits_hold_synthetic_cases_and_no_real_case_is_called_unseen() -> None:
    splits = Counter((case.tags.source, case.tags.split) for case in load_cases())
    assert splits["synthetic", "dev"] >= 40
    assert splits["synthetic", "test"] >= 40
    assert splits["real", "test"] == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"expected": {"any_of": ["slow_network"]}}, "not a cause of the taxonomy"),
        ({"expected": {"any_of": ["slow_device/too_few_workers"]}}, "not a mechanism of slow_device"),
        ({"expected": {"family": "network"}}, "not a family"),
        ({"expected": {}}, "nothing is expected"),
        ({"run": {}}, "one of traces"),
        ({"run": {"traces": "../secret"}}, "leaves its folder"),
        ({"tags": {"source": "real", "kind": "healthy"}}, "tagged synthetic"),
    ],
)
def test_a_case_that_cannot_be_right_is_an_error_that_names_the_file(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError) as caught:
        load_cases(_written(tmp_path, {**CASE, **change}))
    assert "cases.yaml" in str(caught.value)
    assert said in str(caught.value)


def test_the_same_id_twice_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="more than one case 'one'"):
        load_cases(_written(tmp_path, CASE, CASE))


def test_a_folder_without_cases_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no case files"):
        load_cases(tmp_path)


def test_a_selection_takes_patterns_of_ids_and_values_of_tags() -> None:
    chosen = select(load_cases(), ["healthy-*", "source=synthetic", "difficulty=hard"])
    assert chosen
    assert all(case.id.startswith("healthy-") and case.tags.difficulty == "hard" for case in chosen)


@pytest.mark.parametrize("selection", [["no-such-case"], ["family=nonsense"]])
def test_an_empty_selection_is_an_error(selection: list[str]) -> None:
    with pytest.raises(UsageError, match="no case matches"):
        select(load_cases(), selection)


def test_an_unknown_tag_is_an_error_that_lists_the_tags() -> None:
    with pytest.raises(UsageError, match="they have source, kind"):
        select(load_cases(), ["colour=red"])


def test_a_deep_case_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "deep.yaml").write_text("[" * 50_000, encoding="utf-8")
    with pytest.raises(InputError, match=r"deep\.yaml cannot be read as a case file: it is nested deeper"):
        load_cases(tmp_path)
