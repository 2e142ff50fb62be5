"""Compilations and profilers in steps that no trace holds, as monitor records and versions of regions show them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.asked import STORAGE, ask, asking
from tests.recorded_runs import recorded_profile, records_of, step_rows
from tests.synthetic import RankBuilder, profile_of
from tools.metrics.registry import measure
from tools.views.profile import Profile

page_faults = asking("memory.page_faults")
checkpoint = asking(*STORAGE)

COMPILED = (8, 9, 13, 21, 22, 30, 41, 52)  # steps with a size not seen before
Builder = Callable[[int], RankBuilder]


def compiled(*numbers: str) -> Builder:
    """A rank whose three traced steps run these versions of compiled regions."""

    def build(rank: int) -> RankBuilder:
        builder = RankBuilder(rank=rank, device=None)
        for step, number in enumerate(numbers):
            begin = step * 50_000
            builder.operator(f"Torch-Compiled Region: {number}", begin + 5, 49_950)
            builder.operator("aten::mm", begin + 10, 49_900)
            builder.step(1000 + step, begin, begin + 50_000)
        return builder

    return build


def walls(long: Sequence[int] = COMPILED, excess_ms: float = 300.0) -> list[float]:
    return [50.0 + (excess_ms if step in long else 0.0) for step in range(60)]


def running(build: Builder, long: Sequence[int] = COMPILED, share: float = 1.0, gc_ms: float = 0.0) -> Profile:
    """A run whose long steps run for that share of their excess, of which the collector takes some."""
    lasted = walls(long)
    ran = [49.0 + share * (each - 50.0) for each in lasted]
    pauses = [gc_ms if step in long else 0.0 for step in range(60)]
    return recorded_profile(records_of([step_rows(0, lasted, thread_cpu_ms=ran, gc_ms=pauses)]), build)


def test_many_versions_of_a_region_and_long_computing_steps_are_compilation() -> None:
    (finding,) = ask(running(compiled("0/2", "0/5", "0/11"), gc_ms=60.0), "cpu.operator_compilation").findings
    assert (finding.cause, finding.mechanism) == ("operator_compilation", "dynamic_shape")
    again, long, cost = finding.claim.facts
    assert (again.value, long.value) == (11, len(COMPILED))
    assert cost.value == pytest.approx(240.0 * len(COMPILED) / 54)
    assert finding.steps == COMPILED
    assert finding.saving is not None
    assert finding.saving.saved_ms == pytest.approx(cost.value)
    assert 0.5 < finding.confidence <= 0.8


@pytest.mark.parametrize(
    "profile",
    [
        pytest.param(running(compiled("0/0", "0/1", "0/1")), id="sizes became dynamic once"),
        pytest.param(running(compiled("0/9", "0/9", "0/9"), share=0.1), id="the long steps wait"),
        pytest.param(running(compiled("0/9", "0/9", "0/9"), long=()), id="no step is long"),
        pytest.param(running(compiled("0/3", "0/3", "0/3")), id="more long steps than versions account for"),
    ],
)
def test_regions_whose_versions_do_not_explain_long_steps_are_clean(profile: Profile) -> None:
    assert ask(profile, "cpu.operator_compilation").status == "clean"


def test_versions_are_counted_by_frame_and_names_without_a_number_are_none() -> None:
    builder = RankBuilder(device=None)
    for at, name in enumerate(("0/4", "0/2", "1/3", "!0/2/6", "CompiledFx", "0/99999999999")):
        builder.operator(f"Torch-Compiled Region: {name}", at * 100 + 1, 50)
    builder.step(0, 0, 1000)
    assert measure(profile_of(builder), "compiled_again", rank=0).value == 4 + 3 + 6


def test_the_time_that_torch_says_it_compiled_for_is_enough() -> None:
    steps = step_rows(0, [100.0] * 60)
    busy = records_of([steps], {0: {"compile_us": 0.2e6, "compilations": 2.0}})
    (finding,) = ask(recorded_profile(busy), "cpu.operator_compilation").findings
    rate, cost = finding.claim.facts
    assert rate.value == pytest.approx(2.0)
    assert cost.value == pytest.approx(20.0)
    assert finding.mechanism is None
    assert finding.confidence == pytest.approx(0.875)
    done = records_of([steps], {0: {"compile_us": 0.0, "compilations": 0.0}})
    assert ask(recorded_profile(done, compiled("0/0", "0/0", "0/0")), "cpu.operator_compilation").status == "clean"


def test_long_steps_at_one_distance_in_which_the_thread_computes_are_no_save() -> None:
    long = range(9, 60, 10)
    check = checkpoint(running(compiled("0/0"), long=long))[0]
    assert check.status == "clean"
    period, ran = check.support[0].facts
    assert period.value == 10
    assert ran.value == pytest.approx(100.0)
    (finding,) = checkpoint(running(compiled("0/0"), long=long, share=0.1))[0].findings
    assert finding.mechanism == "slow_storage"


def recording(rank: int) -> RankBuilder:
    """A rank traced with stacks, shapes and memory: a thousand operators and one in each step."""
    builder = RankBuilder(rank=rank, device=None, record_shapes="1", with_stack="1", profile_memory="1")
    for step in range(2):
        begin = step * 50_000
        builder.operator("aten::mm", begin + 10, 49_900)
        for at in range(1000):
            builder.operator("aten::add", begin + 20 + at * 10, 5)
        builder.step(1000 + step, begin, begin + 50_000)
    return builder


def profiled(active: float | None) -> Profile:
    levels = {} if active is None else {0: {"profiler_active": active}}
    faults = {0: {"minor_faults": 100_000.0}}
    return recorded_profile(records_of([step_rows(0, [50.0] * 60)], faults, levels), recording)


def test_a_profiler_in_every_step_is_the_cause_and_its_page_faults_a_symptom() -> None:
    profile = profiled(1.0)
    (finding,) = ask(profile, "cpu.profiling_overhead").findings
    active, estimate = finding.claim.facts
    assert active.value == 100.0
    assert estimate.value == pytest.approx(3.0, rel=0.01)
    assert finding.saving is not None
    assert finding.saving.saved_ms == pytest.approx(3.0, rel=0.01)
    assert finding.confidence > 0.5
    (faults,) = page_faults(profile)[0].findings
    assert faults.symptom_of == ("profiling_overhead",)


def test_a_profiler_in_the_trace_alone_costs_nothing_and_page_faults_stand_for_themselves() -> None:
    profile = profiled(0.0)
    check = ask(profile, "cpu.profiling_overhead")
    assert check.status == "clean"
    assert check.support[0].facts[0].value == 0.0
    assert page_faults(profile)[0].findings[0].symptom_of == ()
    assert page_faults(profiled(None))[0].findings[0].symptom_of == ()


def compiling_once(*numbers: str) -> Profile:
    """Three steps, the last of which compiles for most of its half second."""
    builder = RankBuilder(device=None)
    for step, number in enumerate(numbers):
        begin, lasts = step * 50_000, 500_000 if step == 2 else 50_000
        if step == 2:
            builder.operator("_compile.compile_inner (dynamo_timed)", begin, 450_000)
        builder.operator(f"Torch-Compiled Region: {number}", begin + lasts - 49_000, 48_000)
        builder.step(step, begin, begin + lasts)
    return profile_of(builder)


def test_a_compilation_in_one_step_has_a_gain_where_earlier_ones_show_that_it_recurs() -> None:
    (finding,) = ask(compiling_once("0/10", "0/10", "0/11"), "cpu.operator_compilation").findings
    assert (finding.mechanism, finding.steps, finding.change) == ("dynamic_shape", (2,), ())
    assert finding.saving is not None
    assert finding.saving.saved_ms == pytest.approx(450.0 / 3)
    assert finding.saving.least_ms < finding.saving.saved_ms < finding.saving.most_ms <= finding.saving.step_ms
    (first,) = ask(compiling_once("0/0", "0/0", "0/0"), "cpu.operator_compilation").findings
    assert first.saving is None
    assert len(first.change) == 1
