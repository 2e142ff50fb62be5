"""Checks that localise before they name a cause: pauses, delayed calls, rates, evaluation, repeated exchanges."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.asked import ask
from tests.synthetic import RankBuilder, profile_of
from tools.findings import Check
from tools.judgement.ranking import ranking
from tools.metrics.computation import host_group
from tools.metrics.host.pauses import STEP_BEGIN, pause_places
from tools.metrics.registry import measure
from tools.run.events import EventKind
from tools.views.communication.gradient_sync import gradient_passes, repeated_broadcasts
from tools.views.host.held_up import held_up, undisturbed
from tools.views.profile import Profile
from tools.views.steps.modes import steps_text
from tools.views.steps.shape import StepSeries, periodic_stalls
from tools.whatif.change import Omit, Scale
from tools.whatif.predict import predict

LARGE = [[512, 512], [512, 512]]  # 0.27 GFLOP
FLOAT = ["float", "float"]


def host(number: int = 0) -> RankBuilder:
    return RankBuilder(number, device=None)


def paused(pauses_ms: list[float], frame: str = "", inner: str = "") -> Profile:
    """Steps of 40 ms of operators with a pause after them, under a Python frame where one is named."""
    rank, at = host(), 0.0
    for step, pause_ms in enumerate(pauses_ms):
        begun, pause_us = at, 1e3 * pause_ms
        rank.operator("aten::mm", at, 20_000, dims=LARGE, types=FLOAT)
        rank.operator("aten::add_", at + 20_000, 20_000)
        at += 40_000 + pause_us
        if frame:
            rank.event(EventKind.PYTHON, "train.py(3): <module>", begun, at + 1_000 - begun)
            rank.event(EventKind.PYTHON, frame, begun + 40_000, pause_us)
        if inner:
            rank.event(EventKind.PYTHON, inner, begun + 40_000, 0.6 * pause_us)
        rank.operator("aten::detach", at, 1_000)
        at += 1_000
        rank.step(step, begun, at)
    return profile_of(rank)


def test_a_pause_has_its_place_and_its_excess_times_its_frequency() -> None:
    profile = paused([0.0, 0.0, 100.0, 0.0, 0.0])
    (place,) = pause_places(profile, 0).itertuples()
    assert (place.before, place.after, place.step) == ("aten::add_", "aten::detach", 2)
    assert measure(profile, "host_pause_ms", rank=0).value == pytest.approx(20.0)
    assert measure(profile, "host_pause_each_ms", rank=0, place=1).value == pytest.approx(100.0)
    assert measure(profile, "host_pause_steps", rank=0).value == 1
    assert measure(profile, "host_pause_pct", rank=0).value == pytest.approx(100.0 * 100 / 305)


def test_a_pause_without_frames_is_a_lead_and_no_cause() -> None:
    profile = paused([60.0, 62.0, 61.0, 60.0])
    assert ask(profile, "cpu.host_pauses").status == "cannot_answer"
    found = ranking(profile)
    assert (found.verdict, found.causes) == ("inconclusive", ())
    lead = found.leads[0]
    assert (lead.place.part, lead.place.steps, lead.place.between) == (
        "host",
        "every step",
        ("aten::add_", "aten::detach"),
    )
    assert lead.impact_ms == pytest.approx(60.75)
    assert lead.candidates[0].cause == "garbage_collection"
    assert sum(each.likelihood for each in lead.candidates) <= 1.0
    assert "with_stack" in lead.decide_by


def test_python_code_in_one_step_of_several_is_a_hypothesis() -> None:
    frame = "train.py(30): report"
    (once,) = ask(paused([1.0, 100.0, 1.0, 1.0], frame), "cpu.host_pauses").findings
    (often,) = ask(paused([5.0, 100.0, 9.0, 9.0], frame), "cpu.host_pauses").findings
    assert (once.cause, often.cause) == ("operator_dispatch", "operator_dispatch")
    assert once.confidence < 0.5 < often.confidence


def test_a_pause_in_single_steps_looks_like_a_save() -> None:
    lead = ranking(paused([0.0, 0.0, 300.0, 0.0, 0.0])).leads[0]
    assert (lead.place.steps, lead.candidates[0].cause) == ("step 2 (1 of 5)", "checkpoint_stall")


def test_a_pause_that_a_sure_cause_accounts_for_is_no_lead() -> None:
    assert ranking(paused([60.0] * 4, "metrics.py(12): log_scores")).leads == ()


@pytest.mark.parametrize(
    ("frame", "inner", "cause"),
    [
        ("metrics.py(12): log_scores", "", "operator_dispatch"),
        ("torch/serialization.py(700): save", "", "checkpoint_stall"),
        ("pipeline.py(129): preprocess", "image.py(9): blur", "slow_data_processing"),
    ],
)
def test_the_deepest_frame_that_covers_a_pause_names_what_the_host_does(frame: str, inner: str, cause: str) -> None:
    profile = paused([60.0] * 4, frame, inner)
    (finding,) = ask(profile, "cpu.host_pauses").findings
    assert finding.cause == cause
    assert finding.claim.names == tuple(filter(None, (frame, inner)))
    assert finding.hints["where"] == frame


def test_a_wrapper_names_nothing_and_a_short_frame_does_not_stand_for_the_pause() -> None:
    profile = paused([60.0] * 4, "sklearn/utils/_param_validation.py(187): wrapper", "numpy.py(1): argsort")
    (finding,) = ask(profile, "cpu.host_pauses").findings
    assert finding.claim.names == ("numpy.py(1): argsort",)


def test_the_program_around_everything_does_not_explain_a_pause() -> None:
    profile = paused([20.0] * 4, "short.py(1): log")  # the frame is there, and so is the program around it
    assert ask(profile, "cpu.host_pauses").findings[0].claim.names == ("short.py(1): log",)
    rank = host()
    for step in range(3):
        rank.event(EventKind.PYTHON, "train.py(3): <module>", 100_000 * step, 100_000)
        rank.operator("aten::mm", 100_000 * step, 60_000)
        rank.operator("aten::detach", 100_000 * step + 90_000, 10_000)
        rank.step(step, 100_000 * step, 100_000 * (step + 1))
    profile = profile_of(rank)
    assert ask(profile, "cpu.host_pauses").status == "cannot_answer"
    assert ranking(profile).leads[0].place.between == ("aten::mm", "aten::detach")


def test_a_pause_at_the_begin_of_a_step_says_so() -> None:
    rank = host()
    for step in range(3):
        rank.operator("aten::mm", 100_000 * step + 50_000, 50_000)
        rank.step(step, 100_000 * step, 100_000 * (step + 1))
    profile = profile_of(rank)
    assert set(pause_places(profile, 0)["before"]) == {STEP_BEGIN}
    assert ranking(profile).leads[0].candidates[0].cause == "slow_data_processing"


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        (range(10), "every step"),
        (range(1, 10), "every step"),
        ((4,), "step 4 (1 of 10)"),
        ((0, 5, 8), "3 of 10 steps"),
        ((1, 3, 5, 7), "every 2nd step"),
        ((0, 3, 6), "every 3rd step"),
    ],
)
def test_steps_are_named_by_their_pattern(present: range, expected: str) -> None:
    assert steps_text(tuple(present), tuple(range(10))) == expected


def rates(slow_us: float, calls: int = 4, types: list[str] = FLOAT) -> Check:
    rank, at = host(), 0.0
    for step in range(calls):
        rank.operator("aten::mm", at, 1_500, dims=LARGE, types=FLOAT)
        rank.operator("aten::addmm", at + 1_500, 1_500, dims=[[512], *LARGE], types=["float", *FLOAT])
        rank.operator("aten::mm", at + 3_000, slow_us, dims=[[512, 256], [256, 1024]], types=types)
        rank.step(step, at, at + 3_000 + slow_us)
        at += 3_000 + slow_us
    return ask(profile_of(rank), "computation.achieved_rate")


def test_a_matrix_operator_far_below_the_fastest_one_computes_denormal_numbers() -> None:
    check = rates(100_000)
    (finding,) = check.findings
    assert (finding.cause, finding.mechanism) == ("underutilization", "denormal_numbers")
    rate, fastest, share = (fact.value for fact in finding.claim.facts)
    assert rate == pytest.approx(2 * 512 * 256 * 1024 / 100e6)
    assert fastest == pytest.approx(2 * 512**3 / 1.5e6)
    assert share == pytest.approx(100 * 100 / 103)
    assert [each.factor for each in finding.change if isinstance(each, Scale)] == [pytest.approx(rate / fastest)]


def test_a_slow_operator_in_half_precision_is_emulated_and_a_little_slower_one_is_clean() -> None:
    emulated = rates(100_000, types=["c10::BFloat16", "c10::BFloat16"])
    assert emulated.findings[0].mechanism == "unsupported_dtype"
    calm, few = rates(9_000), rates(100_000, calls=2)
    assert calm.status == "clean"
    assert few.status == "cannot_answer"


def evaluating(every: int, steps: int = 8) -> Profile:
    """Steps with a forward pass with gradients and a backward; every n-th also with three passes without."""
    rank, at = host(), 0.0
    for step in range(steps):
        begun = at
        rank.operator("aten::mm", at, 5_000, dims=LARGE, types=FLOAT, sequence=step)
        rank.operator("autograd::engine::evaluate_function: MmBackward0", at + 5_000, 10_000)
        at += 15_000
        for _ in range(3 if step % every == 0 else 0):
            rank.operator("aten::mm", at, 5_000, dims=LARGE, types=FLOAT)
            at += 5_000
        rank.step(step, begun, at)
    return profile_of(rank)


def test_forward_passes_without_gradients_in_some_steps_are_evaluation() -> None:
    (finding,) = ask(evaluating(4), "overlap.evaluation").findings
    assert (finding.cause, finding.steps) == ("evaluation_stall", (0, 4))
    steps, each, cost = (fact.value for fact in finding.claim.facts)
    assert [steps, each, cost] == pytest.approx([2.0, 15.0, 3.75])
    assert ranking(evaluating(4)).causes[0].impact_ms == pytest.approx(3.75, rel=0.02)


def test_forward_passes_without_gradients_in_every_step_are_training() -> None:
    assert ask(evaluating(1), "overlap.evaluation").status == "clean"
    assert ask(evaluating(100), "overlap.evaluation").findings  # in one step only


def accumulating(
    exchanges: int,
    passes: int = 4,
    steps: int = 2,
    buffers: bool = False,
    bitmap: int = 0,
    given: int = 0,
    skipped: int = 0,
    copies: bool = False,
) -> Profile:
    """Two ranks that accumulate over passes and exchange gradients in the last ``exchanges`` of them.

    With ``buffers`` every forward broadcasts a buffer in its second millisecond. With ``bitmap`` each exchange also
    looks for unused parameters among so many, of which ``given`` get a gradient, ``skipped`` fewer in every 4th step.
    With ``copies`` gradients are copied into buckets for 2 ms before each exchange, and back for 1 ms after it.
    """
    ranks = []
    for number in range(2):
        rank, at = host(number), 0.0
        work = rank.host_thread("gloo")
        for step in range(steps):
            begun = at
            for place in range(passes):
                rank.annotation("DistributedDataParallel.forward", at, 5_000)
                rank.operator("aten::mm", at, 5_000)
                if buffers:
                    span = rank.annotation("gloo:broadcast", at + 1_000, 500, track=work)
                    rank.detail("operators", span, dims="[[100]]", types='["float"]')
                at += 5_000
                if place >= passes - exchanges:
                    if copies:
                        rank.operator("torch::distributed::reducer::mul_out", at, 2_000)
                        at += 2_000
                    rank.operator("c10d::allreduce_", at, 100)
                    span = rank.annotation("gloo:all_reduce", at + 100, 8_000, track=work)
                    rank.detail("operators", span, dims="[[1000000]]", types='["float"]')
                    at += 8_100
                    if bitmap:
                        rank.operator("torch.distributed.ddp.reducer::search_unused_parameters", at, 500)
                        for each in range(given - skipped * (step % 4 == 3)):
                            rank.operator("torch::autograd::AccumulateGrad", at + 500 + each, 1)
                        span = rank.annotation("gloo:all_reduce", at + 600, 3_000, track=work)
                        rank.detail("operators", span, dims=f"[[{bitmap}]]", types='["int"]')
                        at += 3_600
                    if copies:
                        rank.operator("torch.distributed.ddp.reducer::copy_bucket_to_grad", at, 1_000)
                        at += 1_000
                rank.operator("aten::detach", at, 1_000)
                at += 1_000
            rank.annotation("Optimizer.step#SGD.step", at, 2_000)
            rank.operator("aten::add_", at, 2_000)
            at += 2_000
            rank.step(step, begun, at)
        ranks.append(rank)
    return profile_of(*ranks)


def test_the_same_exchange_in_every_pass_before_one_update_is_redundant() -> None:
    profile = accumulating(exchanges=4)
    (finding,) = ask(profile, "communication.redundant").findings
    assert (finding.cause, finding.mechanism) == ("redundant_synchronization", "accumulation_without_no_sync")
    assert measure(profile, "passes_per_update", rank=0).value == 4
    assert measure(profile, "repeated_exchange_ms", rank=0).value == pytest.approx(24.0)
    assert measure(profile, "pass_bytes", rank=0).value == 4_000_000
    assert predict(profile, finding.change).saving_ms == pytest.approx(24.0)


def averaging(every_pass: bool, elements: int = 512 * 512, clears: bool = False, each_layer: bool = False) -> Profile:
    """Two ranks, four micro-batches of a model of two layers without DDP; the program asks for the all-reduces.

    ``elements``: what one layer's exchange carries; ``clears``: zero_grad before each backward pass; ``each_layer``:
    each gradient is exchanged within the backward, as soon as it is there.
    """
    ranks = []
    for number in range(2):
        rank, at = host(number), 0.0
        work = rank.host_thread("gloo")
        for step in range(2):
            begun = at
            for place in range(4):
                rank.operator("aten::linear", at, 5_000)
                if clears:
                    rank.annotation("Optimizer.zero_grad#SGD.zero_grad", at + 5_000, 10)
                at += 5_100
                exchanged = every_pass or place == 3
                for layer in range(2):
                    rank.operator("autograd::engine::evaluate_function: AddmmBackward0", at, 2_000)
                    rank.operator("torch::autograd::AccumulateGrad", at + 2_000, 10, dims=[[512, 512]])
                    at += 2_100
                    for _ in range((1 if each_layer else 2 * layer) if exchanged else 0):
                        rank.operator("c10d::allreduce_", at, 100)
                        span = rank.annotation("gloo:all_reduce", at + 100, 4_000, track=work)
                        rank.detail("operators", span, dims=f"[[{elements}]]", types='["float"]')
                        at += 4_200
            rank.annotation("Optimizer.step#SGD.step", at, 2_000)
            rank.operator("aten::add_", at, 2_000)
            at += 2_000
            rank.step(step, begun, at)
        ranks.append(rank)
    return profile_of(*ranks)


@pytest.mark.parametrize("each_layer", [False, True])
def test_gradients_averaged_by_hand_in_every_micro_batch_are_exchanged_too_often(each_layer: bool) -> None:
    profile = averaging(every_pass=True, each_layer=each_layer)
    (finding,) = ask(profile, "communication.redundant").findings
    assert (finding.cause, finding.mechanism) == ("redundant_synchronization", "accumulation_without_no_sync")
    assert measure(profile, "passes_per_update", rank=0).value == 4
    assert measure(profile, "pass_bytes", rank=0).value == 2 * 4 * 512 * 512
    assert measure(profile, "repeated_exchange_ms", rank=0).value == pytest.approx(3 * 8.0)
    assert ask(averaging(every_pass=False, each_layer=each_layer), "communication.redundant").status == "clean"


def test_exchanges_by_hand_of_other_than_the_accumulated_gradients_are_not_judged() -> None:
    activations = averaging(every_pass=True, elements=300 * 512)  # of a tensor-parallel layer
    assert not len(gradient_passes(activations, 0))
    cleared = averaging(every_pass=True, clears=True)  # nothing accumulates
    assert gradient_passes(cleared, 0).groupby("update")["number"].nunique().tolist() == [1, 1]
    assert ask(cleared, "communication.redundant").status == "clean"


def test_buffers_are_broadcast_only_after_a_pass_that_exchanged() -> None:
    profile = accumulating(exchanges=4, buffers=True)
    begun = profile.rank(0).start[repeated_broadcasts(profile, 0)] / 1e6
    assert begun.tolist() == pytest.approx([pass_ms + 1.0 for pass_ms in (14.1, 28.2, 42.3, 72.5, 86.6, 100.7)])
    (finding,) = ask(profile, "communication.redundant").findings
    assert [len(part.rows) for part in finding.change if isinstance(part, Omit)] == [2 * (3 + 3)] * 2


def test_copies_between_gradients_and_buckets_go_with_the_exchange_that_they_serve() -> None:
    plain, copying = (ranking(accumulating(4, copies=copies)).causes[0] for copies in (False, True))
    assert plain.finding.mechanism == copying.finding.mechanism == "accumulation_without_no_sync"
    assert plain.impact_ms == pytest.approx(3 * 8.0, abs=0.2)
    assert copying.impact_ms == pytest.approx(3 * (8.0 + 2.0 + 1.0), abs=0.2)


def test_one_exchange_for_each_update_is_not() -> None:
    assert ask(accumulating(exchanges=1), "communication.redundant").status == "clean"
    assert ask(accumulating(exchanges=1, passes=1), "communication.redundant").status == "clean"


def test_a_search_for_unused_parameters_is_redundant_where_each_parameter_gets_a_gradient() -> None:
    profile = accumulating(exchanges=1, passes=1, bitmap=20, given=20)
    (finding,) = ask(profile, "communication.redundant").findings
    assert (finding.cause, finding.mechanism) == ("redundant_synchronization", "find_unused_parameters")
    assert measure(profile, "unused_searches", rank=0).value == 1
    assert measure(profile, "unused_search_ms", rank=0).value == pytest.approx(3.5)
    assert ranking(profile).causes[0].impact_ms == pytest.approx(3.5, abs=0.2)


def test_a_search_that_is_needed_in_some_steps_is_none() -> None:
    profile = accumulating(exchanges=1, passes=1, steps=8, bitmap=20, given=20, skipped=3)
    assert ask(profile, "communication.redundant").status == "clean"
    assert ask(accumulating(exchanges=1, passes=1, steps=8, bitmap=20, given=20), "communication.redundant").findings


def test_a_search_that_finds_unused_parameters_is_none() -> None:
    assert ask(accumulating(exchanges=1, passes=1, bitmap=20, given=17), "communication.redundant").status == "clean"


def delayed(late: set[int], late_us: float = 5_000) -> Profile:
    rank, at = host(), 0.0
    for step in range(4):
        begun = at
        for call in range(10):
            us = late_us if 10 * step + call in late else 500.0
            rank.operator("aten::mul", at, us, dims=[[100], [100]], types=FLOAT)
            at += us
        rank.step(step, begun, at)
    return profile_of(rank)


def test_calls_that_exceed_their_usual_time_by_a_slice_are_contention() -> None:
    profile = delayed({3, 14, 22, 37})
    (finding,) = ask(profile, "cpu.held_up").findings
    assert (finding.cause, finding.mechanism) == ("cpu_contention", None)
    assert finding.confidence <= 0.7
    lost = 4 * 4.5
    assert measure(profile, "delayed_calls_pct", rank=0).value == pytest.approx(100 * lost / (40 * 0.5 + lost))
    assert measure(profile, "delayed_calls_count", rank=0).value == 1
    left = undisturbed(profile, 0)
    assert (left.late, left.rest) == pytest.approx((0.5 / 5.0, 1.0))
    assert predict(profile, finding.change).saving_ms == pytest.approx(4.5)
    assert ask(delayed(set()), "cpu.held_up").status == "clean"
    assert ask(delayed(set(range(40))), "cpu.held_up").status == "clean"  # each call is as long as usual


KINDS_US = {20.0: 300, 50.0: 120, 100.0: 60, 200.0: 30, 2_000.0: 6, 8_000.0: 3, 20_000.0: 2}  # length: calls per step
NOISE = {
    "normal": lambda rng, count: np.maximum(rng.normal(1.0, 0.15, count), 0.1),
    "exponential": lambda rng, count: 0.7 + rng.exponential(0.6, count),
    "lognormal": lambda rng, count: rng.lognormal(0.0, 0.5, count),
    "pareto": lambda rng, count: 1.0 + rng.pareto(3.0, count),
}


def varying(noise: str, taken: float = 0.0, steps: int = 8) -> Profile:
    """Steps of calls of many lengths with that noise; somebody takes the core for ``taken`` of its time, 4 ms each."""
    rng, rank, at = np.random.default_rng(3), host(), 0.0
    rate = taken / (1.0 - taken) / 4_000.0  # strikes per microsecond of work
    for step in range(steps):
        begun = at
        for kind, (length_us, calls) in enumerate(KINDS_US.items()):
            for us in length_us * NOISE[noise](rng, calls):
                lasts = us + 4_000.0 * rng.poisson(rate * us)
                rank.operator("aten::mul", at, lasts, dims=[[kind + 1]], types=FLOAT[:1])
                at += lasts
        rank.step(step, begun, at)
    return profile_of(rank)


@pytest.mark.parametrize("noise", NOISE)
def test_operators_whose_own_time_varies_promise_nothing(noise: str) -> None:
    profile = varying(noise)
    assert undisturbed(profile, 0).rest > 0.95
    assert ask(profile, "cpu.held_up").status == "clean"


@pytest.mark.parametrize("noise", NOISE)
def test_a_core_that_is_taken_away_shows_in_calls_of_any_length(noise: str) -> None:
    profile = varying(noise, taken=0.5)
    assert measure(profile, "core_taken_pct", rank=0).value == pytest.approx(50.0, abs=10.0)
    left = undisturbed(profile, 0)
    assert left.late < 0.5
    assert 0.6 < left.rest < 0.8


def test_a_core_that_is_taken_away_for_long_is_contention() -> None:
    profile = varying("exponential", taken=0.5)
    (finding,) = ask(profile, "cpu.held_up").findings
    assert finding.confidence > 0.5  # more than a second was recorded
    assert predict(profile, finding.change).saving_ms / profile.mean_step_ms == pytest.approx(0.5, abs=0.1)


def test_a_call_that_is_long_in_every_step_is_not_held_up() -> None:
    profile = delayed({10 * step + call for step in range(4) for call in (2, 7, 8)})
    assert held_up(profile, 0).empty


def test_a_short_recording_may_lie_in_one_disturbance() -> None:
    (finding,) = ask(varying("lognormal", taken=0.2, steps=2), "cpu.held_up").findings
    assert finding.confidence < 0.5
    assert "whether it lasts is not known" in finding.against[-1].template


def test_the_optimizer_over_whole_tables_is_dense_gradients() -> None:
    rank = host()
    table = [20_000, 32]
    for step in range(3):
        at = 100_000.0 * step
        rank.operator("aten::embedding", at, 10_000, dims=[table, [2_000]], types=["float", "long int"])
        rank.operator("aten::embedding_dense_backward", at + 20_000, 10_000, dims=[[2_000, 32], [2_000]])
        rank.operator("aten::zero_", at + 21_000, 4_000, dims=[table], types=FLOAT[:1])
        rank.operator("aten::embedding_dense_backward", at + 31_000, 2_000, dims=[[64, 32], [64]])  # of a small one
        rank.annotation("Optimizer.step#Adam.step", at + 40_000, 60_000)
        for place, name in enumerate(("aten::lerp_", "aten::mul_", "aten::addcdiv_")):
            rank.operator(name, at + 40_000 + 20_000 * place, 20_000, dims=[table, table], types=FLOAT)
        rank.step(step, at, at + 100_000)
    profile = profile_of(rank)
    (finding,) = ask(profile, "computation.memory_bound").findings
    assert (finding.cause, finding.mechanism) == ("memory_bound", "dense_embedding_gradients")
    assert [fact.value for fact in finding.claim.facts] == [pytest.approx(60.0 + 10.0), pytest.approx(10.0)]
    assert [each.factor for each in finding.change if isinstance(each, Scale)] == [pytest.approx(3.0 * 0.1)]


def table_passes(sparse: bool) -> Profile:
    """Three steps whose optimizer multiplies, adds and divides tensors of a table's shape; sparse ones where asked."""
    rank, table = host(), [20_000, 32]
    for step in range(3):
        at = 100_000.0 * step
        rank.operator("aten::embedding", at, 10_000, dims=[table, [2_000]], types=["float", "long int"])
        if sparse:
            rank.operator("aten::embedding_sparse_backward", at + 20_000, 10_000, dims=[[2_000, 32], [2_000]])
            rank.operator("torch::autograd::AccumulateGrad", at + 30_000, 1_000, dims=[table], types=FLOAT[:1])
        else:
            rank.operator("aten::embedding_dense_backward", at + 20_000, 10_000, dims=[[2_000, 32], [2_000]])
            rank.operator("aten::zero_", at + 21_000, 4_000, dims=[table], types=FLOAT[:1])
        rank.annotation("Optimizer.step#SparseAdam.step", at + 40_000, 60_000)
        for place, name in enumerate(("aten::mul", "aten::add_", "aten::div")):
            begun = at + 40_000 + 20_000 * place
            rank.operator(name, begun, 20_000, dims=[table, table], types=FLOAT)
            if sparse:
                rank.operator("aten::_values", begun + 1_000, 10, dims=[table], types=FLOAT[:1])
        rank.step(step, at, at + 100_000)
    return profile_of(rank)


def test_sparse_operands_of_a_tables_shape_are_no_passes_over_it() -> None:
    sparse, dense = table_passes(sparse=True), table_passes(sparse=False)
    assert measure(dense, "table_update_ms", rank=0).value == pytest.approx(60.0 + 10.0)
    assert measure(sparse, "table_update_ms", rank=0).value == 0.0
    assert len(host_group(dense, 0, "elementwise_runs")) == 9
    assert len(host_group(sparse, 0, "elementwise_runs")) == 0
    assert ask(sparse, "computation.memory_bound").status == "clean"
    (finding,) = ask(dense, "computation.memory_bound").findings
    assert finding.mechanism == "dense_embedding_gradients"


def test_long_steps_at_one_distance_are_found_under_a_drifting_level_and_outliers() -> None:
    walls = [100.0 + 60.0 * (20 <= step < 35) + 110.0 * (step % 5 == 4) for step in range(80)]
    walls[26] = walls[57] = 340.0
    found = periodic_stalls(StepSeries(np.arange(80), np.array(walls)), 10.0)
    assert found is not None
    assert found.period == 5
    assert found.cost_ms == pytest.approx(22.0, rel=0.15)
    assert found.excess_ms == pytest.approx(110.0, rel=0.15)
    alternating = list(itertools.islice(itertools.cycle((60.0, 829.0)), 40))
    assert periodic_stalls(StepSeries(np.arange(40), np.array(alternating)), 10.0) is None
