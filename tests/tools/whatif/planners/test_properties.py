"""Random small inputs against every plan, with the edge cases that strangers try: zeros, ties, limits to the byte.

``HERMES_DX_EXAMPLES=3000 pytest tests/tools/whatif/planners/test_properties.py`` is the long campaign.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from itertools import combinations, pairwise, product
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from evals.planners.exhaustive import (
    best_buckets_ms,
    bucket_end_ms,
    by_time,
    degree_events_ms,
    in_sequence,
    schedule_exists,
    trained,
)
from tools.whatif.planners import (
    expert_degree,
    expert_schedule,
    gradient_buckets,
    layout,
    pipeline_memory,
    supernet,
    supernet_schedule,
)
from tools.whatif.planners.record import NoPlanError, Planned
from tools.whatif.planners.registry import planner

MIB = gradient_buckets.MIB
campaign = settings(
    max_examples=int(os.environ.get("HERMES_DX_EXAMPLES", "25")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
WHOLE_MS = st.integers(0, 4).map(float)  # equal times and zeros are as likely as others
ANY_MS = st.one_of(WHOLE_MS, st.floats(0, 10))
SIZES = st.one_of(st.integers(0, 6).map(float), st.integers(0, 1 << 26).map(float))


def planned(name: str, record: dict[str, Any]) -> Planned:
    """The plan of a JSON input, as the command makes it."""
    return planner(name).plan(json.dumps(record).encode())


def close(value: float) -> object:
    return pytest.approx(value, rel=1e-9, abs=1e-9)


# gradient-buckets


@st.composite
def gradients(draw: st.DrawFn) -> dict[str, Any]:
    ready = sorted(draw(st.lists(ANY_MS, min_size=1, max_size=7)))
    sizes = draw(st.lists(SIZES, min_size=len(ready), max_size=len(ready)))
    link = {
        "alpha_ms": draw(ANY_MS),
        "beta_ms_per_byte": draw(st.one_of(st.just(0.0), st.sampled_from([1.0, 1e-7]), st.floats(1e-12, 1e-3))),
    }
    listed = [{"ready_ms": at, "bytes": size} for at, size in zip(ready, sizes, strict=True)]
    record: dict[str, Any] = {"gradients": listed, "link": link, "update_ms": draw(WHOLE_MS)}
    if draw(st.booleans()):
        cuts = sorted(draw(st.sets(st.integers(1, len(ready)))) - {len(ready)})
        record["current"] = [list(range(low, high)) for low, high in pairwise((0, *cuts, len(ready)))]
    return record


@campaign
@given(gradients())
def test_buckets_end_as_early_as_the_best_of_all_cuts(record: dict[str, Any]) -> None:
    made = planned("gradient-buckets", record)
    assert isinstance(made.plan, gradient_buckets.BucketPlan)
    given_input = gradient_buckets.Input.model_validate(record)
    count = len(given_input.gradients)
    assert [each for bucket in made.plan.buckets for each in bucket] == list(range(count))
    best_ms = best_buckets_ms(given_input)
    assert made.after_ms == close(best_ms)
    assert made.after_ms == close(bucket_end_ms(given_input, made.plan.buckets))
    current = given_input.current or [[each] for each in range(count)]
    assert made.before_ms == close(bucket_end_ms(given_input, current))
    assert made.before_ms is not None
    assert made.before_ms >= made.after_ms * (1 - 1e-9)
    assert made.plan.exposed_communication_ms >= 0
    fewer = len(made.plan.buckets) - 1
    ways = combinations(range(1, count), fewer - 1) if fewer else iter(())
    for cuts in ways:
        cut = [list(range(low, high)) for low, high in pairwise((0, *cuts, count))]
        assert bucket_end_ms(given_input, cut) > best_ms * (1 - 1e-9)  # fewer buckets never end earlier


@campaign
@given(gradients())
def test_the_advised_size_is_within_a_hundredth_of_the_best_size(record: dict[str, Any]) -> None:
    made = planned("gradient-buckets", record)
    assert isinstance(made.plan, gradient_buckets.BucketPlan)
    given_input = gradient_buckets.Input.model_validate(record)
    sizes = [each.bytes for each in given_input.gradients]

    def of_cap(first: float, cap: float) -> float:
        return bucket_end_ms(given_input, gradient_buckets.ddp_buckets(sizes, first, cap))

    advised = made.plan.ddp
    assert advised.default_ms == close(of_cap(MIB, 25 * MIB))
    if advised.bucket_cap_mb is not None:
        cap = advised.bucket_cap_mb * MIB
        assert advised.after_ms == close(of_cap(cap, cap))
    best_ms = min(of_cap(2.0**power * MIB, 2.0**power * MIB) for power in range(-10, 8))
    assert advised.after_ms <= best_ms * (1 + gradient_buckets.NOTICEABLE) + 1e-9
    assert advised.after_ms <= advised.default_ms * (1 + 1e-12)


# pipeline-memory


@st.composite
def pipelines(draw: st.DrawFn) -> dict[str, Any]:
    count = draw(st.integers(1, 5))
    stages = draw(st.integers(1, min(4, count)))
    layers = [
        {
            "forward_ms": draw(ANY_MS),
            "backward_ms": draw(ANY_MS),
            "activation_bytes": draw(st.integers(0, 40)),
            "weight_bytes": draw(st.integers(0, 20)),
            "optimizer_bytes": draw(st.integers(0, 20)),
        }
        for _ in range(count)
    ]
    record: dict[str, Any] = {
        **{"layers": layers, "stages": stages, "device_memory_bytes": 0},
        "host_link_bytes_per_ms": draw(st.one_of(st.integers(1, 50), st.floats(0.01, 1e6))),
    }
    if draw(st.booleans()):
        record["micro_batches"] = draw(st.integers(1, 5))
    if draw(st.booleans()):
        cuts = sorted(draw(st.permutations(range(1, count)))[: stages - 1])
        record["current"] = [0, *cuts]
    record["device_memory_bytes"] = _interesting_limit(draw, record)
    return record


def _interesting_limit(draw: st.DrawFn, record: dict[str, Any]) -> int:
    """Exactly what some plan needs, one byte more or less, or anything."""
    count, stages = len(record["layers"]), record["stages"]
    cuts = [0, *sorted(draw(st.permutations(range(1, count)))[: stages - 1]), count]
    needed = 0
    for stage, (first, behind) in enumerate(pairwise(cuts)):
        actions = [draw(st.sampled_from(["keep", "swap", "recompute"])) for _ in range(first, behind)]
        needed = max(needed, memory_bytes(record, stage, first, actions))
    return max(0, needed + draw(st.sampled_from([0, 0, -1, 1, 7, -20, 10_000])))


def in_flight(record: dict[str, Any], stage: int) -> int:
    return int(min(record["stages"] - stage, record.get("micro_batches", record["stages"])))


def memory_bytes(record: dict[str, Any], stage: int, first: int, actions: Sequence[str]) -> int:
    """The definition of the contract."""
    chosen = list(zip(record["layers"][first : first + len(actions)], actions, strict=True))
    state = sum(layer["weight_bytes"] + layer["optimizer_bytes"] for layer, _ in chosen)
    kept = sum(layer["activation_bytes"] for layer, action in chosen if action == "keep")
    return int(
        state
        + in_flight(record, stage) * kept
        + max((layer["activation_bytes"] for layer, action in chosen if action != "keep"), default=0)
    )


def stage_times(record: dict[str, Any], first: int, actions: Sequence[str]) -> float:
    chosen = list(zip(record["layers"][first : first + len(actions)], actions, strict=True))
    compute = sum(layer["forward_ms"] + layer["backward_ms"] for layer, _ in chosen)
    compute += sum(layer["forward_ms"] for layer, action in chosen if action == "recompute")
    swapped = sum(layer["activation_bytes"] for layer, action in chosen if action == "swap")
    return float(max(compute, 2 * swapped / record["host_link_bytes_per_ms"]))


def best_partition_ms(record: dict[str, Any], first_layers: list[int]) -> float:
    """Least time of a partition over all actions; infinite where none fits."""
    slowest = 0.0
    for stage, (first, behind) in enumerate(pairwise((*first_layers, len(record["layers"])))):
        every = (list(each) for each in product(("keep", "swap", "recompute"), repeat=behind - first))
        fitting = [
            stage_times(record, first, actions)
            for actions in every
            if memory_bytes(record, stage, first, actions) <= record["device_memory_bytes"]
        ]
        slowest = max(slowest, min(fitting, default=float("inf")))
    return slowest


def partitions(record: dict[str, Any]) -> list[list[int]]:
    return [[0, *cuts] for cuts in combinations(range(1, len(record["layers"])), record["stages"] - 1)]


def least_needed(record: dict[str, Any]) -> int:
    """Memory of the largest stage in the partition and actions that need least."""
    needed = []
    for first_layers in partitions(record):
        stages = enumerate(pairwise((*first_layers, len(record["layers"]))))
        needed.append(
            max(
                min(
                    memory_bytes(record, stage, first, list(actions))
                    for actions in product(("keep", "swap"), repeat=behind - first)
                )
                for stage, (first, behind) in stages
            )
        )
    return min(needed)


UNMEASURABLE = {
    "forward_ms": 5e-324,
    "backward_ms": 0.0,
    "activation_bytes": 1,
    "weight_bytes": 0,
    "optimizer_bytes": 0,
}


@campaign
@given(pipelines())
@example(
    {
        **{"layers": [UNMEASURABLE | {"forward_ms": 1.0}, UNMEASURABLE], "stages": 1},
        **{"device_memory_bytes": 1, "host_link_bytes_per_ms": 2},
    }
)
def test_pipelines_equal_exhaustive_search_and_keep_the_limit_to_the_byte(record: dict[str, Any]) -> None:
    best_ms = min(best_partition_ms(record, each) for each in partitions(record))
    if best_ms == float("inf"):
        with pytest.raises(NoPlanError) as refused:
            planned("pipeline-memory", record)
        lacking = least_needed(record) - record["device_memory_bytes"]
        assert f"{lacking} more; use" in str(refused.value)
        return
    made = planned("pipeline-memory", record)
    assert isinstance(made.plan, pipeline_memory.PipelinePlan)
    assert made.after_ms == close(best_ms)
    assert made.gap_ms == 0
    cuts = [*made.plan.first_layers, len(record["layers"])]
    for stage, (first, behind) in enumerate(pairwise(cuts)):
        actions = list(made.plan.actions[first:behind])
        assert made.plan.stage_memory_bytes[stage] == memory_bytes(record, stage, first, actions)
        assert made.plan.stage_memory_bytes[stage] <= record["device_memory_bytes"]
        assert made.plan.stage_ms[stage] == close(stage_times(record, first, actions))
    if "current" in record:
        present_ms = best_partition_ms(record, record["current"])
        assert made.before_ms == (None if present_ms == float("inf") else close(present_ms))


@campaign
@given(pipelines())
def test_one_byte_less_than_the_least_need_has_no_plan(record: dict[str, Any]) -> None:
    least = least_needed(record)
    made = planned("pipeline-memory", record | {"device_memory_bytes": least})
    assert isinstance(made.plan, pipeline_memory.PipelinePlan)
    assert max(made.plan.stage_memory_bytes) <= least
    assume(least > 0)
    with pytest.raises(NoPlanError, match=re.escape(", 1 more; use")):
        planned("pipeline-memory", record | {"device_memory_bytes": least - 1})


# supernet

PassTimes: TypeAlias = float | list[float]


def per_stage(times: PassTimes, stages: int) -> list[float]:
    return times if isinstance(times, list) else [times] * stages


@st.composite
def supernets(draw: st.DrawFn) -> dict[str, Any]:
    stages = draw(st.integers(1, 4))
    layers = draw(st.integers(stages, stages + 4))
    choices = draw(st.integers(1, 3))
    subnets = draw(
        st.lists(st.lists(st.integers(0, choices - 1), min_size=layers, max_size=layers), min_size=1, max_size=8)
    )

    def times() -> PassTimes:
        return draw(st.one_of(WHOLE_MS, st.lists(ANY_MS, min_size=stages, max_size=stages)))

    return {
        **{"stages": stages, "layers": layers, "choices": choices, "subnet_choices": subnets},
        **{"forward_ms": times(), "backward_ms": times(), "fetch_ms": draw(st.sampled_from([0.0, 0.0, 0.5, 3.0]))},
    }


class NaiveRule:
    """The rule played by looking at every stage whenever anything ends; without fetches."""

    def __init__(self, record: dict[str, Any]) -> None:
        self.stages, self.subnets = record["stages"], record["subnet_choices"]
        self.cuts = supernet_schedule.stage_cuts(record["layers"], self.stages)
        kinds = {False: "forward_ms", True: "backward_ms"}
        self.lasting = {kind: per_stage(record[name], self.stages) for kind, name in kinds.items()}
        self.received: list[set[int]] = [set(range(len(self.subnets))), *(set() for _ in range(self.stages - 1))]
        self.returned: list[set[int]] = [set() for _ in range(self.stages)]
        self.done: list[set[int]] = [set() for _ in range(self.stages)]
        self.running: dict[int, tuple[float, bool, int]] = {}

    def may_start(self, stage: int, subnet: int) -> bool:
        layers = range(self.cuts[stage], self.cuts[stage + 1])
        return all(
            earlier in self.done[stage]
            or not any(self.subnets[earlier][layer] == self.subnets[subnet][layer] for layer in layers)
            for earlier in range(subnet)
        )

    def start(self, stage: int, now_ms: float) -> None:
        backward = bool(self.returned[stage])
        ready = self.returned[stage] or {each for each in self.received[stage] if self.may_start(stage, each)}
        if ready:
            subnet = min(ready)
            (self.returned if backward else self.received)[stage].remove(subnet)
            self.running[stage] = (now_ms + self.lasting[backward][stage], backward, subnet)

    def finish(self, stage: int) -> None:
        _, backward, subnet = self.running.pop(stage)
        if backward:
            self.done[stage].add(subnet)
        if backward and stage:
            self.returned[stage - 1].add(subnet)
        elif not backward and stage + 1 < self.stages:
            self.received[stage + 1].add(subnet)
        elif not backward:
            self.returned[stage].add(subnet)

    def makespan_ms(self) -> float:
        now_ms = 0.0
        while True:
            for stage in range(self.stages):
                if stage not in self.running:
                    self.start(stage, now_ms)
            if not self.running:
                return now_ms
            now_ms = min(end_ms for end_ms, _, _ in self.running.values())
            for stage in [stage for stage, (end_ms, _, _) in self.running.items() if end_ms <= now_ms]:
                self.finish(stage)


@campaign
@given(supernets())
def test_supernets_train_as_in_sequence_and_take_what_the_rule_takes(record: dict[str, Any]) -> None:
    made = planned("supernet", record)
    assert isinstance(made.plan, supernet.SupernetPlan)
    assert made.plan.violations == 0
    assert 0 <= made.plan.bubble <= 1
    assert 0 <= made.plan.prefetch_hit_rate <= 1
    count, stages = len(record["subnet_choices"]), record["stages"]
    passes = {f"{kind}.{each}" for kind in ("forward", "backward") for each in range(count)}
    assert all(set(order) == passes and len(order) == len(passes) for order in made.plan.orders)
    if record["fetch_ms"] == 0:
        assert made.after_ms == close(NaiveRule(record).makespan_ms())
    cuts = supernet_schedule.stage_cuts(record["layers"], stages)
    forward_ms, backward_ms = (per_stage(record[name], stages) for name in ("forward_ms", "backward_ms"))
    times = supernet_schedule.Times(forward_ms, backward_ms, record["fetch_ms"])
    if min(*times.forward_ms, *times.backward_ms) > 0:  # else moments do not tell which came first
        tasks = supernet_schedule.schedule(record["subnet_choices"], cuts, times).tasks
        ours = trained(record["subnet_choices"], cuts, by_time(tasks))
        assert ours == trained(record["subnet_choices"], cuts, list(in_sequence(count, stages)))


# expert-degree


@st.composite
def degrees(draw: st.DrawFn) -> dict[str, Any]:
    beta = st.one_of(st.just(0.0), st.floats(1e-9, 1.0))

    def transfer() -> dict[str, float]:
        return {"alpha_ms": draw(ANY_MS), "beta_ms_per_byte": draw(beta), "bytes": draw(st.integers(0, 50))}

    record: dict[str, Any] = {
        "all_to_all": transfer(),
        "experts": {
            "alpha_ms": draw(ANY_MS),
            "beta_ms_per_operation": draw(beta),
            "operations": float(draw(st.integers(0, 50))),
        },
        "max_degree": draw(st.integers(1, 12)),
    }
    for name in ("gather", "scatter"):
        if draw(st.integers(0, 3)) == 0:
            record[name] = transfer()
    if draw(st.integers(0, 3)) == 0:
        record["gradient_all_reduce_ms"] = draw(ANY_MS)
    if draw(st.integers(0, 2)) == 0:
        record["buffers"] = {"tokens": draw(st.integers(1, 9)), "model_width": draw(st.integers(1, 9))}
        record["buffers"] |= {"hidden_width": draw(st.integers(1, 9))}
    return record


def degree_ms(record: dict[str, Any], r: int) -> float:
    """By events where only all-to-alls and experts take part, else the largest of FSMoE's regimes."""

    def each(name: str, unit: str, size: str) -> float:
        part = record.get(name)
        return 0.0 if part is None else float(part["alpha_ms"] + part[unit] * part[size] / r)

    sent = each("all_to_all", "beta_ms_per_byte", "bytes")
    computed = each("experts", "beta_ms_per_operation", "operations")
    inside = each("gather", "beta_ms_per_byte", "bytes") + each("scatter", "beta_ms_per_byte", "bytes")
    reduced = float(record.get("gradient_all_reduce_ms", 0.0))
    if not inside and not reduced:
        return degree_events_ms(sent, computed, r)
    regimes = 2 * r * sent + reduced, 2 * sent + inside + r * computed, 2 * r * sent + inside, 2 * sent + r * inside
    return max(regimes)


@campaign
@given(degrees())
def test_degrees_are_the_best_of_all_and_the_smallest_of_equals(record: dict[str, Any]) -> None:
    made = planned("expert-degree", record)
    assert isinstance(made.plan, expert_degree.DegreePlan)
    times = {r: degree_ms(record, r) for r in range(1, record["max_degree"] + 1)}
    assert {int(r): value for r, value in made.plan.times_ms.items()} == {r: close(ms) for r, ms in times.items()}
    least = min(times.values())
    assert made.after_ms == close(least)
    assert all(times[r] > least * (1 - 1e-9) for r in range(1, made.plan.degree))
    assert made.before_ms == close(times[1])


@campaign
@given(degrees(), st.sampled_from([0, -1]))
def test_degrees_keep_the_memory_to_the_byte(record: dict[str, Any], by: int) -> None:
    record["buffers"] = {"tokens": 3, "model_width": 4, "hidden_width": 8, "bytes_per_element": 4}
    buffers = expert_degree.Buffers(**record["buffers"])
    least = min(buffers.needed_bytes(r) for r in range(1, record["max_degree"] + 1))
    record["buffers"]["memory_bytes"] = least + by
    if by:
        with pytest.raises(NoPlanError, match=r", 1 more$"):
            planned("expert-degree", record)
        return
    made = planned("expert-degree", record)
    assert isinstance(made.plan, expert_degree.DegreePlan)
    assert made.plan.memory_bytes == least


# expert-schedule


@campaign
@given(st.integers(1, 3), st.lists(st.one_of(WHOLE_MS, st.floats(0, 4)), min_size=7, max_size=7))
def test_schedules_are_optimal_and_replay_to_their_makespan(chunks: int, times: list[float]) -> None:
    record = {"chunks": chunks, "tasks_ms": dict(zip(expert_schedule.TASKS, times, strict=True))}
    made = planned("expert-schedule", record)
    assert isinstance(made.plan, expert_schedule.SchedulePlan)
    assert made.gap_ms == close(0.0)
    assert made.after_ms == close(played_ms(made.plan, dict(zip(expert_schedule.TASKS, times, strict=True))))
    assert made.before_ms == close(chunks * sum(times))
    if made.after_ms > 0:
        assert not schedule_exists(chunks, times, made.after_ms * (1 - 1e-9))


def played_ms(made: expert_schedule.SchedulePlan, tasks_ms: dict[str, float]) -> float:
    """Both streams in their printed order: a task starts when its stream and the chunk's task before it are done."""
    queues, free = [list(made.compute), list(made.communication)], [0.0, 0.0]
    assert sum(map(len, queues)) == len({*made.compute, *made.communication})
    ended: dict[str, float] = {}
    while any(queues):
        moved = False
        for place, queue in enumerate(queues):
            if not queue:
                continue
            name, chunk = queue[0].split(".")
            kind = expert_schedule.TASKS.index(name)
            before = f"{expert_schedule.TASKS[kind - 1]}.{chunk}" if kind else ""
            if before and before not in ended:
                continue
            free[place] = max(free[place], ended.get(before, 0.0)) + tasks_ms[name]
            ended[queue.pop(0)] = free[place]
            moved = True
        assert moved, "the streams wait for each other"
    return max(free)


# layout


@st.composite
def layouts(draw: st.DrawFn) -> dict[str, Any]:
    def link() -> dict[str, float]:
        return {"alpha_ms": draw(st.floats(0, 0.1)), "beta_ms_per_byte": draw(st.sampled_from([0.0, 1e-9, 1e-7]))}

    sizes = {"layers": draw(st.integers(1, 8)), "hidden_width": draw(st.sampled_from([16, 64]))}
    sizes |= {"heads": draw(st.integers(1, 8)), "sequence_length": draw(st.sampled_from([1, 32])), "vocabulary": 100}
    if draw(st.booleans()):
        sizes |= {"experts": draw(st.integers(1, 4))}
    cluster: dict[str, Any] = {"devices": draw(st.integers(1, 8)), "devices_per_node": draw(st.integers(1, 8))}
    cluster |= {"operations_per_ms": 1e8, "device_memory_bytes": 1e15}
    cluster |= {"inside_node": link(), "between_nodes": link()}
    return {"model": sizes, "cluster": cluster, "global_batch": draw(st.integers(1, 16))}


@campaign
@given(layouts())
def test_layouts_use_all_devices_divide_evenly_and_keep_the_memory_to_the_byte(record: dict[str, Any]) -> None:
    every = every_layout(record)
    if not every:
        with pytest.raises(NoPlanError, match="evenly"):
            planned("layout", record)
        return
    free = planned("layout", record)
    assert isinstance(free.plan, layout.LayoutPlan)
    least = min(each.memory_bytes for each in every)
    limited = record | {"cluster": record["cluster"] | {"device_memory_bytes": least}}
    made = planned("layout", limited)
    assert isinstance(made.plan, layout.LayoutPlan)
    assert [each.step_ms for each in made.plan.layouts] == sorted(each.step_ms for each in made.plan.layouts)
    for each in (*free.plan.layouts, *made.plan.layouts):
        model = record["model"]
        sizes = each.data_parallel, each.tensor_parallel, each.pipeline_parallel
        assert sizes[0] * sizes[1] * sizes[2] == record["cluster"]["devices"]
        assert model["layers"] % sizes[2] == model["heads"] % sizes[1] == 0
        assert each.data_parallel * each.micro_batch * each.micro_batches == record["global_batch"]
    assert all(each.memory_bytes <= least for each in made.plan.layouts)
    less = record | {"cluster": record["cluster"] | {"device_memory_bytes": least - 1}}
    with pytest.raises(NoPlanError, match="1 more; use more devices"):
        planned("layout", less)


def every_layout(record: dict[str, Any]) -> list[layout.RankedLayout]:
    costs = layout._Costs(layout.Input.model_validate(record))
    return [costs.ranked(each) for each in costs.candidates()]
