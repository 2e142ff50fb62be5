"""Schedules of compression, all-to-alls and experts against every order."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from evals.planners.exhaustive import schedule_exists
from tools.whatif.planners.expert_schedule import TASKS, Input, SchedulePlan, best_schedule, fixed_order, plan, replay


def planned(chunks: int, times: dict[str, float], **more: object) -> SchedulePlan:
    tasks = {name: times.get(name, 0.0) for name in TASKS}
    made = plan(Input.model_validate({"chunks": chunks, "tasks_ms": tasks, **more})).plan
    assert isinstance(made, SchedulePlan)
    return made


@seed(7)
@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3), st.lists(st.one_of(st.integers(0, 4), st.floats(0.01, 3)), min_size=7, max_size=7))
def test_no_order_is_better(chunks: int, times: list[float]) -> None:
    made = best_schedule(chunks, times)
    assert made.bound_ms == made.makespan_ms
    ends = [start + times[place] for (place, _), start in zip(made.order, replay(made.order, times), strict=True)]
    assert max(ends) == pytest.approx(made.makespan_ms)
    assert not schedule_exists(chunks, times, made.makespan_ms * (1 - 1e-9))
    assert made.makespan_ms == 0 or schedule_exists(chunks, times, made.makespan_ms * (1 + 1e-9))


def test_the_timeline_keeps_the_order_of_each_chunk_and_stream() -> None:
    times = dict(zip(TASKS, [1.0, 4.0, 0.5, 3.0, 1.0, 4.0, 0.5], strict=True))
    made = planned(3, times)
    span = {each.task: (each.start_ms, each.end_ms) for each in made.timeline}
    for stream in (made.compute, made.communication):
        assert all(span[before][1] <= span[after][0] for before, after in itertools.pairwise(stream))
    for chunk in range(3):
        names = [f"{task}.{chunk}" for task in TASKS]
        assert all(span[before][1] <= span[after][0] for before, after in itertools.pairwise(names))


def test_it_is_never_worse_than_the_fixed_order() -> None:
    times = [0.1, 2.0, 0.1, 5.0, 0.1, 2.0, 0.1]
    for chunks in (4, 12):
        fixed = fixed_order(chunks)
        fixed_ms = max(start + times[task[0]] for task, start in zip(fixed, replay(fixed, times), strict=True))
        assert best_schedule(chunks, times).makespan_ms <= fixed_ms


def test_compression_is_advised_on_slow_links_only() -> None:
    codec = {"compress_1": 0.5, "decompress_1": 0.5, "compress_2": 0.5, "decompress_2": 0.5, "experts": 2.0}

    def compression(link_ms: float) -> bool:
        times = {**codec, "all_to_all_1": link_ms / 4, "all_to_all_2": link_ms / 4}
        made = planned(2, times, uncompressed_ms={"all_to_all_1": link_ms, "all_to_all_2": link_ms})
        assert made.compression is not None
        return made.compression.advised

    assert compression(20.0)
    assert not compression(0.2)


def test_exchanges_inside_and_between_nodes_overlap() -> None:
    links = {"nodes": 4, "devices_per_node": 8, "inside_ms": 1.0, "between_ms": 2.0}
    made = planned(2, {"experts": 1.0}, links=links)
    assert made.pipelined_all_to_all is not None
    assert (made.pipelined_all_to_all.sequential_ms, made.pipelined_all_to_all.pipelined_ms) == (56.0, 48.0)
