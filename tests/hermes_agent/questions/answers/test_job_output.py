"""Questions to the output of a job alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.intents import reply
from tests.hermes_agent.questions.discussed import discuss, slow_loader, unsupported
from tests.tools.analyzers.overlap.test_pipeline import two_stages
from tests.tools.analyzers.test_job_output import PIPELINE, profile_of
from tests.tools.sources.job_log.logs import megatron
from tests.tools.sources.job_log.test_communication import TEST, WATCHDOG
from tests.tools.sources.job_log.test_tables import AVERAGES
from tools.metrics.communication.pipeline import pipeline
from tools.sources.load import load_run
from tools.views.profile import Profile

STEADY = tuple((step, 1000.0 + step % 2) for step in range(1, 41))
SLOWER = tuple((step, 1000.0 + 10.0 * step) for step in range(1, 41))
FASTER = tuple((step, 1400.0 - 10.0 * step) for step in range(1, 41))
COLD = ((1, 1500.0), *((step, 1000.0) for step in range(2, 41)))


def job(folder: Path, steps: tuple[tuple[int, float], ...], head: str = "") -> Discussion:
    return discuss(profile_of(folder, head + megatron(*steps)))


def values(discussion: Discussion, question: str) -> dict[str, float]:
    found = reply(discussion, question)
    assert unsupported(found.text, discussion) == []
    return {each.metric: each.value for each in found.evidence}


@pytest.mark.parametrize(
    ("steps", "begins"),
    [
        (STEADY, "No, not beyond"),
        (SLOWER, "Within the recorded steps, yes:"),
        (FASTER, "No, the recorded steps get shorter:"),
    ],
)
def test_a_drift_of_the_steps_has_its_sign(tmp_path: Path, steps: tuple[tuple[int, float], ...], begins: str) -> None:
    assert reply(job(tmp_path, steps), "is it getting slower over time?").text.startswith(begins)


def test_few_steps_show_no_drift(tmp_path: Path) -> None:
    found = reply(job(tmp_path, STEADY[:5]), "is it getting slower over time?")
    assert found.text.startswith("Whether it gets slower is not assessable")


def test_a_pipeline_is_answered_for_the_micro_batches_that_are_asked(tmp_path: Path) -> None:
    """8 stages: 4 micro-batches leave 7/11 idle, 16 leave 7/23; 1 - (11/4)^-1 (23/16) less time for a sample."""
    found = values(job(tmp_path, STEADY, PIPELINE.format(batch=8)), "what would 16 micro-batches bring?")
    assert found["schedule_saving_pct"] == pytest.approx(100 * (1 - (23 / 16) / (11 / 4)))
    assert (found["stated_micro_batches"], found["stated_stages"]) == (4, 8)


def test_fewer_micro_batches_save_nothing(tmp_path: Path) -> None:
    found = reply(job(tmp_path, STEADY, PIPELINE.format(batch=8)), "what with 2 micro-batches?")
    assert "would take no less time" in found.text


@pytest.mark.parametrize("question", ["what would 0 micro-batches bring?", "what with a micro batch size of 16?"])
def test_no_schedule_is_answered_for_none_or_for_a_size_in_samples(tmp_path: Path, question: str) -> None:
    found = reply(job(tmp_path, STEADY, PIPELINE.format(batch=8)), question)
    assert "micro-batches per step it would" not in found.text


def test_a_question_for_a_number_is_not_answered_with_yes(tmp_path: Path) -> None:
    found = reply(job(tmp_path, STEADY, PIPELINE.format(batch=8)), "how many micro-batches?")
    assert found.text.startswith("4 micro-batches")


def test_whether_more_micro_batches_help_is_said_first_with_the_step_that_they_give() -> None:
    """Stages of 1 and 3 ms: most of the waiting is for the heavy one, and twice the micro-batches hardly help."""
    discussion = discuss(two_stages(8, (1000.0, 3000.0)))
    text = reply(discussion, "would more micro-batches help?").text
    assert text.startswith("No, hardly: with 16 micro-batches a step would take")
    assert "whatever their number" in text
    assert not unsupported(text, discussion)
    stages = pipeline(discussion.profile())
    assert stages is not None
    # what is left of the first stage's waiting once 2 ms a micro-batch for the heavy one are taken off
    wait_ms, behind_ms = (float(stages.table[name].max()) for name in ("wait_ms", "compute_ms"))
    left_ms = max(wait_ms - (behind_ms - float(stages.table["compute_ms"].min())), 0.0)
    assert stages.bubble_ms >= left_ms / 2.0 - 1e-9
    assert stages.bubble_ms < wait_ms / 2.0
    assert "Beyond what they wait because one computes longer" in text
    few = reply(discuss(two_stages(2)), "would more micro-batches help?").text
    assert few.startswith("Yes: with 4 micro-batches a step would take")


def test_equal_stages_are_predicted_by_the_cause_that_they_remove() -> None:
    discussion = discuss(two_stages(8, (1000.0, 3000.0)))
    text = reply(discussion, "How much would I save if the stages were equal?").text
    assert text.startswith("Fixing unbalanced pipeline stages")


def test_a_run_without_a_pipeline_has_no_number_of_micro_batches() -> None:
    assert reply(slow_loader(), "how many micro-batches?").text.startswith("The number of micro-batches is not known")


def test_time_outs_are_those_of_the_output(tmp_path: Path) -> None:
    assert reply(job(tmp_path, STEADY), "were there NCCL timeouts?").text.startswith("No:")
    (tmp_path / "hang").mkdir()
    hung = discuss(profile_of(tmp_path / "hang", WATCHDOG + megatron(*STEADY)))
    assert reply(hung, "were there NCCL timeouts?").text.startswith("Yes: Rank 7 waited")
    assert reply(slow_loader(), "were there NCCL timeouts?").text.startswith("Time-outs of collectives are not in a")


def lost(first: int, until: int = 40) -> str:
    """Forty steps of a second, whose loss is NaN from one to another of them."""
    lines = megatron(*((step, 1000.0 + step % 2) for step in range(1, 41))).splitlines(keepends=True)
    marked = (line.rstrip("\n") + " lm loss: NaN |\n" for line in lines)
    return "".join(
        new if first <= at <= until else old for at, (old, new) in enumerate(zip(lines, marked, strict=True), 1)
    )


def test_a_lost_loss_comes_before_slowness_and_answers_what_is_wrong(tmp_path: Path) -> None:
    """11 of 40 steps are 27.5 %."""
    discussion = discuss(profile_of(tmp_path, lost(30)))
    assert discussion.diagnosis.headline.startswith("Loss or gradient norm is NaN")
    assert "in all of them from step 30 on" in discussion.diagnosis.headline
    assert reply(discussion, "is anything wrong with this run?").text.startswith("Yes. Loss or gradient norm")
    assert reply(discussion, "is it fine?").text.startswith("No. Loss or gradient norm")
    assert not reply(discussion, "is it slow?").text.startswith("Yes")
    found = values(discussion, "why does the loss become nan?")
    assert found["not_finite_pct"] == pytest.approx(27.5)


def test_a_loss_that_is_a_number_again_is_not_lost_however_many_ranks_print_it(tmp_path: Path) -> None:
    """Step 38 of 40 is NaN, and three ranks print it: one step, 2.5 %, and 39 and 40 are finite."""
    lines = lost(38, until=38).splitlines(keepends=True)
    text = "".join([*lines[:37], *lines[37:38] * 3, *lines[38:]])
    discussion = discuss(profile_of(tmp_path, text))
    assert "from step" not in discussion.diagnosis.headline
    assert values(discussion, "why does the loss become nan?")["not_finite_pct"] == pytest.approx(2.5)


def test_single_overflows_do_not_come_first(tmp_path: Path) -> None:
    discussion = discuss(profile_of(tmp_path, lost(10, until=11)))
    assert "A step takes" in discussion.diagnosis.headline
    assert "from step" not in reply(discussion, "why does the loss become nan?").text


def test_why_a_collective_timed_out_is_answered_with_who_waited(tmp_path: Path) -> None:
    hung = discuss(profile_of(tmp_path, WATCHDOG + megatron(*STEADY)))
    text = reply(hung, "why does it time out at the validation step?").text
    assert text.startswith("Rank 7 waited")
    assert "A time-out names a rank that waited" in text


def test_who_did_not_join_is_answered_by_who_waited_where_no_more_is_known(tmp_path: Path) -> None:
    hung = discuss(profile_of(tmp_path, WATCHDOG + megatron(*STEADY)))
    for question in ("who did not join the collective?", "which rank should I look at?"):
        text = reply(hung, question).text
        assert text.removeprefix("The output does not name the rank that did not arrive. ").startswith("Rank 7 waited")
        assert "A time-out names a rank that waited" in text


def test_the_work_to_move_between_stages_is_that_of_equal_ones() -> None:
    """Stages of 1 and 3 ms per micro-batch: a third of the heavy one's work is above the mean of 2 ms."""
    discussion = discuss(two_stages(8, (1000.0, 3000.0)))
    found = values(discussion, "how many layers should I move between the stages?")
    assert found["stage_surplus_pct"] == pytest.approx(100.0 / 3.0)
    assert reply(discussion, "which stage is the heaviest?").text.startswith("The stage of rank 1 computes longest")
    assert reply(slow_loader(), "which stage is the heaviest?").text.startswith("The traces show no pipeline")


def test_the_first_step_is_held_against_the_usual_ones(tmp_path: Path) -> None:
    found = values(job(tmp_path, COLD), "how much slower is the first iteration than the rest?")
    assert (found["first_step_ms"], found["first_step_excess_pct"]) == pytest.approx((1500.0, 50.0))


def test_steps_of_the_output_are_given_by_their_numbers(tmp_path: Path) -> None:
    answer = reply(job(tmp_path, COLD), "how long did iterations 8 to 9 take?")
    assert answer.intent == "duration"
    assert [f"| {step} | " in answer.text for step in (7, 8, 9)] == [False, True, True]
    assert "This run has no such step" in reply(job(tmp_path, COLD), "how long did iteration 4000 take?").text


def test_flops_are_the_ones_that_are_stated(tmp_path: Path) -> None:
    assert reply(job(tmp_path, STEADY), "TFLOPs per GPU?").text.startswith("The FLOP/s are not known")
    (tmp_path / "stated").mkdir()
    lines = megatron(*STEADY).replace(" | learning rate", " | throughput per GPU (TFLOP/s/GPU): 123.4 | learning rate")
    found = values(discuss(profile_of(tmp_path / "stated", lines)), "TFLOPs per GPU?")
    assert found == {"stated_tflops": pytest.approx(123.4)}


def test_skipped_steps_are_counted(tmp_path: Path) -> None:
    found = reply(job(tmp_path, STEADY), "were any iterations skipped?")
    assert found.intent == "skipped_steps"
    assert "grep" not in found.text


REPORT = (
    "MnRtt/Rnk: 410.00ms/12 | MxRtt/Rnk: 520.00ms/7 | MnPwr/Rnk: 412.00W/7 | MxPwr/Rnk: 690.00W/1 | MnTmp/Rnk: 44.00C/3"
    " | MxTmp/Rnk: 86.00C/7 | MnClk/Rnk: 1245.00MHz/7 | MxClk/Rnk: 1980.00MHz/0\n"
)


@pytest.mark.parametrize("question", ["which rank is slowest?", "is a device throttling?"])
def test_the_straggler_report_names_the_slowest_rank_and_its_clock(tmp_path: Path, question: str) -> None:
    text = "".join(megatron(step) + REPORT for step in STEADY)
    found = reply(discuss(profile_of(tmp_path, text)), question)
    assert "rank 7 is the slowest" in found.text
    assert "lowest clock, 1245 MHz" in found.text


def test_the_slowest_stage_is_named_by_the_timers_of_the_ranks(tmp_path: Path) -> None:
    head = (
        "using world size: 4, data-parallel size: 2, tensor-model-parallel size: 1, pipeline-model-parallel size: 2\n"
    )
    ranks = "".join(f"     rank {rank:2d}: {100 + 100 * (rank > 1)}.00\n" for rank in range(4))
    timers = f"times across ranks (ms):\n  forward-compute:\n{ranks}"
    text = head + "".join(megatron(step) + timers for step in STEADY)
    found = reply(discuss(profile_of(tmp_path, text)), "which pipeline stage is slowest?")
    assert found.text.startswith("Pipeline stage 1 (ranks 2, 3) computes 200 ms")


def test_overflows_that_each_rank_prints_are_no_number_of_steps(tmp_path: Path) -> None:
    line = "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 32768.0\n"
    steps = megatron(*STEADY).replace(" | number of skipped iterations:   0", "")
    found = reply(discuss(profile_of(tmp_path, 3 * line + steps)), "were any iterations skipped?")
    assert found.text.startswith("Yes, gradients overflowed: 3 lines")
    assert "not known" in found.text


def test_memory_and_ranks_that_no_line_states_are_not_known(tmp_path: Path) -> None:
    found = job(tmp_path, STEADY)
    assert reply(found, "how much GPU memory does it take").text.startswith(
        "How much device memory is used is not known"
    )
    assert reply(found, "which rank is the straggler").text.startswith("The step times that were read name no rank")
    assert "Rank 0" not in reply(job(tmp_path, STEADY, PIPELINE.format(batch=8)), "which parallel layout is this").text


def test_samples_stay_samples_in_another_language(tmp_path: Path) -> None:
    """4 samples in 1 s."""
    found = values(job(tmp_path, COLD), "Wie viele Samples pro Sekunde?")
    assert found["logged_samples_per_s"] == pytest.approx(4.0)


def test_a_run_with_accumulated_gradients_and_its_log(traces: Path) -> None:
    """4 micro-batches, all of them exchanged; median and mean of the 40 times in train.log are 284.0 and 329.99 ms."""
    folder = traces.parent / "runs" / "conv_accum_sync"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not here")
    run = discuss(Profile(load_run([folder])))
    assert reply(run, "are we using no_sync for the grad accumulation??").text.startswith("No: the first of the causes")
    assert reply(run, "how many micro-batches per optimizer step").text.startswith("On rank 0: 4 passes")
    found = reply(run, "median step time w/o the profiler").evidence
    logged = {each.arguments["statistic"]: each.value for each in found if each.metric == "logged_step_ms"}
    assert logged == {"median": pytest.approx(284.0), "mean": pytest.approx(329.9925)}


@pytest.mark.parametrize(
    ("text", "question", "begins"),
    [
        (AVERAGES, "which operator takes the most time?", "In torch.profiler's table operators take 3.40 ms"),
        (AVERAGES, "where does the time go?", "In torch.profiler's table"),
        (TEST, "what bandwidth do we reach?", "In nccl-tests the bus bandwidth is 117 GB/s"),
        (TEST, "what is bandwidth contention?", "Bandwidth contention (family: communication)."),
    ],
)
def test_tables_in_the_output_answer_with_their_figures(tmp_path: Path, text: str, question: str, begins: str) -> None:
    discussion = discuss(profile_of(tmp_path, text))
    found = reply(discussion, question)
    assert unsupported(found.text, discussion) == []
    assert found.text.startswith(begins)


def test_with_steps_the_steps_answer_where_the_time_goes(tmp_path: Path) -> None:
    found = reply(job(tmp_path, STEADY, AVERAGES), "where does the time go?")
    assert "torch.profiler's table" not in found.text


def test_shares_of_a_table_need_the_total_of_the_same_times(tmp_path: Path) -> None:
    """Its rows are of the device (120.5 ms, 1.5 s), its only total of the host (3.4 ms): no share is known."""
    cut = values(discuss(profile_of(tmp_path, AVERAGES)), "which operator takes the most time?")
    assert (cut["profiled_operator_ms"], "profiled_operator_pct" in cut) == (120.5, False)
    whole = AVERAGES + "Self CUDA time total: 2.000s\n"
    shares = reply(discuss(profile_of(tmp_path, whole)), "which operator takes the most time?")
    assert [each.value for each in shares.evidence if each.metric == "profiled_operator_pct"] == [75.0, 6.025]


def test_a_cost_that_nobody_knows_is_not_said_to_be_small(tmp_path: Path) -> None:
    over = "node1:88:89 [0] NCCL INFO Channel 00/0 : 7[7] -> 8[0] [send] via NET/Socket/0\n"
    text = reply(job(tmp_path, STEADY, over), "is it the network?").text
    assert "Found, at a cost that is not known: fallback to sockets" in text
    assert "may have a part in it; what it costs a step is not known" in text
    assert "saves nothing" not in text


JUMPED = tuple((step, 1000.0 + step % 2 + 300.0 * (step > 20)) for step in range(1, 41))


@pytest.mark.parametrize("question", ["which rank is guilty?", "my job hangs after 2000 steps, who is to blame?"])
def test_a_question_for_the_guilty_rank_of_a_hang_is_answered_by_the_time_outs(tmp_path: Path, question: str) -> None:
    hung = discuss(profile_of(tmp_path, megatron(*STEADY) + WATCHDOG))
    found = reply(hung, question)
    assert found.intent == "hang"
    assert "timed out" in found.text
    assert "look first in the output of the ranks that report none" in found.text
    assert "`TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1`" in found.text
    assert reply(job(tmp_path, STEADY), question).intent != "hang"


@pytest.mark.parametrize("question", ["since which step is it slower?", "why did my run become slower after step 20?"])
def test_the_step_from_which_on_it_is_slower_is_named(tmp_path: Path, question: str) -> None:
    found = reply(job(tmp_path, JUMPED), question)
    assert found.intent == "slower_since"
    assert found.text.startswith("From step 21 on")
    steady = reply(job(tmp_path, STEADY), question).text
    assert "From step" not in steady
    assert "beyond the usual variation" in steady


def test_why_a_rate_is_low_is_answered_by_the_diagnosis(tmp_path: Path) -> None:
    pipeline = job(tmp_path, STEADY, PIPELINE.format(batch=8))
    found = reply(pipeline, "why only 4 TFLOPs per GPU?")
    assert found.intent == "low_rate"
    assert pipeline.diagnosis.answer[0] in found.text


def test_the_longest_step_of_lines_over_several_is_not_known(tmp_path: Path) -> None:
    """Steps 10, 20, ..., 400 are printed with their mean over ten."""
    found = reply(
        job(tmp_path, tuple((step, 1000.0 + step % 3) for step in range(10, 401, 10))), "the longest single step"
    )
    assert found.text.startswith("How long single steps take is not known: each line gives the mean")
    assert "of the lines the longest states" in found.text


def test_the_longest_step_says_what_was_left_out_before_it(tmp_path: Path) -> None:
    found = reply(job(tmp_path, COLD), "how long does a step take?").text
    assert "the longest takes 1000 ms" in found
    assert "The first 4 of 40 step lines are left out as start-up." in found


def test_ranks_of_lines_without_one_are_not_rank_0(tmp_path: Path) -> None:
    """Another line names a rank, and those of the steps none."""
    marked = "[Rank 1] (after 1 iterations) memory (MB) | allocated: 1.0 | max allocated: 2048.0\n"
    found = reply(job(tmp_path, STEADY, marked), "which rank is the slowest?").text
    assert found.startswith("The step times that were read name no rank")


def test_how_long_an_epoch_takes_is_what_the_lines_of_epochs_state(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    found = reply(
        job(tmp_path / "a", STEADY, "Epoch 1 time: 50 s\nEpoch 2 time: 40 s\n"), "how long does an epoch take?"
    ).text
    assert "50.0 s" in found
    assert "is not known" not in found
    text = reply(job(tmp_path, STEADY), "how long does an epoch take?").text
    assert text.startswith("How long an epoch takes is not known")


def test_the_printed_steps_are_added_up(tmp_path: Path) -> None:
    """Twenty steps of 1,000 ms and as many of 1,001 ms."""
    found = values(job(tmp_path, STEADY), "how long did the training take?")
    assert found["printed_steps_s"] == pytest.approx(40.02)
