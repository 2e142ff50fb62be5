"""Waiting for data, on made-up and on real runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from tests.asked import asking
from tests.real_runs import real_profile
from tests.synthetic import RankBuilder, profile_of
from tools.findings import Finding
from tools.knowledge.thresholds import Thresholds
from tools.metrics.registry import measure
from tools.run.events import EventKind
from tools.run.recorded.host_stacks import HostStacks
from tools.views.profile import Profile
from tools.whatif.change import Scale

analyze = asking("io.data_loader", "io.upload")

SINGLE = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def loading_rank(wait_us: float, name: str = SINGLE, number: int = 0, steps: int = 4) -> RankBuilder:
    """Steps of a loader span, then a kernel of one millisecond."""
    rank = RankBuilder(rank=number)
    length = wait_us + 1002
    for step in range(steps):
        at = step * length
        rank.annotation(name, at, wait_us)
        rank.kernel("kernel", start_us=at + wait_us + 2, duration_us=1000, call_us=at + wait_us)
        rank.step(step, at, at + length)
    return rank


def data_finding(*ranks: RankBuilder) -> Finding:
    (finding,) = analyze(profile_of(*ranks))[0].findings
    return finding


def test_a_single_process_loader_that_starves_the_device_is_slow_processing() -> None:
    finding = data_finding(loading_rank(1000))
    assert (finding.cause, finding.mechanism) == ("slow_data_processing", "too_few_workers")
    amount, share = finding.claim.facts
    assert amount.value == pytest.approx(1.0)
    assert share.value == pytest.approx(100 * 1000 / 2002)
    assert "single-process loader" in finding.signals
    assert finding.steps == (0, 1, 2, 3)


def test_the_change_removes_the_spans_on_the_training_thread_and_cautiously_half() -> None:
    (change,) = data_finding(loading_rank(1000)).change
    assert isinstance(change, Scale)
    assert (change.rank, change.track, change.factor, change.cautious_factor) == (0, 0, 0.0, 0.5)
    assert (change.intervals[:, 1] - change.intervals[:, 0]).tolist() == [1_000_000] * 4


def test_a_loader_hidden_behind_kernels_is_clean() -> None:
    rank = RankBuilder()
    rank.kernel("long", start_us=2, duration_us=998, call_us=0)
    rank.annotation(SINGLE, 2, 900)
    rank.step(0, 0, 1000)
    check = analyze(profile_of(rank))[0]
    assert check.status == "clean"
    wait, _, spans = check.support[0].facts
    assert wait.value == pytest.approx(0.0)
    assert spans.value == pytest.approx(0.9)


def test_workers_leave_open_whether_reading_or_processing_is_slow() -> None:
    finding = data_finding(loading_rank(1000, WORKERS))
    assert (finding.cause, finding.mechanism) == ("slow_data_processing", "unexplained_wait")
    assert finding.confidence == pytest.approx(0.7)
    assert "slow reading" in finding.against[0].template


def on_host(wait_us: float, name: str, step_us: float = 40_000.0) -> RankBuilder:
    """Steps of a processor that begin with a call of the loader."""
    rank = RankBuilder(device=None)
    for step in range(4):
        rank.annotation(name, step * step_us, wait_us)
        rank.operator("aten::mm", step * step_us + wait_us, step_us - wait_us - 10)
        rank.step(step, step * step_us, (step + 1) * step_us)
    return rank


def test_a_batch_that_is_handed_over_by_a_busy_worker_is_not_waited_for() -> None:
    finding = data_finding(on_host(5_000, WORKERS))
    assert finding.confidence < 0.5
    assert "handing over a batch that is ready" in finding.claim.template
    assert data_finding(on_host(8_000, WORKERS)).confidence > 0.5
    assert data_finding(loading_rank(1000, WORKERS)).confidence > 0.5  # a device waits whatever takes the time


def test_one_long_wait_of_several_steps_is_a_hypothesis() -> None:
    rank = RankBuilder(device=None)
    for step, wait_us in enumerate((1_800.0, 1_800.0, 10_200.0)):
        rank.annotation(WORKERS, step * 50_000, wait_us)
        rank.operator("aten::mm", step * 50_000 + wait_us, 39_000)
        rank.step(step, step * 50_000, (step + 1) * 50_000)
    profile = profile_of(rank)
    (finding,) = analyze(profile)[0].findings
    assert finding.confidence < 0.5
    assert measure(profile, "loader_wait_steps", rank=0).value == 1


def test_on_processors_workers_give_back_half_of_a_loader_in_the_training_process() -> None:
    assert data_finding(on_host(3_600, SINGLE)).confidence < 0.5  # 9 %: cautiously 4.5 %
    assert data_finding(on_host(4_400, SINGLE)).confidence > 0.5


def test_operators_that_fill_the_loader_show_processing() -> None:
    rank = loading_rank(1000)
    for step in range(4):
        rank.operator("aten::upsample_bicubic2d", step * 2002 + 10, 900)
    finding = data_finding(rank)
    assert finding.confidence > 0.85
    assert not finding.against


def test_operators_in_the_training_process_despite_workers_are_a_heavy_transform() -> None:
    rank = loading_rank(1000, WORKERS)
    for step in range(4):
        rank.operator("aten::upsample_bicubic2d", step * 2002 + 10, 900)
    assert data_finding(rank).mechanism == "heavy_transform"


def test_python_frames_that_read_files_show_slow_reading() -> None:
    rank = loading_rank(1000)
    for step in range(4):
        rank.event(EventKind.PYTHON, "<built-in function read>", step * 2002 + 10, 900)
    finding = data_finding(rank)
    assert finding.cause == "slow_data_reading"
    assert any(sentence.facts[0].value == pytest.approx(90.0) for sentence in finding.details if sentence.facts)


def test_only_the_rank_that_waits_carries_the_finding() -> None:
    finding = data_finding(loading_rank(0.5, number=0), loading_rank(1000, number=1))
    assert finding.ranks == (1,)
    assert "on some ranks only." in finding.claim.template


def test_a_wait_in_one_step_of_many_is_less_certain_than_one_in_all() -> None:
    once = loading_rank(1000, steps=1)
    for step in range(1, 4):
        at = 2002 + (step - 1) * 1002
        once.kernel("kernel", start_us=at + 2, duration_us=1000, call_us=at)
        once.step(step, at, at + 1002)
    assert data_finding(once).confidence < data_finding(loading_rank(1000)).confidence
    assert data_finding(once).steps == (0,)


def test_on_a_rank_without_a_device_the_span_itself_is_the_wait() -> None:
    rank = RankBuilder(device=None)
    rank.annotation(SINGLE, 0, 600)
    rank.operator("aten::add", 600, 400)
    rank.step(0, 0, 1000)
    finding = data_finding(rank)
    assert finding.claim.facts[1].value == pytest.approx(60.0)
    assert finding.claim.template.startswith("The training thread waits")


def test_without_a_loader_span_a_starving_device_leaves_the_question_open() -> None:
    rank = RankBuilder()
    rank.kernel("kernel", start_us=502, duration_us=500, call_us=500)
    rank.step(0, 0, 1002)
    check = analyze(profile_of(rank))[0]
    assert check.status == "cannot_answer"
    assert "record_function" in check.needs


def test_without_a_loader_span_a_device_that_never_waits_for_the_host_is_clean() -> None:
    rank = RankBuilder()
    rank.kernel("kernel", start_us=2, duration_us=998, call_us=0)
    rank.step(0, 0, 1000)
    assert analyze(profile_of(rank))[0].status == "clean"


@pytest.mark.parametrize(
    ("kind", "mechanism"), [("Pageable -> Device", "pageable_copy"), ("Pinned -> Device", "no_prefetch")]
)
def test_uploads_that_nothing_hides_are_slow_fetching(kind: str, mechanism: str) -> None:
    rank = RankBuilder()
    for step in range(3):
        at = 1000 * step
        rank.copy(f"Memcpy HtoD ({kind})", start_us=at + 10, duration_us=290, call_us=at, call_duration_us=299)
        rank.kernel("kernel", start_us=at + 302, duration_us=690, call_us=at + 300)
        rank.step(step, at, at + 1000)
    (finding,) = analyze(profile_of(rank))[1].findings
    assert (finding.cause, finding.mechanism) == ("slow_data_fetching", mechanism)
    assert finding.claim.facts[1].value == pytest.approx(29.0)


def test_uploads_behind_kernels_are_clean() -> None:
    rank = RankBuilder()
    side = rank.device_stream(20)
    rank.kernel("kernel", start_us=2, duration_us=998, call_us=0)
    rank.copy("Memcpy HtoD (Pinned -> Device)", start_us=10, duration_us=500, call_us=5, stream=side)
    rank.step(0, 0, 1000)
    assert analyze(profile_of(rank))[1].status == "clean"


def test_the_resnet_run_without_workers_waits_59_ms_per_step_for_data(traces: Path) -> None:
    profile = real_profile(traces / "kineto" / "resnet50_workers0.pt.trace.json.gz")
    (finding,) = analyze(profile)[0].findings
    assert (finding.cause, finding.mechanism) == ("slow_data_processing", "too_few_workers")
    assert finding.claim.facts[0].value == pytest.approx(59.3, abs=0.1)
    assert finding.claim.facts[1].value == pytest.approx(33.37, abs=0.1)
    spans = measure(profile, "loader_span_ms", rank=0)
    step = measure(profile, "step_time_ms", statistic="mean")
    assert 100 * spans.value / step.value == pytest.approx(39.6, abs=0.6)  # the raw share, hidden time included


def test_the_same_run_with_four_workers_has_no_data_problem(traces: Path) -> None:
    profile = real_profile(traces / "kineto" / "resnet50_workers4.pt.trace.json.gz")
    checks = analyze(profile)
    assert [check.status for check in checks] == ["clean", "clean"]
    assert checks[0].support[0].facts[0].value == pytest.approx(1.19, abs=0.05)


FETCH = "torch/utils/data/_utils/fetch.py(54): fetch"


def collating(kind: EventKind, *names: str, share: float = 0.9) -> RankBuilder:
    """A loader in the training process that spends that share of its time in these nested frames or spans."""
    rank = loading_rank(1000)
    for step in range(4):
        for depth, name in enumerate(names):
            at, length = step * 2002 + 10 + depth, 1000 * share - 2 * depth
            if kind == EventKind.PYTHON:
                rank.event(kind, name, at, length)
            else:
                rank.annotation(name, at, length)
    return rank


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (EventKind.PYTHON, (FETCH, "words.py(9): look_up", "words.py(10): <listcomp>")),
        (EventKind.ANNOTATION, ("words.py(9): look_up",)),
    ],
)
def test_a_function_or_span_that_fills_the_loader_is_named_with_its_share(
    kind: EventKind, names: tuple[str, ...]
) -> None:
    claim = data_finding(collating(kind, *names)).claim
    assert claim.names == ("words.py(9): look_up",)
    assert claim.template.endswith("{2} of the loader's time is in {n0}.")
    assert claim.facts[2].value == pytest.approx(90.0, abs=0.5)


def test_frames_of_libraries_and_of_a_small_part_name_nothing_and_both_possibilities_are_stated() -> None:
    of_torch = collating(EventKind.PYTHON, FETCH, "<built-in method index>")
    watched = collating(EventKind.PYTHON, "train.py(25): <module>", "hermes_agent/monitor/hooks.py(161): fetch")
    for rank in (of_torch, watched, collating(EventKind.PYTHON, "words.py(9): look_up", share=0.3), loading_rank(1000)):
        claim = data_finding(rank).claim
        assert not claim.names
        assert "`__getitem__`, the collate function) is not recorded: `py-spy record" in claim.template
    assert "py-spy" not in data_finding(loading_rank(1000, WORKERS)).claim.template


def test_sampled_stacks_name_the_function_where_the_trace_has_no_frames() -> None:
    fetch = "fetch (/env/site-packages/torch/utils/data/_utils/fetch.py:54)"
    stacks = (
        ("main (train.py:30)", fetch, "look_up (/data/words.py:10)"),
        ("main (train.py:30)", "forward (net.py:4)"),
    )
    rows = pd.DataFrame({"rank": 0, "pid": 1, "file": 0, "stack": [0, 1], "thread": "MainThread", "main": True})
    stacks_of = HostStacks(rows.assign(samples=[400.0, 600.0], seconds=float("nan")), stacks, ("stacks.txt",))
    run = replace(profile_of(loading_rank(1000)).run, host_stacks=stacks_of)
    (finding,) = analyze(Profile(run, Thresholds({})))[0].findings
    assert finding.claim.names == ("look_up (words.py:10)",)
    assert finding.claim.facts[2].value == pytest.approx(100.0)
