from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evals.synthetic.generate import first_traced_step, fixed_step_ms, generate, recorded_shape, true_step_ms
from evals.synthetic.spec import ParallelLayout, SyntheticSpec, layout_of, simulated_ranks
from tools.errors import InputError
from tools.sources.monitor.reader import read_monitor


def _spec(**fields: Any) -> SyntheticSpec:  # noqa: ANN401 (fields of the spec)
    return SyntheticSpec.model_validate({"ranks": 48, "steps": 3, "layers": 1, "traced_ranks": [0, 1], **fields})


def test_ranks_are_spread_over_tensor_data_pipeline_and_expert_groups() -> None:
    layout = ParallelLayout(ranks=16, tensor=2, pipeline=2, expert=2)
    assert layout.data == 4
    assert layout.tensor_group(5) == (4, 5)
    assert layout.data_group(5) == (1, 3, 5, 7)
    assert layout.expert_group(5) == (5, 7)
    assert (layout.stage(5), layout.stage(13), layout.at_stage(5, 1)) == (0, 1, 13)
    assert layout.replica(5) == (4, 5, 12, 13)


def test_every_rank_is_in_exactly_one_group_of_each_kind() -> None:
    layout = ParallelLayout(ranks=64, tensor=4, pipeline=2, expert=4)
    for group_of in (layout.tensor_group, layout.data_group, layout.expert_group, layout.replica):
        members = sorted(rank for group in {group_of(rank) for rank in range(64)} for rank in group)
        assert members == list(range(64))


def test_sizes_that_do_not_divide_the_ranks_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot be spread"):
        _spec(tensor=5)
    with pytest.raises(ValueError, match="only some are traced"):
        SyntheticSpec(ranks=1024)


def test_of_a_large_run_only_the_copies_that_matter_are_simulated() -> None:
    spec = _spec(ranks=1024, tensor=4, faults=[{"kind": "slow_device", "ranks": [777]}])
    assert layout_of(spec).data == 256
    assert simulated_ranks(spec) == (0, 1, 2, 3, 776, 777, 778, 779)


def test_leaving_healthy_ranks_out_hardly_changes_what_a_fault_costs() -> None:
    spec = _spec(faults=[{"kind": "slow_device", "strength": 0.4, "ranks": [40]}])
    part = true_step_ms(spec) / fixed_step_ms(spec)
    whole = true_step_ms(spec, range(48)) / true_step_ms(spec.without_faults(), range(48))
    assert simulated_ranks(spec) == (0, 1, 40)
    assert whole > 1.2
    assert part == pytest.approx(whole, rel=0.02)


def test_the_records_of_all_ranks_tell_the_late_one_and_what_it_costs(tmp_path: Path) -> None:
    spec = _spec(records={"steps": 40}, faults=[{"kind": "loader_reading", "strength": 0.4, "ranks": [30]}])
    made = generate(spec, tmp_path)
    records = read_monitor(tmp_path)
    assert [path.name for path in made.paths] == ["rank0.pt.trace.json.gz", "rank1.pt.trace.json.gz"]
    assert (len(records.ranks), len(records.steps)) == (48, 48 * 40)
    usual = records.steps[~records.steps["captured"] & ~records.steps["first"]]
    own = usual.groupby("rank")["own_ms"].mean()
    assert own.idxmax() == 30
    assert usual["wall_ms"].mean() == pytest.approx(made.step_ms, rel=0.03)
    assert usual.groupby("rank")["data_wait_ms"].mean()[30] == pytest.approx(
        made.step_ms - fixed_step_ms(spec), rel=0.1
    )
    assert (usual["own_ms"] <= usual["wall_ms"]).all()
    assert {rank.host for rank in records.ranks} == {f"node{host:03d}" for host in range(6)}


def test_profiled_steps_of_the_traced_ranks_are_marked_and_carry_the_numbers_of_the_trace(tmp_path: Path) -> None:
    spec = _spec(ranks=8, records={"steps": 30})
    generate(spec, tmp_path)
    steps = read_monitor(tmp_path).steps
    first = first_traced_step(spec)
    marked = steps[steps["captured"]]
    assert sorted(marked["rank"].unique()) == [0, 1]
    assert sorted(marked["step"].unique()) == list(range(first, first + spec.steps + 1))


def test_collections_show_as_pauses_in_the_records(tmp_path: Path) -> None:
    spec = _spec(ranks=8, records={"steps": 30}, faults=[{"kind": "garbage_collection", "ranks": [5]}])
    generate(spec, tmp_path)
    gc = read_monitor(tmp_path).gc
    assert set(gc["rank"]) == {5}
    assert set(gc["generation"]) == {2}
    assert len(gc) == 15


def test_the_scatter_of_steps_is_that_of_a_recorded_run() -> None:
    shape = recorded_shape()
    assert len(shape) >= 40
    assert (float(shape.mean()), float(shape.std())) == pytest.approx((0.0, 1.0), abs=1e-9)
    assert float(np.abs(shape).max()) > 1.5


def test_a_run_without_step_logs_is_no_template(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="too few logged steps"):
        recorded_shape(tmp_path)


def test_a_run_whose_ranks_are_all_traced_has_a_trace_of_each(tmp_path: Path) -> None:
    made = generate(SyntheticSpec(ranks=33, seed=1, layers=1, steps=2), tmp_path)
    assert len(made.paths) == len(list(tmp_path.glob("*.json*"))) == 33
