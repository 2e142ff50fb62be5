"""Questions for one kind of figure, on runs with known answers."""

from __future__ import annotations

import pytest

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.intents import Answer, reply
from tests.hermes_agent.questions import discussed
from tests.synthetic import RankBuilder, profile_of


@pytest.fixture(scope="module")
def loader() -> Discussion:
    return discussed.slow_loader()


@pytest.fixture(scope="module")
def late() -> Discussion:
    return discussed.late_rank()


@pytest.fixture(scope="module")
def both() -> Discussion:
    return discussed.loader_and_operators()


@pytest.fixture(scope="module")
def copying() -> Discussion:
    return discussed.slow_call()


def ask(discussion: Discussion, question: str) -> Answer:
    answer = reply(discussion, question)
    assert answer.notes == ()
    assert discussed.unsupported(answer.text, discussion) == []
    return answer


def value(answer: Answer, metric: str, **arguments: str | int) -> float:
    found = [e.value for e in answer.evidence if e.metric == metric and arguments.items() <= e.arguments.items()]
    assert len(found) == 1, [(e.metric, e.arguments) for e in answer.evidence]
    return found[0]


def test_how_long_a_step_takes_is_given_by_median_mean_and_longest(copying: Discussion) -> None:
    answer = ask(copying, "how long does a step take?")
    assert value(answer, "step_time_ms", statistic="median") == pytest.approx(95.3)
    assert value(answer, "step_time_ms", statistic="mean") == pytest.approx(103.3)
    assert value(answer, "step_time_ms", statistic="max") == pytest.approx(135.3)


def test_the_kernels_are_listed_by_time_with_their_number(copying: Discussion) -> None:
    answer = ask(copying, "which kernel takes the most time?")
    assert value(answer, "kernel_name_ms", name="sgemm") == pytest.approx(90.0)
    assert value(answer, "kernel_name_count", name="sgemm") == pytest.approx(1.0)
    assert answer.text.index("`sgemm`") < answer.text.index("`relu`")


def test_at_most_five_kernels_are_listed_and_a_bar_in_a_name_does_not_break_the_table() -> None:
    rank = RankBuilder(0)
    for step in range(4):
        start_us = step * 1_000.0
        for place in range(8):
            rank.kernel(f"a|b{place}", start_us + 100 * place, 10 + place, call_us=start_us + 5 * place)
        rank.step(step, start_us, start_us + 1_000)
    answer = ask(discussed.discuss(profile_of(rank)), "top kernels of rank 0")
    rows = [line for line in answer.text.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 5
    assert r"`a\|b7`" in rows[2]
    assert value(answer, "rank_kernel_ms", name="a|b7") == pytest.approx(0.017)


def test_utilisation_is_the_share_of_the_step_in_which_kernels_run(loader: Discussion) -> None:
    answer = ask(loader, "GPU utilization percent?")
    assert value(answer, "device_busy_pct") == pytest.approx(59.84, abs=0.01)
    assert value(answer, "device_idle_pct") == pytest.approx(40.16, abs=0.01)


@pytest.mark.parametrize("text", ["why is my GPU only half busy?", "why is the device utilisation so low?"])
def test_why_a_device_is_half_busy_is_answered_by_the_reasons_of_its_idle_time(loader: Discussion, text: str) -> None:
    """The loader takes 40 of 100 ms: the device is busy for the rest but 0.16 ms."""
    answer = ask(loader, text)
    assert answer.intent == "bound"
    assert answer.text.startswith("The device runs kernels for 59.8 %")
    reasons = [line for line in answer.text.splitlines() if line.startswith("- ")]
    assert "waits for its data loader" in reasons[0]
    assert value(answer, "device_idle_pct", reason="data") == pytest.approx(40.0, abs=0.2)


def test_why_device_memory_is_half_used_is_no_question_about_idle_time(loader: Discussion) -> None:
    assert ask(loader, "why is GPU memory only half used?").intent != "bound"


def test_without_a_device_there_is_no_utilisation_and_no_kernel() -> None:
    rank = RankBuilder(0, device=None)
    for step in range(4):
        rank.operator("aten::mm", step * 1_000.0, 900)
        rank.step(step, step * 1_000.0, step * 1_000.0 + 1_000)
    discussion = discussed.discuss(profile_of(rank))
    assert "the utilization is not known" in ask(discussion, "GPU utilization?").text
    assert "No device kernel runs" in ask(discussion, "top kernels").text
    assert "neither the queue nor the reasons" in ask(discussion, "launch queue?").text
    assert value(ask(discussion, "top host calls"), "host_own_ms", name="aten::mm") == pytest.approx(0.9)


def test_host_calls_are_listed_by_their_own_time_without_the_calls_inside_them() -> None:
    rank = RankBuilder(0)
    for step in range(4):
        start_us = step * 1_000.0
        rank.operator("aten::linear", start_us + 10, 300)
        rank.operator("aten::addmm", start_us + 20, 250)
        rank.kernel("sgemm", start_us + 100, 100, call_us=start_us + 50, call_duration_us=20)
        rank.step(step, start_us, start_us + 1_000)
    answer = ask(discussed.discuss(profile_of(rank)), "top host calls")
    assert value(answer, "host_own_ms", name="aten::addmm") == pytest.approx(0.23)
    assert value(answer, "host_own_ms", name="aten::linear") == pytest.approx(0.05)
    assert value(answer, "host_own_ms", name="cudaLaunchKernel") == pytest.approx(0.02)
    assert answer.text.index("aten::addmm") < answer.text.index("aten::linear") < answer.text.index("cudaLaunchKernel")


def test_collectives_are_listed_by_kind_with_number_and_durations(late: Discussion) -> None:
    answer = ask(late, "how long do the all-reduces take?")
    assert value(answer, "collective_count", kind="all_reduce") == pytest.approx(1.0)
    assert value(answer, "collective_mean_ms", kind="all_reduce") == pytest.approx(0.5 + 0.75 * 3.0, abs=0.01)
    assert "There is no all to all in the recorded steps" in ask(late, "how long do the all-to-all take?").text


def test_without_collectives_the_network_is_not_called_open(loader: Discussion) -> None:
    for question in ("why not the network?", "is it NCCL?", "could it be poor overlap or communication?"):
        answer = ask(loader, question)
        assert "There are no collectives in the recorded steps" in answer.text
        assert value(answer, "collective_count") == 0
        assert "not ruled out" not in answer.text


def test_ranks_wait_for_the_late_one_and_what_it_does_is_said(late: Discussion) -> None:
    answer = ask(late, "why do ranks wait?")
    assert value(answer, "exposed_wait_ms") == pytest.approx(3.0 * 0.75, abs=0.01)
    assert value(answer, "wait_share_pct", rank=2) == pytest.approx(100.0)
    assert "Rank 2: Its largest excess over the median of the others is data wait" in answer.text


@pytest.mark.parametrize(("rank", "verdict"), [(2, "Yes, rank 2 is late"), (0, "No, rank 0 is not the one")])
def test_whether_a_rank_is_a_straggler_is_answered_with_yes_or_no(late: Discussion, rank: int, verdict: str) -> None:
    answer = ask(late, f"is rank {rank} a straggler?")
    assert answer.text.startswith(verdict)
    assert value(answer, "wait_share_pct", rank=rank) == pytest.approx(100.0 if rank == 2 else 0.0)


def test_whether_a_rank_is_slow_is_answered_by_its_own_time(late: Discussion) -> None:
    answer = ask(late, "is rank 2 slow?")
    assert answer.text.startswith("Yes, rank 2 is slow.")
    assert value(answer, "rank_excess_pct", rank=2) == pytest.approx(100.0 * 3.0 / 4.13, abs=0.5)
    assert ask(late, "is rank 1 slow?").text.startswith("No, rank 1 is no slower than the others.")


def test_several_steps_are_each_explained_by_the_call_that_grew(copying: Discussion) -> None:
    answer = ask(copying, "why are steps 4 and 7 slow?")
    assert answer.intent == "steps"
    for step in discussed.SLOW_CALLS:
        assert f"Step {step} takes" in answer.text
        assert value(answer, "step_name_excess_ms", step=step, name="cudaMemcpyAsync") == pytest.approx(40.0)
        assert value(answer, "step_name_longest_ms", step=step, name="cudaMemcpyAsync") == pytest.approx(40.1)


def test_a_step_like_the_others_is_not_explained(copying: Discussion) -> None:
    assert "cudaMemcpyAsync" not in ask(copying, "why is step 3 slow?").text


def test_two_causes_gone_at_once_are_replayed_together(both: Discussion) -> None:
    answer = ask(both, "how much faster if I fixed both the loader and the small operators?")
    together = value(answer, "joint_speedup", bound="expected")
    alone = {
        each.arguments["cause"]: each.value
        for each in answer.evidence
        if each.metric == "predicted_speedup" and "bound" not in each.arguments
    }
    assert set(alone) == {"slow_data_processing", "operator_dispatch"}
    assert together > max(alone.values())
    step_ms = value(answer, "joint_step_ms")
    assert step_ms == pytest.approx(10.0 / together)
    assert step_ms >= 1.0 - 1e-9  # the kernels themselves stay


def test_everything_gone_leaves_out_what_cannot_be_replayed_and_says_so(late: Discussion) -> None:
    kept = [each for each in late.diagnosis.causes if each.method == "replay"]
    answer = ask(late, "what if I fix everything?")
    assert ("replayed together" in answer.text) == (len(kept) > 1)


def test_the_fewest_workers_are_the_time_to_make_a_batch_over_the_rest(loader: Discussion) -> None:
    answer = ask(loader, "how many workers should I use?")
    assert value(answer, "loader_workers_least") == 1  # 40 ms for a batch that the step uses for 60 ms
    rank = RankBuilder(0)
    for step in range(6):
        start_us = step * 100_000.0
        rank.annotation(discussed.LOADER, start_us, 70_000)
        rank.kernel("sgemm", start_us + 70_100, 29_000, call_us=start_us + 70_050)
        rank.step(step, start_us, start_us + 100_000)
    slower = discussed.discuss(profile_of(rank))
    assert value(ask(slower, "how many workers?"), "loader_workers_least") == 3  # 70 over 30


def test_the_workers_are_not_guessed_where_making_a_batch_is_not_recorded(copying: Discussion) -> None:
    assert "not assessable from this recording" in ask(copying, "how many workers should I use?").text


def test_how_sure_names_the_support_and_what_would_disprove_each_cause(loader: Discussion) -> None:
    answer = ask(loader, "how sure are you?")
    first = loader.diagnosis.causes[0]
    assert f"confidence `{first.confidence:.2f} of 1`" in answer.text
    assert "Would be disproved if" in answer.text
    assert value(answer, "predicted_speedup", cause=first.cause, bound="low") > 1.0


def test_idle_time_is_split_by_reason_and_the_queue_by_its_length(both: Discussion) -> None:
    answer = ask(both, "why is the device idle although work is launched?")
    assert value(answer, "device_idle_pct", reason="data") == pytest.approx(40.0, abs=0.1)
    assert value(answer, "launches_per_step") == 100
    assert value(answer, "launch_interval_us") == pytest.approx(55.0)
    assert "the host is the slower side" in answer.text


def test_the_memory_peak_is_given_or_what_it_needs(loader: Discussion) -> None:
    assert "`profile_memory=True`" in ask(loader, "peak memory?").text


def test_what_the_run_is_names_only_what_was_recorded(both: Discussion) -> None:
    text = ask(both, "what batch size and model is this?").text
    assert "Steps 0 to 7" in text
    assert "`Tesla V100-SXM2-32GB`" in text
    assert "No operator shapes are recorded" in text


def test_shapes_are_those_of_the_operators_with_most_time() -> None:
    rank = RankBuilder(0)
    for step in range(4):
        start_us = step * 1_000.0
        rank.operator("aten::mm", start_us + 10, 300, dims=[[32, 64], [64, 16]], types=["float", "float"])
        rank.operator("aten::relu", start_us + 400, 20, dims=[[32, 16]], types=["float"])
        rank.kernel("sgemm", start_us + 100, 100, call_us=start_us + 50)
        rank.step(step, start_us, start_us + 1_000)
    text = ask(discussed.discuss(profile_of(rank)), "what is this run?").text
    assert text.index("`aten::mm` on `32x64, 64x16`") < text.index("`aten::relu` on `32x16`")


def test_the_time_beside_a_shape_is_that_of_the_operator_with_this_shape() -> None:
    rank = RankBuilder(0, device=None)
    for step in range(4):
        start_us = step * 1_000.0
        for at_us, length_us, size in ((10, 600, 64), (700, 50, 8), (800, 50, 8)):  # the short shape is the commoner
            rank.operator("aten::mm", start_us + at_us, length_us, dims=[[size, 8], [8, 8]], types=["float", "float"])
        rank.step(step, start_us, start_us + 1_000)
    text = ask(discussed.discuss(profile_of(rank)), "batch size?").text
    lines = [line for line in text.splitlines() if "aten::mm" in line]
    long, short = lines
    assert "`64x8, 8x8`, 0.60 ms" in long
    assert "`8x8, 8x8`, 0.10 ms" in short


def test_the_fastest_rank_and_the_waiting_rank_are_not_the_late_one(late: Discussion) -> None:
    assert not ask(late, "which rank is fastest?").text.startswith("Rank 2 is")
    most = ask(late, "which rank waits the most?")
    assert value(most, "exposed_wait_ms", rank=0) == pytest.approx(3.0, abs=0.05)
    assert value(most, "exposed_wait_ms", rank=2) == pytest.approx(0.0, abs=0.05)
    assert not most.text.startswith("Rank 2 ")
    assert ask(late, "who waits least?").text.startswith("Rank 2 waits least")
    for_it = ask(late, "which ranks wait for rank 2?")
    assert {each.arguments["rank"] for each in for_it.evidence} == {0, 1, 3}
    assert value(for_it, "exposed_wait_ms", rank=1) == pytest.approx(3.0, abs=0.05)


def test_the_fastest_step_is_not_the_slowest_one() -> None:
    spiky = discussed.spiky()
    assert "Step 7 is" not in ask(spiky, "which step is the fastest?").text
    assert "Step 7 is the slowest" in ask(spiky, "which step is the slowest?").text
    both = ask(spiky, "step time min and max").text
    assert [words in both for words in ("is the fastest", "Step 7 is the slowest")] == [True, True]


def test_idle_time_is_said_as_share_and_in_ms() -> None:
    rank = RankBuilder(0)
    for step in range(4):
        start_us = step * 1_000.0
        rank.kernel("sgemm", start_us + 250, 750, call_us=start_us + 200)
        rank.step(step, start_us, start_us + 1_000)
    discussion = discussed.discuss(profile_of(rank))
    for question in ("how much gpu idle", "device idle time in ms?", "GPU 空闲多少？", "how much is the gpu idle"):
        answer = ask(discussion, question)
        assert value(answer, "device_idle_ms") == pytest.approx(0.25)
        assert answer.text.partition("By reason")[0].count("25.0 %") == 1


def test_the_name_of_an_operator_goes_before_the_phase_in_it() -> None:
    rank = RankBuilder(0, device=None)
    for step in range(4):
        rank.operator("aten::mm_backward", step * 1_000.0 + 10, 300)
        rank.step(step, step * 1_000.0, step * 1_000.0 + 1_000)
    answer = ask(discussed.discuss(profile_of(rank)), "how much time goes into aten::mm_backward per step?")
    assert answer.intent == "named_work"
    assert value(answer, "host_own_ms", name="aten::mm_backward") == pytest.approx(0.3)


@pytest.mark.parametrize(
    "question",
    [
        "how much would bucketing save?", "what would 10 gbit ethernet bring", "if communication were free?",
        "what if I use fsdp?",
    ],
)  # fmt: skip
def test_a_change_that_cannot_be_predicted_is_not_answered_with_the_gain_of_another(
    late: Discussion, question: str
) -> None:
    answer = ask(late, question)
    assert answer.intent == "what_if"
    assert "not predicted" in answer.text or "not replayed" in answer.text
    assert not {"joint_step_ms", "joint_speedup", "predicted_step_ms"} & {each.metric for each in answer.evidence}
    assert "What if I fix" in answer.text


def test_a_rank_that_delays_nobody_brings_nothing_if_it_were_as_fast_as_the_others(late: Discussion) -> None:
    answer = ask(late, "if rank 1 were as fast as the others?")
    assert answer.text.startswith("With `rank 1 as fast as the others` a step would take")
    assert "1.00x" in answer.text


def test_an_answer_of_all_steps_says_so_when_one_was_named(late: Discussion) -> None:
    assert ask(late, "is rank 2 late in step 3?").text.startswith("Of all recorded steps, not of step 3 alone:")
    text = ask(late, "what did rank 2 do in step 3?").text
    assert text.startswith("Step 3 of rank 2 takes")
    assert "mean" not in text


@pytest.mark.parametrize("question", ["What would both fixes together bring?", "what is the expected speedup"])
def test_a_question_for_the_fixes_that_were_found_is_not_refused(both: Discussion, question: str) -> None:
    assert "only removes or shortens" not in ask(both, question).text
