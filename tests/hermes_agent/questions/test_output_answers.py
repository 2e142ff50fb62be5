"""Questions to pasted output: an answer states what the lines hold, and never more than they hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from hermes_agent.cli.main import main

Ask = Callable[[Sequence[str], str], str]


@pytest.fixture
def ask(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    """The printed answer to a question about these lines, on one line."""

    def answer(lines: Sequence[str], question: str) -> str:
        path = tmp_path / "train.log"
        path.write_text("\n".join(lines) + "\n")
        main(["ask", str(path), question, "--no-llm"])
        return " ".join(capsys.readouterr().out.split())

    return answer


def means(values: dict[int, tuple[float, float]]) -> list[str]:
    """Lines of MMEngine, each the mean over the ten steps up to it, of the time and of the wait for data in s."""
    text = "2026/03/02 10:0{0}:00 - mmengine - INFO - Epoch(train) [1][{1}/900] lr: 1.0e-03 eta: 1:00:00 time: {2:.4f} "
    return [
        f"{text.format(at, step, wall)} data_time: {wait:.4f} memory: 5000 loss: 1.2"
        for at, (step, (wall, wait)) in enumerate(values.items())
    ]


MEANS = means({310: (0.5, 0.002), 320: (9.0, 8.5), 330: (0.4, 0.002), 340: (2.1, 1.6)})


def test_lines_over_several_steps_are_listed_as_means_without_a_median_a_longest_step_or_a_rank(ask: Ask) -> None:
    said = ask(MEANS, "why are some steps very long?")
    assert "| 320 | 9000 | 8500 |" in said
    assert "line of step" in said
    assert "median" not in said
    assert "at most" not in said
    assert "rank" not in said


def test_single_steps_keep_their_median_and_their_longest(ask: Ask) -> None:
    lines = [f"step {at} loss 2.0 step_time {0.9 if at == 45 else 0.2} s" for at in range(40, 60)]
    said = ask(lines, "which step is the slowest?")
    assert "| 45 | 900 |" in said
    assert "200 ms" in said
    assert "as the median" in said


def test_a_step_that_is_left_out_of_the_step_times_is_stated_with_its_line(ask: Ask) -> None:
    lines = [f"step {at} loss 2.0 step_time {0.031 if at == 1 else 0.25} s" for at in range(1, 41)]
    said = ask(lines, "why is step 1 so fast?")
    assert "31.0 ms" in said
    assert re.search(r"left out of the step times, of which the mean is 250 ms \[E\d+\]\.", said)
    assert "no such step" not in said
    assert "This run has no such step" in ask(lines, "why is step 77 so fast?")


def test_the_parts_that_timers_state_answer_where_the_time_goes(ask: Ask) -> None:
    timers = "[2026-03-02 10:00:00,000] [INFO] [logging.py:69:log_dist] [Rank 0] time (ms) | "
    lines = [f"{timers}forward: 100.00 | backward: 300.00 | backward_inner: 290.00 | step: 600.00"]
    said = ask(lines, "where does the time of a step go?")
    assert re.search(r"60\.0 % \[E\d+\] in `step`", said)
    assert "cannot be measured" not in said


def test_few_lines_state_their_ends_where_a_trend_is_asked_for(ask: Ask) -> None:
    said = ask(MEANS, "does it get slower?")
    assert re.search(r"first of the 4 lines gives 500 ms \[E\d+\] a step, the last 2100 ms", said)
    assert "at most 9000 ms" in said.replace(said[said.index(" [E", said.index("at most 9000 ms")) :], "")
    assert "over the steps of one line" in said


@pytest.mark.parametrize("question", ["what changed over time?", "how did the step time change during the run?"])
def test_what_changed_over_time_is_about_the_steps_of_the_run(ask: Ask, question: str) -> None:
    lines = [f"step {at} loss 2.0 step_time {0.2 if at <= 60 else 0.3} s" for at in range(1, 121)]
    said = ask(lines, question)
    assert "step 61" in said
    assert "baseline" not in said
    even = ask([f"step {at} loss 2.0 step_time 0.{200 + at % 3} s" for at in range(1, 121)], question)
    assert even.startswith("Nothing changed beyond the usual variation.")


def test_a_reason_that_names_slowness_itself_is_understood_after_another_question(ask: Ask) -> None:
    lines = [f"step {at} loss 2.0 step_time 0.{200 + at % 3} s" for at in range(1, 121)]
    said = ask(lines, "is anything wrong? why is this slow?")
    assert "understood" not in said


def test_a_question_after_a_sentence_is_read_as_the_question(ask: Ask) -> None:
    lines = means({10 * at: (0.5, 0.0005) for at in range(1, 10)})
    assert ask(lines, "Each iteration takes 500 ms. Is the data loader the bottleneck?").startswith("No:")


WATCHDOG = (
    "[rank{0}]:[E302 10:00:00.000000000 ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=44, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600040 "
    "milliseconds before timing out."
)


def test_yes_answers_only_a_question_for_yes_or_no(ask: Ask) -> None:
    lines = [WATCHDOG.format(rank) for rank in (0, 2)]
    assert ask(lines, "were there NCCL timeouts?").startswith("Yes:")
    twice = ask(lines, "NCCL watchdog timeout: what is the cause, which rank is guilty?")
    assert twice.count("which timed out") == 1
    said = ask(lines, "watchdog caught a collective operation timeout: what is the cause?")
    assert "Yes:" not in said
    assert "A time-out names a rank that waited" in said


def test_warnings_of_the_allocator_are_among_the_warnings(ask: Ask) -> None:
    flush = (
        "[2026-03-02 10:00:{0:02d},000] [WARNING] [stage3.py:1900:step] 2 pytorch allocator cache flushes since last "
        "step. this happens when there is high memory pressure and is detrimental to performance."
    )
    said = ask([flush.format(at) for at in range(3)], "what do these warnings mean?")
    assert "allocator" in said
    assert "none is" not in said


def test_samples_of_a_device_are_no_records_of_steps(ask: Ask) -> None:
    lines = ["timestamp, index, utilization.gpu [%], power.draw [W]"]
    lines += [f"2026/03/02 10:00:{at:02d}.000, 0, 0 %, 31.00 W" for at in range(4)]
    said = ask(lines, "which GPU is slow?")
    assert "records of whole steps show" not in said
    sentences = re.findall(r"[A-Z][^.]{40,}\.", said)
    assert len(sentences) == len(set(sentences))


def test_two_outputs_in_one_folder_are_two_runs_and_no_ranks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, seconds in (("one.log", 0.2), ("two.log", 0.3)):
        lines = [f"step {at} loss 2.0 step_time {seconds + at % 3 / 1000:.3f} s" for at in range(1, 61)]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    main(["ask", str(tmp_path), "why is one gpu better than two gpus?", "--no-llm"])
    said = " ".join(capsys.readouterr().out.split())
    assert "`hermes-dx compare FIRST SECOND`" in said
    assert "`one.log`, `two.log`" in said
    assert "201 ms" in said
    assert "rank" not in said


def test_a_device_at_no_load_is_no_rank(ask: Ask) -> None:
    said = ask(MEANS, "data_time is high and the GPU is at 0 %: what is the bottleneck?")
    assert "waiting for data" in said
    assert "rank" not in said


def test_a_steady_run_is_not_called_slow_where_it_is_asked_whether_it_is_normal(ask: Ask) -> None:
    lines = [f"step {at} loss 2.0 step_time 0.{200 + at % 3} s" for at in range(1, 121)]
    said = ask(lines, "is this run healthy, does it get slower?")
    assert "Nothing wrong was found in the recorded steps" in said
    assert "drifts by" in said
    assert "does it get slower" in said
    jumped = [f"step {at} loss 2.0 step_time {0.2 if at <= 60 else 0.3} s" for at in range(1, 121)]
    assert "Nothing wrong" not in ask(jumped, "is this run healthy?")


def test_a_small_wait_for_data_is_stated_where_it_is_asked_why_it_is_slow(ask: Ask) -> None:
    lines = means({10 * at: (0.5 + at % 3 / 1000, 0.0005) for at in range(1, 21)})
    said = ask([each.replace("10:0", "1:0") for each in lines], "why is it so slow?")
    assert "waiting for data does not make it long" in said


@pytest.mark.parametrize("question", ["Training takes too long", "what could be the reason for such training speeds?"])
def test_a_complaint_that_is_not_understood_comes_with_the_diagnosis(ask: Ask, question: str) -> None:
    assert re.search(r"3000 ms \[E\d+\]", ask(MEANS, question))


def test_a_question_after_a_colon_is_answered_where_the_whole_is_not_understood(ask: Ask) -> None:
    timers = "[2026-03-02 10:00:00,000] [INFO] [logging.py:69:log_dist] [Rank 0] time (ms) | "
    lines = [f"{timers}forward: 100.00 | backward: 300.00 | backward_inner: 290.00 | step: 600.00"]
    said = ask(lines, "Degradation after the new optimizer: what takes the time in a step?")
    assert re.search(r"60\.0 % \[E\d+\] in `step`", said)
    assert "degradation" not in said


def test_the_stated_mfu_answers_a_question_for_it(ask: Ask) -> None:
    line = "iter {0}: loss 4.0000, time {1:.2f}ms, mfu 31.{2}0%"
    stated = [line.format(at, 250.0 + at % 3, at % 5) for at in range(10, 200, 10)]
    assert re.search(r"MFU\) of 31\.\d % \[E\d+\] on average", ask(stated, "what is the MFU?"))
    said = ask([line.format(at, 250.0 + at % 3, 0).replace("31.00", "-100.00") for at in range(10, 200, 10)], "MFU?")
    assert "no value above 0 % was read" in said
    assert "a trace does not say" not in said


def test_what_the_output_warns_of_answers_what_can_be_done(ask: Ask) -> None:
    error = (
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
        "23.65 GiB of which 1.00 GiB is free. Process 77 has 22.60 GiB memory in use. Of the allocated memory 22.00 "
        "GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated."
    )
    said = ask([error], "OutOfMemoryError: what can I do?")
    assert "a smaller batch" in said
    assert "No cause was found" not in said


def test_no_checks_are_announced_where_none_follow(ask: Ask) -> None:
    lines = [f"step {at} loss 2.0 step_time 1.0{at % 2} s" for at in range(1, 20)]
    said = ask(lines, "is communication the bottleneck?")
    assert "No check for unaligned communication buffers was made on this run." in said
    assert not said.rstrip().endswith("say the following.")


def test_the_time_of_an_evaluation_is_the_one_that_a_line_states(ask: Ask) -> None:
    lines = [f"step {at} loss 2.0 step_time 1.0{at % 2} s" for at in range(1, 20)]
    assert ask(lines, "how long does the evaluation take?").startswith("How long evaluations take is not known")
    said = ask([*lines, "final evaluation took 322.18 s"], "how long does the evaluation take?")
    assert re.match(r"An evaluation took 322 s \[E\d+\] by line 20\. Next to the steps", said)


def test_a_summary_without_a_warning_is_no_advice(ask: Ask) -> None:
    lines = [f"{{'loss': 2.{at}, 'step': {at}, 'step_time_s': 1.0{at % 2}}}" for at in range(1, 20)]
    summary = "{'train_runtime': 896.0, 'train_samples_per_second': 1.12, 'train_loss': 2.0}"
    said = ask([*lines, summary], "what should I change first?")
    assert "896 s" not in said
    assert "No cause was found that could be advised on" in said


def test_steps_that_vary_more_than_they_drift_are_not_called_unchanged(ask: Ask) -> None:
    walls = [(7.0, 0.4, 3.1, 0.2, 5.0, 0.3)[at % 6] * (1.0 - at / 80) for at in range(36)]
    lines = [f"step {40 + at} loss 2.0 step_time {wall:.3f} s" for at, wall in enumerate(walls)]
    said = ask(lines, "running slower and slower?")
    assert "drifts by -" in said
    assert "Nothing changed" not in said
    assert "No steady drift was found" in said


def test_what_was_seen_is_part_of_the_question_where_that_alone_is_not_understood(ask: Ask) -> None:
    said = ask(MEANS, "The step time is increasing during training. Do these lines show it?")
    assert "first of the 4 lines gives 500 ms" in said


def test_whether_something_changed_is_not_known_without_steps(ask: Ask) -> None:
    said = ask([WATCHDOG.format(1)], "what changed over time?")
    assert said.startswith("No series of step times was read")


def counted(count: int, wall_ms: Callable[[int], float], more: str = "") -> list[str]:
    return [f"step {at:5d} | loss: 2.5 | dt: {wall_ms(at):.2f}ms{more}" for at in range(count)]


def test_stated_tokens_per_second_answer_the_question_for_them(ask: Ask) -> None:
    said = ask(counted(40, lambda at: 100.0 + at % 3, " | tok/sec: 5120.00"), "how many tokens per second?")
    assert "5120 tokens/s" in said
    assert "whether of the whole job or of one device" in said
    assert "batch size" not in said


def test_steps_that_get_shorter_are_not_said_to_get_slower(ask: Ask) -> None:
    said = ask(counted(200, lambda at: 103.0 - at / 60 + (at * 7 % 5) / 5), "does it get slower?")
    assert said.startswith(("No, it gets slightly faster", "No, the recorded steps get shorter", "No, it gets faster"))


def test_the_time_of_an_evaluation_that_no_trace_shows_is_not_said_to_lack_a_rank(ask: Ask) -> None:
    said = ask(counted(40, lambda at: 100.0 + at % 3), "how long does the evaluation take?")
    assert "How long evaluations take is not known" in said
    assert "rank 0" not in said


def test_the_first_step_is_named_by_its_own_number(ask: Ask) -> None:
    lines = [f"iter {at}: loss 2.5, time {9000.0 if at == 0 else 900.0 + at % 3:.2f}ms" for at in range(0, 120, 10)]
    assert "Step 0: 9000 ms" in ask(lines, "why is it slow?")


def timed(communicates_ms: float, batch_ms: float) -> list[str]:
    """Lines of Megatron-LM with steps of a second and their timers."""
    step = " iteration {:8d}/ 100 | consumed samples: 8 | elapsed time per iteration (ms): {:.1f} | loss scale: 1.0 |"
    parts = "time (ms) | forward-compute: 100.00 | backward-params-all-reduce: {:.2f} | batch-generator: {:.2f}"
    lines = [(step.format(at, 1000.0 + at % 3), parts.format(communicates_ms, batch_ms)) for at in range(1, 31)]
    return [line for both in lines for line in both]


def test_timers_of_communication_and_of_batches_answer_for_them_before_what_no_check_could_see(ask: Ask) -> None:
    lines = timed(600.0, 2.5)
    said = ask(lines, "is communication the bottleneck?")
    assert "By the job's timers a step spends 59.9 % [E" in said
    assert "in `backward-params-all-reduce`" in said
    assert "No check could find out whether communication is a bottleneck" in said
    assert "Nothing found points" not in said
    assert "0.25 % [E" in ask(lines, "is data loading the bottleneck?")


def test_the_time_of_an_evaluation_is_that_of_its_line_or_not_in_a_form_that_is_read(ask: Ask) -> None:
    assert "10.7 s [E" in ask([*timed(1.0, 1.0), "val_loss:0.94 eval_time:10663ms"], "how long do evaluations take?")
    said = ask(timed(1.0, 1.0), "how long do evaluations take?")
    assert "no line was understood that names one among the step lines or states its time" in said
    assert "all-reduce" not in said


def evaluated(evaluations: int, pause_s: int) -> list[str]:
    """Lines of MMEngine, one each ten steps of 0.5 s, with an evaluation after every fourth that takes ``pause_s``."""
    text = "2026/03/02 {:02d}:{:02d}:{:02d} - mmengine - INFO - {}"
    lines, now = list[str](), 36_000
    for at in range(1, 4 * evaluations + 4):
        now += 5
        clock = (now // 3600, now // 60 % 60, now % 60)
        body = f"Epoch(train) [1][{10 * at}/900] lr: 1.0e-03 eta: 1:00:00 time: 0.5000 data_time: 0.0010 loss: 1.2"
        lines.append(text.format(*clock, body))
        if at % 4 == 0:
            lines.append(text.format(*clock, "Evaluating bbox..."))
            now += pause_s
    return lines


def test_evaluations_without_a_time_of_their_own_are_answered_by_the_step_lines_around_them(ask: Ask) -> None:
    lines = evaluated(5, 40)
    said = ask(lines, "how much of the time is validation?")
    assert "lie 40.0 s [E" in said
    assert "further apart in the median than as many usual steps take" in said
    assert "Together that is 64.5 %" in said  # 200 s of 310 s
    assert "saving or starting the data loader again" in said
    often = ask(lines, "how often does it evaluate?")
    assert "at 5 places [E" in often
    assert "in the median 40 steps [E" in often


def test_evaluations_that_cost_no_more_than_others_have_no_time(ask: Ask) -> None:
    said = ask(evaluated(5, 0), "Wie lange dauert eine Evaluation?")
    assert "how long one takes is not in the lines that were read" in said
    assert "further apart" not in said


CONFIG = ["train_dataloader = dict(", "    batch_size=8,", "    num_workers={},"]


def test_one_loader_worker_that_the_configuration_states_is_no_all_clear(ask: Ask) -> None:
    waits = means({310: (9.0, 8.5), 320: (9.0, 8.5), 330: (9.1, 8.6), 340: (9.1, 8.6)})
    one = ask([line.format(1) for line in CONFIG] + waits, "does it use several loader workers?")
    assert one.startswith("No: the first of the causes found is too few data loader workers.")
    assert "state 1 worker" in one
    four = ask([line.format(4) for line in CONFIG] + waits, "does it use several loader workers?")
    assert four.startswith("Possibly: the first of the causes found is waiting for data.")
    assert "state 4 workers" in four


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            ["time (ms) | fwd_microstep: 60.0 | bwd_microstep: 100.0 | bwd_allreduce_microstep: 40.0 | "
             "step_microstep: 40.0"] * 2,
            ("a micro-step, whose forward, backward and step take 200 ms", "spends 40.0 ms"),
        ),
        (
            ["time (ms) | forward: 60.0 | backward: 100.0 | backward_allreduce: 40.0 | step: 40.0"],
            ("a printed step spends 20.0 %", "`backward_allreduce`"),
        ),
        (
            ["time (ms) | forward-compute: 60.0 | backward-compute: 100.0 | all-grads-sync: 9.0 | forward-recv: 7.0"]
            * 2,
            ("communication takes on average 9.00 ms", "`forward-recv`"),
        ),
    ],
)  # fmt: skip
def test_timers_of_communication_answer_how_much_it_is_where_no_series_of_steps_is_known(
    ask: Ask, lines: list[str], said: tuple[str, str]
) -> None:
    answer = ask(lines, "how much is communication?")
    assert all(each in answer for each in said)
    assert "cannot be measured" not in answer


def yolox(step: int) -> str:
    place = f"2026-03-02 10:00:00.291 | INFO     | yolox.core.trainer:after_iter:282 - epoch: 1/20, iter: {step}/900"
    return f"{place}, gpu mem: 2000Mb, iter_time: 0.500s, data_time: 0.001s, total_loss: 4.2"


TWO_PROGRAMS = [*(yolox(step) for step in range(150, 200, 10)), "the same with another library:", *MEANS]


def test_step_lines_of_a_second_program_are_named_and_never_denied(
    ask: Ask, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = ask(TWO_PROGRAMS, "is it waiting for data?")
    assert "No:" not in said
    path = tmp_path / "train.log"
    main(["diagnose", str(path), "--no-llm"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "are step lines of another form" in said
    assert "are step lines of another form" in shown


def test_lines_of_two_forms_that_alternate_are_of_one_program(ask: Ask) -> None:
    lines = [line for step, mean in enumerate(MEANS, start=1) for line in (mean, yolox(10 * step))]
    assert "of another form" not in ask(lines, "why is it slow?")


def torchvision(step: int, wall: float, rate: float) -> str:
    place = f"Epoch: [0]  [ {step}/5005]  eta: 4:43:31  lr: 0.1  img/s: {rate}  loss: 6.85 (6.94)"
    return f"{place}  time: {wall:.4f}  data: 0.0030  max mem: 3524"


@pytest.mark.parametrize(("rates", "uneven"), [((40.0, 8.0, 64.0), True), ((40.0, 41.0, 42.0), False)])
def test_means_over_a_window_are_never_called_even_and_rates_of_single_steps_show_how_much_they_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rates: tuple[float, ...], uneven: bool
) -> None:
    lines = [torchvision(100 + at, 2.5 + 0.01 * (at % 2), rates[at % 3]) for at in range(9)]
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n")
    main(["diagnose", str(tmp_path / "train.log"), "--no-llm"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "are even (" not in shown
    assert "a mean over steps up to it" in shown
    assert ("the rate of each single step, 8/s" in shown) is uneven


EVEN = [f"step {at} loss 2.0 step_time 1.0{at % 2} s" for at in range(1, 40)]
SOCKETS = [
    "node1:100:110 [0] NCCL INFO NET/IB : No device found.",
    "node1:100:110 [0] NCCL INFO comm 0xaa rank 0 nranks 2 cudaDev 0 busId 17000 commId 0x54fe - Init START",
    "node1:100:110 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0",
    "node1:100:110 [0] NCCL INFO comm 0xaa rank 0 nranks 2 cudaDev 0 busId 17000 commId 0x54fe - Init COMPLETE",
]


@pytest.mark.parametrize("question", ["what should I change first?", "why is it slow?"])
def test_what_was_found_at_an_unknown_cost_is_advised_on_and_its_gain_is_called_unknown(
    ask: Ask, question: str
) -> None:
    said = ask([*SOCKETS, *EVEN], question)
    assert "over TCP sockets" in said
    assert "Let the library use the fast path" in said
    assert "not known" in said
    assert "GLOO" not in said
    assert "No cause was found" not in said
    assert "saves" not in said


def test_the_wait_for_data_in_lightning_s_table_answers_whether_it_waits(ask: Ask) -> None:
    rows = ["get_train_batch | 0.5 | 2.0", "model_forward | 0.25 | 1.0", "model_backward | 0.25 | 1.0"]
    lines = ["Profiler Report", "", "Action | Mean duration (s) | Total time (s)", "-" * 40, *rows]
    said = ask(lines, "is it waiting for data?")
    assert said.startswith("Yes: By Lightning's profiler the training waits for its data loader for 50.0 %")


def test_bars_of_keras_with_another_total_are_of_another_run_or_unit_and_stand_apart(ask: Ask) -> None:
    """60 and 30 s over 1500 steps; 16 s over 57,600 samples are no steps of that run."""
    bar = "{0}/{0} [==============================] - {1}s {2}/step - loss: 0.07"
    lines = ["on the CPU", bar.format(57600, 16, "28us"), "on six GPUs", bar.format(1500, 60, "40ms")]
    said = ask([*lines, bar.format(1500, 45, "30ms")], "how long is a step?")
    assert "35.0 ms" in said
    said = ask([*lines, bar.format(1500, 45, "30ms")], "why is it slow?")
    assert "Line 2 is a progress bar with another total" in said


def test_few_steps_of_a_bar_are_each_stated_also_of_a_bar_that_was_cut_or_drawn_over(ask: Ask) -> None:
    bar = "  1%|##   | {}/203 [00:{}<30:55,  {}s/{}"
    cut = [bar.format(2, 12, 5.01, "it"), bar.format(3, 20, 5.97, "it"), bar.format(4, 37, 9.33, "i")]
    assert "8000 ms [E1] for step 3 and 17.0 s [E2] for step 4" in ask(cut, "how long is a step?")
    assert "17.0 s" in ask(cut, "does it get slower?")
    over = "  1%|#    | {0}/90 [{1}<25:12  1%|#    | {0}/90 [{1}<25:12:38, 1019.75s/it, loss=7.13]"
    said = ask([over.format(1, "16:59"), over.format(2, "34:38")], "how long is a step?")
    assert "1020 s [E1] for step 1 and 1059 s [E2] for step 2" in said


def test_the_time_that_a_record_states_of_its_step_is_used_before_the_rate_of_a_bar(ask: Ask) -> None:
    record = "{{'train_step_runtime': {:.3f}, 'train_step_samples_per_second': 57.0, 'epoch': 0.98}}"
    lines = [
        line
        for at in range(6)
        for line in (record.format(0.6 + 0.01 * at), f" 98%|###| {2086 + at}/2120 [26:0{at}<00:22,  1.45it/s]")
    ]
    assert "smoothed" not in ask(lines, "how long is a step?")


@pytest.mark.parametrize(("seconds", "way"), [((774, 293, 60, 48), "shorter"), ((48, 60, 293, 774), "longer")])
def test_lines_of_which_each_is_shorter_or_longer_than_the_one_before_say_which_way_steps_go(
    ask: Ask, seconds: tuple[int, ...], way: str
) -> None:
    bar = "Epoch {0} | Batch 468/469 | Loss 3.{0}: 100%|####| 469/469 [{1:02}:{2:02}<00:00,  1.65s/it]"
    lines = [bar.format(at, each // 60, each % 60) for at, each in enumerate(seconds)]
    assert f"steps get {way} from each to the next" in ask(lines, "does it get faster?")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            ["E external/xla/xla/service/slow_operation_alarm.cc:140] The operation took 2m12.8s", "",
             "[Compiling module jit_step] Very slow compile? If you want to file a bug, run with"],
            "compilations that XLA states a time of take 133 s",
        ),
        (
            ["Metric: CompileTime", "  TotalSamples: 2", "  Accumulator: 01m58s793ms768.238us"],
            "compilations take 119 s [E1] in all, in 2 calls",
        ),
    ],
)  # fmt: skip
def test_how_long_compilation_takes_is_answered_where_the_output_states_it(
    ask: Ask, lines: list[str], said: str
) -> None:
    assert said in ask(lines, "how long does compilation take?")


def test_whether_memory_is_fragmented_is_answered_by_what_joined_pieces_would_hold(ask: Ask) -> None:
    report = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {} GiB. GPU 0 has a total capacity of 30.00"
    report += " GiB of which 5.00 GiB is free. Including non-PyTorch memory, this process has 25.00 GiB memory in use. "
    report += "Of the allocated memory 15.00 GiB is allocated by PyTorch, and 9.00 GiB is reserved by PyTorch but "
    report += "unallocated."
    assert "joining pieces cannot suffice" in ask([report.format("20.00")], "is it memory fragmentation?")
    assert "joining pieces cannot suffice" not in ask([report.format("12.00")], "is it memory fragmentation?")


def test_an_output_that_ends_before_nccl_names_its_network_says_that_no_adapter_was_found(ask: Ask) -> None:
    said = ask(["node1:10:20 [0] NCCL INFO NET/IB : No device found."], "is InfiniBand used?")
    assert said.startswith("No, by the lines there are: NCCL reports")


def test_the_wait_for_data_of_few_lines_is_stated(ask: Ask) -> None:
    line = (
        "root INFO: epoch: [1/500], iter: {}, lr: 0.001, loss: 3.8, reader_cost: {} s, batch_cost: {} s, samples: 512"
    )
    said = ask([line.format(1, 83.8, 89.2), line.format(2, 0.0015, 2.28)], "is it waiting for data?")
    assert "83.8 s [E3] for step 1 and 1.50 ms [E4] for step 2" in said


def test_percentiles_of_means_are_those_of_lines_and_not_of_single_steps(ask: Ask) -> None:
    said = ask(evaluated(5, 0), "what is the p99 step time?")
    assert "Percentiles of single steps are not known" in said
    assert "of the values of lines" in said


def test_a_step_without_a_line_of_its_own_is_answered_by_the_next_line(ask: Ask) -> None:
    said = ask(evaluated(5, 0), "what happened at step 125?")
    assert "step 125 has no line of its own, the next one is of step 130" in said
    assert "| 500 |" in said


def test_a_usual_step_of_a_long_log_is_not_said_to_be_left_out(ask: Ask) -> None:
    lines = [f"step {at} loss 2.0 step_time {0.2 + at % 7 / 100:.2f} s" for at in range(1, 1200)]
    said = ask(lines, "what happened at step 700?")
    assert "| 700 | 200 |" in said
    assert "left out" not in said


def test_the_first_line_of_several_steps_is_not_the_first_step(ask: Ask) -> None:
    lines = means({at: (3.0 if at == 10 else 0.5, 0.001) for at in range(10, 90, 10)})
    said = ask(lines, "how long did the first step take?")
    assert "The first line with a step time, of steps 1 to 10, gives 3000 ms" in said


def test_arguments_state_batch_size_and_precision_and_are_named_with_their_lines(ask: Ask) -> None:
    arguments = ["  bf16 ......................... True", "  global_batch_size ............ 256"]
    lines = [*arguments, *timed(1.0, 1.0)]
    assert "`global_batch_size=256` (line 2)" in ask(lines, "what batch size was used?")
    assert "`bf16=True` (line 1)" in ask(lines, "was bf16 used?")


UNKNOWN = {
    "what batch size was used?": "The batch size is not known",
    "is mixed precision on?": "The precision is not known",
    "which GPU is it running on?": "Which devices it ran on is not known",
    "how many GPUs are used?": "How many ranks or devices the job has is not known",
    "how many epochs were trained?": "How many epochs the training has is not known",
    "how much time is lost between epochs?": "How much time passes between epochs is not stated",
    "how long does a checkpoint take?": "No line of the job's output was read that says that a state is saved",
    "was the run restarted?": "the step number never falls",
    "does the log contain errors?": "Other errors and warnings are not read",
}


@pytest.mark.parametrize(("question", "said"), UNKNOWN.items())
def test_what_no_line_states_is_said_to_be_unknown_without_the_diagnosis(ask: Ask, question: str, said: str) -> None:
    lines = [f"step {at} loss 2.0 step_time {0.2 + at % 2 / 100} s" for at in range(1, 40)]
    answer = ask(lines, question)
    assert said in answer
    assert "A step takes" not in answer


def test_a_job_without_steps_does_not_answer_for_the_time_of_one_with_its_memory(ask: Ask) -> None:
    error = (
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
        "23.65 GiB of which 1.00 GiB is free. Process 77 has 22.60 GiB memory in use. Of the allocated memory 22.00 "
        "GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated."
    )
    said = ask([error], "how long is a step on average?")
    assert "ran out" not in said
    assert "cannot be measured" in said


def test_what_is_not_understood_is_named_with_its_line(ask: Ask) -> None:
    lines = ["Num iters : 9000", *counted(40, lambda at: 100.0 + at % 3), "VRAM : 79.2 GB of 80.0"]
    assert "Line 1 (`Num iters`) may state it, in a form that is not read." in ask(lines, "how long will it take?")
    assert "Line 42 (`VRAM`) may state it" in ask(lines, "how much device memory is used?")
    assert "may state it" not in ask(lines[1:-1], "how much device memory is used?")
