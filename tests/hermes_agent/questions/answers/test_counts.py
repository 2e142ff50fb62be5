"""Numbers of events, percentiles of calls, rates and comparisons, against figures by hand or from the JSON."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from hermes_agent.demo.data import demo_run
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.intents import reply
from tests.hermes_agent.questions import discussed
from tests.hermes_agent.questions.discussed import unsupported
from tests.synthetic import RankBuilder, profile_of
from tools.metrics.calls import call_ms, call_phase_pct, kind_count, kind_ms
from tools.metrics.communication.collectives import collective_busy_ms, collective_bytes, collective_ms
from tools.sources.load import load_run
from tools.views.profile import Profile

LENGTHS_US = ((1_000, 2_000, 3_000), (1_000, 2_000, 3_000), (1_000, 2_000, 9_000))
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


@pytest.fixture(scope="module")
def steps() -> Discussion:
    """Three steps of 10, 10 and 20 ms with a copy of 100 us and kernels of 1, 2 and 3 ms; the last one takes 9 ms."""
    rank = RankBuilder(0)
    at_us = 0.0
    for number, lengths in enumerate(LENGTHS_US):
        begin_us, end_us = at_us, at_us + (20_000 if number == 2 else 10_000)
        at_us += 50
        for kernel, length_us in enumerate(lengths):
            rank.kernel(f"kernel_{kernel}", at_us, length_us, call_us=begin_us + kernel + 1)
            at_us += length_us
        rank.step(number, begin_us, end_us)
        at_us = end_us
    return discussed.discuss(profile_of(rank))


@pytest.fixture(scope="module")
def demo() -> Profile:
    return Profile(load_run([demo_run()]))


def events(path: Path) -> list[dict[str, object]]:
    """The events of a trace with a length, read by nothing of ours."""
    with gzip.open(path) as file:
        return [each for each in json.load(file)["traceEvents"] if each.get("ph") == "X"]


def test_kernels_are_counted_and_those_shorter_than_the_limit_left_out(steps: Discussion) -> None:
    assert "| rank 0 | 3 [" in reply(steps, "how many kernels per step?").text
    longer = reply(steps, "kernels longer than 2.5 ms").text
    assert "Kernels longer than 2.5 ms" in longer
    assert "| rank 0 | 1 [" in longer
    assert "kernel_1" not in longer
    assert "no kernels longer than 90 ms" in reply(steps, "kernels over 90 ms").text


def test_more_lists_the_next_names_of_a_count(steps: Discussion) -> None:
    first, second = (reply(steps, "how many kernels per step?", page).text for page in range(2))
    assert "kernel_2" in first
    assert second == "There are no further rows."  # three names fit on one page


def test_percentiles_are_those_of_the_calls_that_are_named(steps: Discussion) -> None:
    answer = reply(steps, "p50 and p99 of `kernel_2`")
    assert {each.metric for each in answer.evidence} == {"call_ms"}
    assert "takes 3.00 ms" in answer.text  # of 3, 3 and 9 ms
    assert "longest 9.00 ms" in answer.text


def test_steps_per_second_are_one_over_the_mean_step_and_samples_are_refused(steps: Discussion) -> None:
    text = reply(steps, "how many samples per second?").text
    assert "75.0 steps/s" in text  # 3 steps in 40 ms
    assert "No batch size was read from this run, so samples per second are not computed" in text


def test_first_and_last_step_are_those_of_the_recording(steps: Discussion) -> None:
    text = reply(steps, "compare the first with the last step").text
    assert "Step 0 takes 10.0 ms" in text
    assert "step 2 takes 20.0 ms" in text


def test_what_changed_at_a_step_is_said_against_the_one_before(steps: Discussion) -> None:
    text = reply(steps, "what changed at step 2?").text
    assert "step 2 minus step 1" in text
    assert "| 3.00 | 9.00 | +6 | `kernel_2` |" in text
    assert "the first that was recorded" in reply(steps, "what changed at step 0?").text


def test_an_operation_ends_with_the_sum_of_all_its_names() -> None:
    rank = RankBuilder(0)
    for number in range(4):
        begin_us = number * 10_000.0
        for place, (name, length_us) in enumerate((("sgemm_64", 500), ("sgemm_128", 700), ("fbgemm_permute", 900))):
            rank.kernel(name, begin_us + 100 + 1_000 * place, length_us, call_us=begin_us + 10 + place)
        rank.step(number, begin_us, begin_us + 10_000)
    text = reply(discussed.discuss(profile_of(rank)), "how much time in GEMMs?").text
    assert "| sum | 1.20 | 8 |" in text
    assert "fbgemm" not in text


@pytest.mark.parametrize(
    ("question", "begins"),
    [
        ("is this run healthy?", "No, this run has a problem."),
        ("is everything ok", "No, this run has a problem."),
        ("is my training slow?", "Yes, there is something to fix."),
    ],
)
def test_a_question_for_yes_or_no_about_the_run_begins_with_it(question: str, begins: str) -> None:
    assert reply(discussed.slow_loader(), question).text.startswith(begins)


def test_the_network_is_not_suspected_where_ranks_wait_for_one() -> None:
    late = discussed.late_rank()
    answer = reply(late, "is it the network?")
    assert answer.text.startswith("Mostly not the network")
    assert "of the waiting is for rank 2" in answer.text
    assert unsupported(answer.text, late) == []


@pytest.mark.parametrize(
    "question", ["what is the gpu temperature?", "whats the loss", "how long is an epoch?", "how often is it saved?"]
)
def test_what_was_not_recorded_is_said_so(steps: Discussion, question: str) -> None:
    assert "not known" in reply(steps, question).text


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("what is a kernel?", "one function that runs on the device"),
        ("what does data wait mean?", "waits for its data"),
    ],
)
def test_a_word_of_the_field_is_explained(steps: Discussion, question: str, said: str) -> None:
    assert said in reply(steps, question).text


def test_both_of_two_suspicions_are_answered() -> None:
    text = reply(discussed.slow_loader(), "is it the network or the data loader?").text
    assert "Not the network" in text
    assert "Data input has a part in it." in text


@pytest.mark.parametrize(
    ("question", "count"),
    [
        ("how many kernels shorter than 2 ms", 3),
        ("kernels under 2.5 ms", 6),
        ("how many kernels are at most 2 ms long", 6),
        ("kernels faster than 3 milliseconds", 6),
        ("how many kernels between 2 and 3 ms", 5),
        ("kernels over 3 ms", 1),
        ("kernels of 3 ms or more", 3),
        ("kernels no longer than 3 ms", 8),
        ("wie viele kernel sind kürzer als 2,5 ms", 6),
        ("有多少个kernel小于2毫秒", 3),
        ("how many kernels longer than 1 ms and under 9000 us", 5),
    ],
)
def test_a_length_bounds_on_the_side_that_is_named(steps: Discussion, question: str, count: int) -> None:
    answer = reply(steps, question).text
    found = re.search(r"\| rank 0 \| ([\d.]+) \[", answer)
    assert found is not None, answer
    assert float(found[1]) == pytest.approx(count / 3, abs=0.05)
    assert unsupported(answer, steps) == []


def test_steps_and_names_are_bounded_by_a_length_as_well(steps: Discussion) -> None:
    assert "Of 3 traced steps of the slowest rank, 1 is longer than 15 ms" in reply(steps, "steps over 15 ms").text
    assert "2 are shorter than 15 ms" in reply(steps, "which steps are faster than 15 ms").text
    named = reply(steps, "`kernel_2` calls under 5 ms").text
    assert "in all recorded steps: 2 (2 on rank 0)" in named
    assert "longer or shorter is meant" in reply(steps, "how many kernels take 5 us").text


def test_collectives_of_a_kind_are_bounded_by_a_length(demo: Profile) -> None:
    discussion = discussed.discuss(demo)
    answer = reply(discussion, "how many all_reduces are under 5 ms on rank 1").text
    lengths_us = [
        float(str(each["dur"]))
        for each in events(demo_run() / "rank1.pt.trace.json.gz")
        if each["name"] == "gloo:all_reduce"
    ]
    short = sum(each < 5000 for each in lengths_us)
    assert 0 < short < len(lengths_us)
    assert f"in all recorded steps: {short} ({short} on rank 1)" in answer


def test_percentiles_are_of_the_kind_that_is_named(steps: Discussion) -> None:
    lengths_us = sorted(each for step in LENGTHS_US for each in step)
    answer = reply(steps, "p99 of all kernels")
    assert answer.intent == "percentile"
    median, *_, longest = (each.value for each in answer.evidence)
    assert median * 1e3 == lengths_us[len(lengths_us) // 2]
    assert longest * 1e3 == lengths_us[-1]
    assert "step time" not in answer.text
    assert reply(steps, "median kernel duration").evidence[0].value * 1e3 == lengths_us[len(lengths_us) // 2]


def test_a_name_is_looked_for_on_all_ranks() -> None:
    builders = []
    for number in (0, 1):
        rank = RankBuilder(number)
        for step in range(4):
            start_us = step * 10_000.0
            rank.operator("aten::mm", start_us + 10, 5_000 if number else 2_000)
            if number == 0 and step < 3:
                rank.operator("aten::item", start_us + 6_000, 100)
            rank.step(step, start_us, start_us + 10_000)
        builders.append(rank)
    discussion = discussed.discuss(profile_of(*builders))
    for question in ("how often is aten::item called", "how many .item() calls"):
        answer = reply(discussion, question)
        assert 0.75 in [each.value for each in answer.evidence], answer.text
        assert "In the steps of rank 1 there is no such call." in answer.text


def test_python_functions_that_were_not_recorded_are_not_replaced_by_operators(steps: Discussion) -> None:
    assert "with_stack=True" in reply(steps, "what python function takes most time").text


def test_a_collective_is_found_by_its_length_and_place(traces: Path) -> None:
    folder = traces / "param/dlrm_8rank"
    if not folder.exists():
        pytest.skip("no public DLRM trace")
    discussion = discussed.discuss(Profile(load_run([folder])))
    longest_us = max(
        float(str(each["dur"]))
        for path in folder.glob("worker*.pt.trace.json.gz")
        for each in events(path)
        if "SendRecv" in str(each["name"]) and str(each.get("cat")).lower() == "kernel"
    )
    answer = reply(discussion, "longest alltoall")
    assert answer.intent == "single_collective"
    assert answer.evidence[0].value * 1e3 == pytest.approx(longest_us)
    assert answer.evidence[0].ranks == [1]
    assert reply(discussion, "which rank arrives last at the first alltoall").text.startswith("Rank 7 arrives last")
    assert "is not measured" in reply(discussion, "time between end of backward and first allreduce").text
    assert "3.40 %" in reply(discussion, "is comm hidden behind compute?").text
    portrait = reply(discussion, "why is rank 0 slow").text
    assert "On rank 7:" not in portrait
    assert "Found on it as on" in portrait


def test_tensor_cores_are_not_answered_by_how_busy_the_device_is(steps: Discussion) -> None:
    assert "runs kernels for" not in reply(steps, "what is the tensor core utilization?").text


def test_an_unknown_question_brings_no_cases(steps: Discussion) -> None:
    assert reply(steps, "what is a flux capacitor?").text.endswith("`help` lists all of them.")


def test_collectives_of_the_demo_run_count_once_in_wall_time(demo: Profile) -> None:
    for rank in (0, 1):
        found = [
            each for each in events(demo_run() / f"rank{rank}.pt.trace.json.gz") if each["name"] == "gloo:all_reduce"
        ]
        spans = sorted((float(str(each["ts"])), float(str(each["ts"])) + float(str(each["dur"]))) for each in found)
        whole_us = end = 0.0
        for start, stop in spans:
            whole_us += max(stop - max(start, end), 0.0)
            end = max(end, stop)
        total_us = sum(stop - start for start, stop in spans)
        assert collective_busy_ms(demo, rank=rank).value == pytest.approx(whole_us / 1e3 / 5, rel=1e-3)
        assert collective_ms(demo, rank=rank).value == pytest.approx(total_us / 1e3 / 5, rel=1e-3)
        shapes = [json.loads(json.dumps(each["args"]))["Input Dims"][0][0] for each in found]
        assert collective_bytes(demo, rank=rank).value == pytest.approx(4 * sum(shapes) / 5)


def test_most_of_the_convolutions_of_the_demo_run_are_the_loaders(demo: Profile) -> None:
    every = events(demo_run() / "rank1.pt.trace.json.gz")
    loader = [(float(str(e["ts"])), float(str(e["ts"])) + float(str(e["dur"]))) for e in every if e["name"] == LOADER]
    calls = [each for each in every if each["name"] == "aten::mkldnn_convolution"]
    inside = sum(
        float(str(e["dur"])) for e in calls if any(start <= float(str(e["ts"])) < stop for start, stop in loader)
    )
    share = 100.0 * inside / sum(float(str(each["dur"])) for each in calls)
    found = call_phase_pct(demo, 1, "aten::mkldnn_convolution", "data").value
    assert found == pytest.approx(share, rel=0.01)
    assert found > 50


def test_kernels_and_copies_of_a_real_rank_are_as_many_as_in_its_file(traces: Path) -> None:
    path = traces / "param/dlrm_8rank/worker1.pt.trace.json.gz"
    if not path.exists():
        pytest.skip("no public DLRM trace")
    profile = Profile(load_run([path]))
    (rank,) = profile.run.rank_numbers
    kernels = [float(str(e["dur"])) for e in events(path) if str(e.get("cat")).lower() == "kernel"]
    copies = [e for e in events(path) if "HtoD" in str(e["name"]) and "memcpy" in str(e.get("cat")).lower()]
    assert kind_count(profile, rank, "kernel").value == len(kernels)
    assert kind_count(profile, rank, "kernel", min_us=1e3).value == sum(each >= 1e3 for each in kernels)
    assert kind_count(profile, rank, "memcpy", "HtoD").value == len(copies)
    assert kind_ms(profile, rank, "kernel", min_us=1e3).value == pytest.approx(
        sum(each for each in kernels if each >= 1e3) / 1e3
    )
    calls = sorted(float(str(e["dur"])) for e in events(path) if e["name"] == "aten::mm")
    assert call_ms(profile, rank, "aten::mm").value * 1e3 == pytest.approx(calls[len(calls) // 2])


def test_a_jobs_log_is_asked_before_something_is_called_unknown(traces: Path) -> None:
    path = traces / "logs/megatron_gpt2_206B_tp4_pp64.out"
    if not path.exists():
        pytest.skip("no public Megatron log")
    discussion = discussed.discuss(Profile(load_run([path])))
    line = re.compile(r"elapsed time per iteration \(ms\): ([\d.]+).*?global batch size: +(\d+)")
    stated = [(float(found[1]), float(found[2])) for found in line.finditer(path.read_text(errors="replace"))]
    rates = [1e3 * samples / wall_ms for wall_ms, samples in stated]
    answer = reply(discussion, "samples per second?")
    assert "not recorded" not in answer.text
    assert min(rates[1:]) <= answer.evidence[0].value <= max(rates[1:])
    assert "does not read losses" in reply(discussion, "what is the loss?").text
    assert "tp=4" in reply(discussion, "tensor parallel size?").text


def test_a_prediction_is_found_by_the_words_of_the_advice() -> None:
    discussion = discussed.slow_loader()
    for item in discussion.diagnosis.advice:
        answer = reply(discussion, f"would it help to {item.optimization.rstrip('.').lower()}").text
        assert f"[{item.id}]" in answer
        assert not item.text or item.text in answer
    assert "not predicted" in reply(discussion, "would bananas help").text
