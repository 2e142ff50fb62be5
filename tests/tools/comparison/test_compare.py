"""Comparing two runs, and refusing to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.real_runs import real_profile
from tests.recorded_runs import environment_of, recorded_profile, records_of, step_rows, untraced_profile
from tests.synthetic import A100, V100, RankBuilder, profile_of
from tools.comparison.compare import compare
from tools.errors import ExitCode, NotComparableError
from tools.run.model import Device, Layout
from tools.views.profile import Profile

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def small(
    loader_us: float = 0.0,
    kernel: str = "sgemm",
    kernel_us: float = 500.0,
    device: Device | None = V100,
    rank: int = 0,
    operators: tuple[str, ...] = ("aten::mm", "aten::relu"),
    layout: Layout | None = None,
) -> Profile:
    builder = RankBuilder(rank, device=device)
    for step in range(3):
        start = step * (600.0 + loader_us + kernel_us)
        if loader_us:
            builder.annotation(LOADER, start, loader_us)
        for index, name in enumerate(operators):
            builder.operator(name, start + loader_us + 20 * index, 10)
        if device is not None:
            builder.kernel(kernel, start + loader_us + 100, kernel_us, call_us=start + loader_us + 5)
        builder.step(step, start, start + 600 + loader_us + kernel_us)
    return profile_of(builder, layout=layout or Layout(world_size=1))


def test_what_a_shorter_loader_changes_is_shown_with_facts_of_both_runs() -> None:
    comparison = compare(small(loader_us=400), small())
    assert comparison.step.delta == pytest.approx(-0.4)
    assert [(part.name, round(part.delta, 6)) for part in comparison.parts] == [("data_wait", -0.4)]
    assert comparison.loaders == (LOADER, "")
    assert [fact.value for fact in comparison.headline.facts] == pytest.approx([1.5, 1.1])
    assert "fell" in comparison.headline.template
    assert comparison.changes[0].names == (LOADER,)
    assert comparison.kernels == ()


def test_kernels_that_changed_are_listed_largest_first_also_when_one_is_new() -> None:
    comparison = compare(small(), small(kernel="hgemm", kernel_us=200))
    assert [(kernel.name, round(kernel.delta, 6)) for kernel in comparison.kernels] == [("sgemm", -0.5), ("hgemm", 0.2)]
    assert comparison.kernels[1].before.value == 0.0


def test_a_change_is_listed_although_many_longer_kernels_stayed_as_they_were() -> None:
    def with_small_kernel(us: float) -> Profile:
        rank = RankBuilder(0)
        for index in range(8):
            rank.kernel(f"large_{index}", 10 + 300 * index, 250)
        rank.kernel("small", 2500, us)
        rank.step(0, 0, 3000)
        return profile_of(rank, layout=Layout(world_size=1))

    comparison = compare(with_small_kernel(40), with_small_kernel(90))
    assert [(kernel.name, round(kernel.delta, 6)) for kernel in comparison.kernels] == [("small", 0.05)]


def test_swapping_the_runs_turns_every_difference_around() -> None:
    there, back = compare(small(loader_us=400), small()), compare(small(), small(loader_us=400))
    assert back.step.delta == -there.step.delta
    assert [part.delta for part in back.parts] == [-part.delta for part in there.parts]
    assert back.likeness == there.likeness


def test_a_run_equals_itself() -> None:
    comparison = compare(small(), small())
    assert (comparison.step.delta, comparison.likeness) == (0.0, 1.0)
    assert comparison.changes == ()


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (small(device=A100), "another device model"),
        (small(device=None), "the CPU only"),
        (small(rank=1), "other ranks"),
        (small(layout=Layout(world_size=8)), "another world size"),
        (small(operators=("aten::conv3d", "aten::lstm"), kernel="lstm_cell"), "different models"),
    ],
)
def test_runs_that_differ_in_kind_are_refused_with_the_reason(other: Profile, reason: str) -> None:
    with pytest.raises(NotComparableError, match=reason) as refusal:
        compare(small(), other)
    assert refusal.value.exit_code == ExitCode.NOT_COMPARABLE


def layered(width: int, batch: int = 8, loop: int = 0, operators: tuple[str, ...] = ()) -> Profile:
    """A linear layer of that width with recorded shapes, ``loop`` operators on single numbers, and others."""
    rank = RankBuilder(0, device=None)
    rank.operator("aten::linear", 10, 500, dims=[[batch, width], [16, width], [16]])
    for index, name in enumerate((*("aten::select", "aten::sub") * loop, *operators)):
        rank.operator(name, 520 + index, 1)
    rank.step(0, 0, 2000)
    return profile_of(rank, layout=Layout(world_size=1))


def test_the_same_layers_make_the_same_model_although_thousands_of_operators_went() -> None:
    comparison = compare(layered(64, loop=400), layered(64, batch=32))
    assert comparison.likeness == 1.0
    assert comparison.step.delta == 0.0


def test_other_layers_are_another_model_although_a_third_of_the_operators_have_the_same_names() -> None:
    shared = ("aten::add_", "aten::detach", "aten::copy_")
    a = layered(64, operators=(*shared, *(f"aten::a{index}" for index in range(3))))
    b = layered(96, operators=(*shared, *(f"aten::b{index}" for index in range(3))))
    with pytest.raises(NotComparableError, match="different models"):
        compare(a, b)


def test_the_same_operators_on_padded_widths_are_the_same_model() -> None:
    comparison = compare(layered(63, operators=("aten::add_",)), layered(64, operators=("aten::add_",)))
    assert comparison.likeness == 1.0


def test_another_parallel_layout_is_refused() -> None:
    first = small(layout=Layout(world_size=8, tensor_parallel=2))
    with pytest.raises(NotComparableError, match="tensor-parallel size"):
        compare(first, small(layout=Layout(world_size=8, tensor_parallel=4)))


def test_names_in_a_refusal_are_plain_and_bounded() -> None:
    odd = replace(V100, name="V100\x1b[31m\n" + "x" * 500)
    with pytest.raises(NotComparableError) as refusal:
        compare(small(), small(device=odd))
    assert "\x1b" not in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 400


def test_what_could_not_be_verified_is_noted() -> None:
    comparison = compare(small(layout=Layout()), small(layout=Layout()))
    assert any("world size" in note for note in comparison.notes)


def test_another_gpu_world_size_and_rank_are_refused_on_recorded_traces(traces: Path) -> None:
    control, test = (real_profile(traces / "hta" / f"trace_diff_{name}.json.gz") for name in ("control", "test"))
    with pytest.raises(NotComparableError) as refusal:
        compare(control, test)
    for reason in ("A100", "V100", "world size (8; 2)", "other ranks (3; 1)"):
        assert reason in str(refusal.value)


def test_more_loader_workers_are_accepted_and_explained_on_recorded_traces(traces: Path) -> None:
    before, after = (real_profile(traces / "kineto" / f"resnet50_workers{count}.pt.trace.json.gz") for count in (0, 4))
    comparison = compare(before, after)
    assert comparison.step.delta < -0.15 * comparison.step.before.value
    assert comparison.parts[0].name == "data_wait"
    assert comparison.parts[0].before.value == pytest.approx(59.26, abs=0.2)
    assert comparison.parts[0].after.value < 0.02 * comparison.step.after.value
    assert "_SingleProcess" in comparison.loaders[0]
    assert "_MultiProcessing" in comparison.loaders[1]
    assert comparison.likeness > 0.8
    paths = {comparison.step.before.path, comparison.step.after.path}
    assert len(paths) == 2


def test_records_of_too_few_steps_are_told_from_none_at_all() -> None:
    short, long = (untraced_profile(records_of([step_rows(0, [100.0] * steps)])) for steps in (4, 40))
    with pytest.raises(NotComparableError, match="the first one has records of fewer than 5 steps") as refusal:
        compare(short, long)
    assert "no records" not in str(refusal.value)
    with pytest.raises(NotComparableError, match="the second one has records of fewer than 5 steps"):
        compare(small(), short)
    with pytest.raises(NotComparableError, match=r"the first one has .* 5 steps.*; the second one has .* 5 steps"):
        compare(short, short)


def test_a_trace_is_compared_with_records_by_the_step_time_with_that_reservation() -> None:
    """Traced steps of 1.1 ms against records of 100 ms."""
    comparison = compare(small(), untraced_profile(records_of([step_rows(0, [100.0] * 40)])))
    assert [fact.value for fact in comparison.headline.facts] == pytest.approx([1.1, 100.0])
    assert "under its profiler" in comparison.notes[0]
    assert comparison.comparability.score < 1.0


def on_hosts(wall_ms: float, gc_ms: float = 0.0, wait_ms: float = 0.0, accelerator: str = "none") -> Profile:
    """Two ranks without a device, traced steps of 50 ms, among unprofiled ones of ``wall_ms``; rank 1 loads data."""
    steps = [step_rows(rank, [wall_ms] * 40, gc_ms=gc_ms * rank, data_wait_ms=wait_ms * rank) for rank in (0, 1)]
    settings = [environment_of(rank, flags={"accelerator": accelerator}) for rank in (0, 1)]
    return recorded_profile(records_of(steps, environments=settings))


def test_where_both_runs_tell_their_unprofiled_steps_the_headline_is_of_those() -> None:
    comparison = compare(on_hosts(100.0), on_hosts(60.0))
    assert comparison.headline.template == "The average unprofiled step fell from {0} to {1}."
    assert [fact.value for fact in comparison.headline.facts] == [100.0, 60.0]
    assert comparison.step.delta == -40.0


def test_traced_steps_that_are_other_than_unprofiled_ones_are_told_in_one_sentence() -> None:
    (change,) = compare(on_hosts(100.0), on_hosts(60.0)).changes
    assert change.template == "The traced steps took {0} before and {1} now."
    assert [(fact.metric, fact.value) for fact in change.facts] == [("step_time_ms", 50.0), ("step_time_ms", 50.0)]
    assert compare(on_hosts(50.0), on_hosts(51.0)).changes == ()


def test_what_records_tell_of_unprofiled_steps_comes_first_largest_change_before_others() -> None:
    comparison = compare(on_hosts(100.0, gc_ms=30.0, wait_ms=10.0), on_hosts(60.0))
    assert [(part.name, part.before.value, part.after.value) for part in comparison.recorded] == [
        ("gc", 30.0, 0.0),
        ("data_wait", 10.0, 0.0),
    ]
    collections, waits = comparison.changes[:2]
    assert collections.template.startswith("Collections of Python's garbage collector fell from {0} to {1}")
    assert waits.template == "On rank 1 waiting for data fell from {0} to {1} per unprofiled step."


def test_records_without_traces_tell_the_same_parts() -> None:
    slow, fixed = (
        untraced_profile(records_of([step_rows(0, [wall_ms] * 40, data_wait_ms=wait_ms)]))
        for wall_ms, wait_ms in ((100.0, 40.0), (60.0, 0.0))
    )
    (change,) = compare(slow, fixed).changes
    assert change.template == "Waiting for data fell from {0} to {1} per unprofiled step."
    assert [fact.value for fact in change.facts] == [40.0, 0.0]


def test_where_one_run_alone_has_records_the_headline_says_that_it_is_of_traced_steps() -> None:
    recorded = on_hosts(100.0)
    bare = Profile(replace(recorded.run, records=None))
    for comparison in (compare(recorded, bare), compare(bare, recorded)):
        assert comparison.headline.template.startswith("The average traced step")
        assert comparison.step.before.value == 50.0
        assert comparison.recorded == ()


def test_what_is_looked_into_is_said_to_be_of_traced_steps() -> None:
    slow = recorded_profile(records_of([step_rows(0, [50.0] * 40)]))
    fixed = recorded_profile(records_of([step_rows(0, [50.0] * 40)]), lambda _: shorter())
    lead, *parts = compare(slow, fixed).changes
    assert lead.template == "What follows is of the traced steps, which took {0} before and {1} now."
    assert [fact.value for fact in lead.facts] == [50.0, 30.0]
    assert parts


def shorter() -> RankBuilder:
    """A rank without a device whose traced steps compute for 30 ms."""
    builder = RankBuilder(rank=0, device=None)
    for step in range(3):
        builder.operator("aten::mm", step * 30_000 + 10, 29_900)
        builder.step(1000 + step, step * 30_000, step * 30_000 + 30_000)
    return builder


def unnamed_devices(a: Profile, b: Profile) -> bool:
    return any("device model is not recorded" in note for note in compare(a, b).notes)


def test_runs_on_the_host_alone_have_no_devices_to_verify() -> None:
    assert not unnamed_devices(on_hosts(100.0), on_hosts(60.0))
    assert not unnamed_devices(layered(64), layered(64))


def test_an_accelerator_that_only_the_records_tell_of_is_not_verified() -> None:
    assert unnamed_devices(on_hosts(100.0, accelerator="cuda"), on_hosts(60.0, accelerator="cuda"))
