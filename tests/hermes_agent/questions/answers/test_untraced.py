"""Answers about one part of a run without a trace: what its lines state of it, and else the one recording for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.questions.answers.sampled_figures import CPU
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.intents import reply
from tests.hermes_agent.questions.discussed import discuss, unsupported
from tests.tools.analyzers.test_job_output import profile_of
from tests.tools.sources.job_log.logs import megatron
from tools.sources.load import load_run
from tools.views.profile import Profile

WAITS = "".join(
    f"iter: {20 * at - 1}  total_loss: 1.0  time: 0.5000  data_time: 0.{50 + at % 3:04d}\n" for at in range(1, 41)
)
LOADING = (
    "How much of the time goes to data loading?",
    "What share of the step is data loading?",
    "How much time is lost to the dataloader?",
    "data loading time per step?",
    "what percentage of time is spent loading data?",
)
SAMPLES = "index, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W]\n" + "".join(
    f"{device}, {use} %, 70000 MiB, 81920 MiB, {power} W\n"
    for _ in range(20)
    for device, use, power in ((0, 3, 70), (1, 99, 380))
)


def timed(folder: Path) -> Discussion:
    """Steps of 1,000 ms with 280 ms of gradient synchronization."""
    head = "(min, max) time across ranks (ms):\n"
    rows = "    forward-compute ................................: (400.00, 410.00)\n"
    rows += "    all-grads-sync .................................: (270.00, 280.00)\n"
    text = "".join(megatron((step, 1000.0 + step % 2)) + head + rows for step in range(1, 21))
    return discuss(profile_of(folder, text))


@pytest.mark.parametrize("question", LOADING)
def test_the_wait_for_data_that_lines_state_answers_how_much_loading_takes(tmp_path: Path, question: str) -> None:
    lines = "".join(
        f"[11/19 08:55:06] d2.utils.events INFO:  eta: 2:00:00  {line}\n" for line in WAITS.splitlines()
    ).replace("data_time: 0.005", "data_time: 0.1")
    discussion = discuss(profile_of(tmp_path, lines))
    text = reply(discussion, question).text
    assert "for data" in text.lower()
    assert "%" in text
    assert unsupported(text, discussion) == []
    assert "no trace was read" not in text


def test_timers_answer_for_the_part_that_they_name(tmp_path: Path) -> None:
    discussion = timed(tmp_path)
    for question in ("How much of the step is communication?", "How long do all-reduces take?"):
        text = reply(discussion, question).text
        assert "`all-grads-sync`" in text
        assert "forward-compute" not in text
    assert "`forward-compute`" in reply(discussion, "How long is the forward pass?").text


@pytest.mark.parametrize(
    ("question", "command"),
    [
        ("Is a GPU throttling?", "nvidia-smi --query-gpu="),
        ("How busy are the GPUs?", "nvidia-smi --query-gpu="),
        ("Could it be the network?", "NCCL_DEBUG=INFO"),
        ("Is it CPU bound?", "py-spy"),
        ("How busy is the CPU?", "sar -A"),
        ("How much time goes to the optimizer?", "torch.profiler.profile("),
    ],
)
def test_what_no_line_states_needs_the_one_cheapest_recording_with_its_command(
    tmp_path: Path, question: str, command: str
) -> None:
    text = reply(timed(tmp_path), question).text
    assert text.count("What it needs") == 1
    assert command in text
    assert "computes on the CPU" not in text


def test_numbers_of_gpus_are_those_of_sampled_devices(tmp_path: Path) -> None:
    path = tmp_path / "gpus.csv"
    path.write_text(SAMPLES)
    discussion = discuss(Profile(load_run([path])))
    assert "device 0" in reply(discussion, "why is GPU 0 idle?").text
    assert reply(discussion, "why is GPU 7 idle?").text.startswith("No such device was sampled")


def test_a_rank_of_lines_that_name_none_is_not_missing(tmp_path: Path) -> None:
    assert "has no such rank" not in reply(timed(tmp_path), "why is rank 7 slow?").text


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ("is the cpu busy", True),
        ("how busy are the cores", True),
        ("are tensor cores used", False),
        ("how much host memory is used", False),
        ("is the memory of the host full", False),
    ],
)
def test_how_busy_processors_are_is_not_asked_of_tensor_cores_or_memory(words: str, asked: bool) -> None:
    assert bool(CPU.search(words)) is asked
