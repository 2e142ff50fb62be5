"""Where the steps of a rank begin and end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.tools.sources.kineto_text import JsonEvent, kernel, launch, rank_info, span, write_trace
from tools.judgement.verdict import judge_steps, outside_steps_rank
from tools.metrics.registry import measure
from tools.run.events import EventKind
from tools.run.model import StepOrigin
from tools.sources.load import load_run
from tools.sources.options import LoadOptions
from tools.views.profile import Profile

StepRow = tuple[int, float, float]


def mark(name: str, ts: float, dur: float, **more: object) -> JsonEvent:
    return span(name, ts, dur, "user_annotation", **more)


def steps(tmp_path: Path, events: list[JsonEvent]) -> tuple[StepOrigin, list[StepRow]]:
    """The steps in microseconds from 1000."""
    path = write_trace(tmp_path / "t.json", [span("begin", 1000, 1), *events])
    (rank,) = load_run([path], LoadOptions(workers=1)).ranks
    return rank.step_origin, [(step.number, step.start_ns / 1e3, step.end_ns / 1e3) for step in rank.steps]


def test_a_profiler_step_lasts_until_the_next_begins(tmp_path: Path) -> None:
    found = steps(tmp_path, [mark("ProfilerStep#7", 1010, 90), mark("ProfilerStep#8", 1103, 95)])

    assert found == ("profiler_step", [(7, 10, 103), (8, 103, 198)])


def test_the_last_step_lasts_until_the_device_has_done_what_it_launched(tmp_path: Path) -> None:
    events = [
        mark("ProfilerStep#1", 1010, 90),
        mark("ProfilerStep#2", 1100, 100),
        launch(1150, 5, 1),
        kernel("inside", 1180, 40, 1),
        launch(1220, 5, 2),
        kernel("launched after the step", 1300, 100, 2),
    ]

    assert steps(tmp_path, events)[1] == [(1, 10, 100), (2, 100, 220)]


def test_a_backlog_of_several_steps_is_not_counted_to_the_last(tmp_path: Path) -> None:
    events = [
        mark("ProfilerStep#1", 1010, 90),
        mark("ProfilerStep#2", 1100, 100),
        launch(1150, 5, 1),
        kernel("far behind the host", 1460, 140, 1),
    ]

    assert steps(tmp_path, events)[1] == [(1, 10, 100), (2, 100, 200)]


def test_a_host_that_runs_whole_steps_ahead_leaves_the_steps_to_the_device(tmp_path: Path) -> None:
    events = [
        mark("ProfilerStep#1", 1010, 90),
        launch(1020, 5, 1),
        kernel("of step 1", 1310, 150, 1),
        mark("ProfilerStep#2", 1100, 100),
        launch(1110, 5, 2),
        kernel("of step 2", 1470, 160, 2),
        kernel("launched before the recording", 1030, 250, 99),
    ]

    assert steps(tmp_path, events) == ("profiler_step", [(1, 310, 470), (2, 470, 630)])
    view = Profile(load_run([tmp_path / "t.json"], LoadOptions(workers=1))).ranks[0]
    assert view.host_steps.to_numpy().tolist() == [[1, 10_000, 100_000], [2, 100_000, 200_000]]
    assert view.names(view.in_steps(view.kernels)) == ["of step 1", "of step 2"]
    assert view.step_of(np.flatnonzero(view.kind == EventKind.RUNTIME)).tolist() == [1, 2]
    assert view.backlog_ns == 270_000


def test_a_single_step_lasts_until_its_work_is_done_however_far_behind_the_device_is(tmp_path: Path) -> None:
    events = [mark("ProfilerStep#2", 1100, 100), launch(1150, 5, 1), kernel("far behind the host", 1460, 140, 1)]

    assert steps(tmp_path, events)[1] == [(2, 100, 600)]


def test_device_work_of_unknown_launch_counts_by_its_own_start(tmp_path: Path) -> None:
    events = [mark("ProfilerStep#1", 1010, 90), kernel("within", 1090, 40, -1), kernel("after", 1120, 400, -1)]

    assert steps(tmp_path, events)[1] == [(1, 10, 130)]


def test_a_step_before_a_pause_of_the_profiler_ends_with_its_own_work(tmp_path: Path) -> None:
    events = [
        mark("ProfilerStep#1", 1000, 100),
        mark("ProfilerStep#2", 1100, 100),
        launch(1150, 5, 1),
        kernel("late", 1190, 30, 1),
        mark("ProfilerStep#5", 1500, 100),
        mark("ProfilerStep#6", 1600, 100),
    ]

    assert steps(tmp_path, events)[1] == [(1, 0, 100), (2, 100, 220), (5, 500, 600), (6, 600, 700)]


def test_a_short_hole_with_skipped_numbers_is_a_pause_and_without_them_is_none(tmp_path: Path) -> None:
    skipped = [mark("ProfilerStep#1", 1000, 100), mark("ProfilerStep#4", 1150, 100)]
    counted = [mark("ProfilerStep#1", 1000, 100), mark("ProfilerStep#2", 1150, 100)]

    assert steps(tmp_path, skipped)[1][0] == (1, 0, 100)
    assert steps(tmp_path, counted)[1][0] == (1, 0, 150)


def test_marks_on_the_device_are_no_steps(tmp_path: Path) -> None:
    device = span("ProfilerStep#1", 1500, 900, "gpu_user_annotation", pid=0, tid=7, args={"device": 0, "stream": 7})

    assert steps(tmp_path, [device, mark("ProfilerStep#1", 1010, 90)])[1] == [(1, 10, 100)]


def test_of_several_threads_the_one_with_most_steps_counts(tmp_path: Path) -> None:
    events = [mark("ProfilerStep#1", 1000, 500, tid=7)]
    events += [mark("ProfilerStep#1", 1010, 90), mark("ProfilerStep#2", 1100, 90)]

    assert steps(tmp_path, events)[1] == [(1, 10, 100), (2, 100, 190)]


def test_numbers_that_start_again_are_counted_on(tmp_path: Path) -> None:
    events = [mark("ProfilerStep#3", 1000, 100), mark("ProfilerStep#4", 1100, 100), mark("ProfilerStep#3", 1200, 100)]

    assert [number for number, _, _ in steps(tmp_path, events)[1]] == [3, 4, 5]


def test_without_profiler_steps_a_repeating_annotation_marks_them(tmp_path: Path) -> None:
    events = [mark(f"iteration {7 + i}", 1010 + 100 * i, 80) for i in range(3)]
    events += [mark("small", 1015 + 30 * i, 10) for i in range(9)]

    assert steps(tmp_path, events) == ("annotation", [(7, 10, 110), (8, 110, 210), (9, 210, 290)])


def test_nested_and_single_annotations_mark_no_steps(tmp_path: Path) -> None:
    events = [mark("whole run", 1000, 900), mark("layer", 1010, 50), mark("layer", 1020, 20)]

    assert steps(tmp_path, events) == ("window", [(0, 0, 900)])


def test_without_annotations_the_optimizer_ends_the_steps(tmp_path: Path) -> None:
    events = [mark("Optimizer.step#SGD.step", 1080 + 100 * i, 20) for i in range(3)]
    events += [mark("Optimizer.zero_grad#SGD.zero_grad", 1005 + 100 * i, 2) for i in range(3)]

    assert steps(tmp_path, events) == ("optimizer", [(0, 0, 100), (1, 100, 200), (2, 200, 300)])


def test_of_several_optimizers_the_last_one_ends_the_step(tmp_path: Path) -> None:
    events = [
        mark(f"Optimizer.step#{name}.step", 1070 + 100 * i + at, 10)
        for i in range(2)
        for at, name in ((0, "A"), (15, "B"))
    ]

    assert steps(tmp_path, events) == ("optimizer", [(0, 0, 95), (1, 95, 195)])


def test_without_any_mark_everything_is_one_window(tmp_path: Path) -> None:
    assert steps(tmp_path, [span("op", 1010, 90), kernel("k", 1050, 450, 1)]) == ("window", [(0, 0, 500)])


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("kineto/resnet50_workers0.pt.trace.json.gz", [5, 6, 7, 8, 9, 10]),
        ("hta/df_index_resolver.json.gz", [2, 3, 4, 5, 6]),
        ("tracelens/mi300_resnet_act_checkpoint.json.gz", [15, 16, 17]),
        ("hta/cpu_only.json.gz", [551]),
    ],
)
def test_the_steps_of_real_traces_are_found_and_do_not_overlap(traces: Path, name: str, numbers: list[int]) -> None:
    (rank,) = load_run([traces / name], LoadOptions(workers=1)).ranks

    assert rank.step_origin == "profiler_step"
    assert [step.number for step in rank.steps] == numbers
    assert all(a.end_ns <= b.start_ns for a, b in zip(rank.steps, rank.steps[1:], strict=False))


def test_the_mean_step_of_resnet50_is_the_one_that_the_tensorboard_plugin_gives(traces: Path) -> None:
    (rank,) = load_run([traces / "kineto" / "resnet50_workers0.pt.trace.json.gz"], LoadOptions(workers=1)).ranks

    mean_us = sum(step.wall_ns for step in rank.steps) / len(rank.steps) / 1e3
    assert round(mean_us) == 177_592


def test_a_pause_between_two_annotations_belongs_to_a_step(tmp_path: Path) -> None:
    begins = (1010, 1060, 1110, 1324, 1374)  # a pause of 164 us behind the third
    found = steps(tmp_path, [mark("train_step", ts, 50) for ts in begins])

    assert found == ("annotation", [(0, 10, 60), (1, 60, 110), (2, 110, 324), (3, 324, 374), (4, 374, 424)])


def test_annotations_with_and_without_a_pause_in_turn_tile_the_window(tmp_path: Path) -> None:
    begins = (1010, 1060, 1210, 1260, 1410)
    found = steps(tmp_path, [mark(f"iteration {i}", ts, 50) for i, ts in enumerate(begins)])[1]

    assert [end - start for _, start, end in found] == [50, 150, 50, 150, 50]


def test_skipped_numbers_of_annotations_are_a_pause(tmp_path: Path) -> None:
    found = steps(tmp_path, [mark("iteration 1", 1010, 50), mark("iteration 9", 1410, 50)])[1]

    assert found == [(1, 10, 60), (9, 410, 460)]


def test_the_last_of_several_forward_passes_lasts_until_the_optimizer_ends(tmp_path: Path) -> None:
    events = [mark("forward", 1010 + 100 * i, 20) for i in range(3)]
    events += [mark("Optimizer.step#SGD.step", 1070 + 100 * i, 20) for i in range(3)]

    assert steps(tmp_path, events) == ("annotation", [(0, 10, 110), (1, 110, 210), (2, 210, 290)])


def test_annotations_of_layers_are_no_steps_where_the_optimizer_shows_them(tmp_path: Path) -> None:
    events = [mark(f"layer {i}", 1010 + 20 * i, 18) for i in range(8)]
    events += [mark("Optimizer.step#SGD.step", 1088 + 80 * i, 2) for i in range(2)]

    assert steps(tmp_path, events) == ("optimizer", [(0, 0, 90), (1, 90, 170)])


def test_each_rank_reports_the_recorded_time_outside_of_its_inferred_steps(tmp_path: Path) -> None:
    for rank, late in ((0, 0), (1, 100)):
        events = [span("begin", 1000, 1), mark("train_step", 1100 + late, 100), mark("train_step", 1250 + late, 100)]
        write_trace(tmp_path / f"rank{rank}.json", [*events, span("end", 1500, 100)], distributedInfo=rank_info(rank))
    profile = Profile(load_run([tmp_path], LoadOptions(workers=1)))

    for rank, before_us, after_us in ((0, 100, 250), (1, 200, 150)):
        outside = profile.rank(rank).outside_steps
        assert outside is not None
        assert (outside.before_ns, outside.between_ns, outside.after_ns) == (before_us * 1000, 0, after_us * 1000)
        assert measure(profile, "outside_steps_pct", rank=rank).value == pytest.approx(100 * 350 / 600)
    assert measure(profile, "outside_steps_ms", rank=1, where="before").value == pytest.approx(0.2)
    assert outside_steps_rank(profile) == 0


def test_a_large_rest_outside_of_the_steps_rules_out_healthy(tmp_path: Path) -> None:
    events = [mark("train_step", 1000 + 1000 * i, 1000) for i in range(4)]
    events += [span("aten::mm", 1000 + 1000 * i, 990) for i in range(4)]
    verdicts = []
    for last in (100, 4000):
        path = write_trace(tmp_path / f"{last}.json", [*events, span("aten::mm", 5000, last)])
        profile = Profile(load_run([path], LoadOptions(workers=1)))
        verdicts.append(judge_steps(profile, (), (), ()))

    assert outside_steps_rank(profile) == 0
    assert measure(profile, "outside_steps_ms", rank=0, where="after").value == pytest.approx(4.0)
    assert "none of the steps" not in verdicts[0].why
    assert (verdicts[1].verdict, verdicts[1].why[:16]) == ("inconclusive", "a large share of")


def test_marked_steps_and_a_single_window_have_no_time_outside(tmp_path: Path) -> None:
    steps(tmp_path, [mark("ProfilerStep#1", 1100, 100)])

    assert Profile(load_run([tmp_path / "t.json"], LoadOptions(workers=1))).ranks[0].outside_steps is None


def test_calls_of_a_communication_library_and_layers_are_no_steps(tmp_path: Path) -> None:
    """NCCL marks its own calls; a model's layers repeat in one forward pass."""
    for name in (
        "ncclGroupEnd",
        "layer {}",
        "decoder_block_{}",
        "## Call CompiledFxGraph abc ##",
        "aten::mm, op_id = {}",
    ):
        events = [mark(name.format(i), 1010 + 100 * i, 80) for i in range(4)]
        assert steps(tmp_path, [mark("all of it", 1000, 500), *events])[0] == "window", name


def test_marks_that_cover_little_of_the_time_are_of_something_within_a_step(tmp_path: Path) -> None:
    assert steps(tmp_path, [mark("exchange", 1010 + 100 * i, 2) for i in range(4)])[0] == "window"


def test_marks_inside_of_another_mark_are_steps_where_their_name_or_a_backward_pass_says_so(tmp_path: Path) -> None:
    whole = mark("capture of 32", 1000, 500)
    parts = [mark("part", 1010 + 100 * i, 80) for i in range(4)]
    backward = [span("autograd::engine::evaluate_function: MmBackward0", 1050 + 100 * i, 10) for i in range(4)]

    assert steps(tmp_path, [whole, *parts])[0] == "window"
    assert steps(tmp_path, [whole, *parts, *backward])[0] == "annotation"
    assert (
        steps(tmp_path, [whole, *(mark(f"decode_step {i}", 1010 + 100 * i, 80) for i in range(4))])[0] == "annotation"
    )


def test_steps_of_a_host_that_gets_ahead_during_the_recording_are_the_devices(tmp_path: Path) -> None:
    """The host needs 30 us for a step, the device 100: marks of 30, 70, 100 and 100 us are no steps."""
    begins, device = (1000, 1030, 1100, 1200, 1300), (1005, 1105, 1205, 1305)
    events = []
    for at, work in enumerate(device):
        ts = begins[at]
        events.append(mark(f"ProfilerStep#{at}", ts, begins[at + 1] - ts))
        events += [launch(ts + 1, 1, at + 1), kernel("gemm", work, 100, at + 1)]

    assert steps(tmp_path, events)[1] == [(0, 5, 105), (1, 105, 205), (2, 205, 305), (3, 305, 405)]


def test_an_inferred_last_step_ends_with_its_device_work(tmp_path: Path) -> None:
    """Marks cover the begin of each step only; an optimizer call without a length was cut by the end of the trace."""
    marks = [mark("call", 1000 + 100 * at, 40) for at in range(3)]
    calls = [mark("Optimizer.step#SGD.step", 1080 + 100 * at, 20 * (at < 2)) for at in range(3)]
    work = []
    for at in range(3):
        work += [launch(1030 + 100 * at, 5, 2 * at), kernel("gemm", 1040 + 100 * at, 50, 2 * at)]
        work += [launch(1085 + 100 * at, 5, 2 * at + 1), kernel("update", 1090 + 100 * at, 8, 2 * at + 1)]

    assert steps(tmp_path, [*marks, *work])[1][-1] == (2, 200, 290)
    assert steps(tmp_path, [*calls, *work])[1][-1] == (2, 200, 298)


def test_trials_of_a_benchmark_are_no_steps(tmp_path: Path) -> None:
    trials = [mark("BatchNorm", 1000, 600), mark("BatchNorm", 1700, 3), mark("BatchNorm", 1710, 0.2)]

    assert steps(tmp_path, trials)[0] == "window"
