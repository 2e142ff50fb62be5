"""What the first sentences of an answer say, and when a prediction is kept back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.request import Request
from hermes_agent.model.run_record import SourceRecord
from hermes_agent.report.compose import Findings, compose
from hermes_agent.report.markdown import render_markdown
from hermes_agent.report.opening import opening
from hermes_agent.report.sections import interval_meaning
from hermes_agent.report.text import render_text
from hermes_agent.report.top_bottleneck import OTHERS_UNSEEN
from hermes_agent.workflow.diagnose import diagnose
from tests.recorded_runs import records_of, step_rows, untraced_profile
from tests.synthetic import V100, RankBuilder, profile_of, run_of
from tests.synthetic_runs import taking_turns
from tests.tools.sources.memory_snapshot.test_snapshots import MIB, block, event, snapshot, written
from tools.analyzers.registry import all_checks
from tools.findings import Sentence
from tools.judgement.lead import Lead, Place
from tools.judgement.ranking import ranking
from tools.judgement.verdict import MARKED_STEPS, MORE_STEPS
from tools.metrics.registry import measure
from tools.run.model import Device, Layout
from tools.sources.load import load_run
from tools.views.profile import Profile
from tools.whatif.claim import COVERS_PCT


def diagnosed(profile: Profile) -> Diagnosis:
    """The diagnosis, without cases."""
    return compose(Findings(profile, all_checks(profile), ranking(profile), {}))


def launching(lengths_us: tuple[float, ...]) -> RankBuilder:
    """Steps in which the host takes 100 us to launch each kernel of 10 us, and waits at the end."""
    rank = RankBuilder()
    at = 0.0
    for step, length in enumerate(lengths_us):
        for number in range(int(length / 100) - 1):
            rank.kernel("small", at + number * 100 + 6, 10, call_us=at + number * 100)
        rank.runtime("cudaDeviceSynchronize", at + length - 100, 5)
        rank.step(step, at, at + length)
        at += length
    return rank


def test_a_gain_is_predicted_where_the_steps_agree() -> None:
    diagnosis = diagnosed(profile_of(launching((1100.0,) * 4)))
    first = diagnosis.advice[0]
    assert diagnosis.verdict == "problem"
    assert first.predicted_speedup is not None
    assert first.interval is not None
    assert first.interval[0] <= first.predicted_speedup <= first.interval[1]
    assert first.text.startswith("Fixing this would cut the step to")


def test_what_an_interval_claims_is_said_once_and_only_where_there_is_one() -> None:
    agreeing = diagnosed(profile_of(launching((1100.0,) * 4)))
    file = SourceRecord(path="rank0.json", format="kineto", ranks=[0], status="complete")
    agreeing = agreeing.model_copy(update={"run": agreeing.run.model_copy(update={"sources": [file]})})
    said = f"Ranges are {COVERS_PCT:.0f} % prediction intervals."
    assert agreeing.interval_covers_pct == COVERS_PCT
    for report in (render_text(agreeing), render_markdown(agreeing)):
        assert " ".join(report.split()).count(said) == 1
    without = agreeing.model_copy(update={"advice": []})
    assert interval_meaning(without) == ()


def opened(confidence: float, impact_pct: float, lead_pct: float | None = None) -> Diagnosis:
    """The diagnosis of an inconclusive verdict with one cause, and a lead of that size (0: unknown)."""
    profile = profile_of(launching((1100.0,) * 4))
    found = ranking(profile)
    cause = replace(found.causes[0], finding=replace(found.causes[0].finding, confidence=confidence))
    leads = []
    if lead_pct is not None:
        host = measure(profile, "part_pct", part="host", rank=0)
        claim = Sentence("The host takes {0}.", (replace(host, value=lead_pct) if lead_pct else host,))
        leads = [Lead(Place("host", (0,), "every step"), lead_pct, lead_pct, claim, (), "a longer run")]
    changed = replace(
        found,
        causes=(replace(cause, impact_pct=impact_pct),),
        verdict="inconclusive",
        why="nobody knows",
        needs="more",
        unexplained=(),
        leads=tuple(leads),
    )
    return compose(Findings(profile, all_checks(profile), changed, {}))


@pytest.mark.parametrize("confidence", [0.4, 0.6])
def test_headline_and_list_agree_on_a_low_confidence(confidence: float) -> None:
    diagnosis = opened(confidence, impact_pct=40.0)
    file = SourceRecord(path="rank0.json", format="kineto", ranks=[0], status="complete")
    text = render_text(diagnosis.model_copy(update={"run": diagnosis.run.model_copy(update={"sources": [file]})}))
    assert diagnosis.headline.startswith("Most likely cause")
    assert text.count("(low confidence)") == (2 if confidence < 0.5 else 0)


@pytest.mark.parametrize(
    ("impact_pct", "lead_pct", "headline"),
    [
        (1.1, 0.0, "A step takes 1.10 ms"),
        (1.1, 8.0, "8.00 %"),
        (12.0, 8.0, "Most likely cause: "),
        (12.0, 0.0, "Most likely cause: "),
        (1.1, None, "Most likely cause: "),
    ],
)
def test_without_a_well_supported_cause_the_headline_is_what_is_largest(
    impact_pct: float, lead_pct: float | None, headline: str
) -> None:
    diagnosis = opened(0.6, impact_pct, lead_pct)
    assert headline in diagnosis.headline
    named = "Also found: " if "Most" not in headline else "Most likely cause: "
    assert sum(sentence.startswith(named) for sentence in diagnosis.answer) == 1


def test_no_gain_is_predicted_where_the_steps_differ_too_much_and_the_text_says_why() -> None:
    diagnosis = diagnosed(profile_of(launching((300.0, 20_000.0))))
    first = diagnosis.advice[0]
    assert (first.predicted_step_ms, first.predicted_speedup, first.interval) == (None, None, None)
    assert first.text.startswith("The gain is not predicted: the recorded steps differ so much in length")
    assert diagnosis.verdict == "inconclusive"
    assert diagnosis.next_measurements[0] == MORE_STEPS
    assert "Inconclusive because the recorded steps differ" in diagnosis.answer[1]


def test_a_single_step_is_said_to_tell_nothing_of_variation() -> None:
    diagnosis = diagnosed(profile_of(launching((5000.0,))))
    assert "its variation is not known" in diagnosis.advice[0].text


def test_an_unmarked_recording_is_not_called_a_step() -> None:
    rank = RankBuilder()
    for at in range(49):
        rank.kernel("small", 100 * at + 6, 10, call_us=100 * at)
    rank.kernel("gemm", 5000, 6000, call_us=4950)
    rank.step(0, 0, 11_100)
    run = run_of(rank)
    profile = Profile(replace(run, ranks=tuple(replace(rank, step_origin="window") for rank in run.ranks)))
    diagnosis = diagnosed(profile)
    assert diagnosis.verdict == "inconclusive"
    assert "(low confidence): " in diagnosis.headline
    assert " of the recorded " in diagnosis.headline
    assert "step" not in diagnosis.headline
    assert any(sentence.startswith("No steps are marked") for sentence in diagnosis.answer)


def test_a_large_part_that_no_cause_explains_is_shown_with_its_figure_and_what_to_record() -> None:
    rank = RankBuilder()
    for step in range(4):
        at = step * 1000.0
        rank.kernel("first", at + 10, 100, call_us=at + 1)
        rank.kernel("second", at + 800, 150, call_us=at + 4)
        rank.runtime("cudaDeviceSynchronize", at + 7, 950)
        rank.step(step, at, at + 1000)
    diagnosis = diagnosed(profile_of(rank))
    (said,) = (text for text in diagnosis.answer if "not explained by any cause" in text)
    record = next(each for each in diagnosis.evidence if dict(each.arguments) == {"part": "idle"})
    assert 69 < record.value < 71
    assert f"{record.value:.1f} % [{record.id}] (idle with queued kernels) of the step is not explained" in said
    assert f"what would settle it: {diagnosis.leads[0].decide_by}." in " ".join(diagnosis.answer)
    assert diagnosis.verdict == "inconclusive"


def test_nothing_recorded_without_marks_asks_for_marks() -> None:
    rank = RankBuilder()
    rank.step(0, 0, 1000, marked=False)
    rank.operator("aten::mm", 100, 5)
    run = run_of(rank)
    diagnosis = diagnosed(Profile(replace(run, ranks=tuple(replace(each, step_origin="window") for each in run.ranks))))
    assert diagnosis.headline.startswith("The recording, start-up included, takes 1.00 ms")
    assert diagnosis.next_measurements[0] == MARKED_STEPS


@pytest.mark.parametrize(
    ("device", "works", "backend", "title"),
    [
        (None, False, "gloo", "CPU only"),
        (None, False, "nccl", "accelerator of unknown model (none of its work is recorded)"),
        (None, True, "gloo", "accelerator of unknown model"),
        (V100, True, "nccl", V100.name),
        (replace(V100, name=""), True, "nccl", "accelerator of unknown model"),
    ],
)
def test_the_title_says_cpu_only_where_nothing_else_is_known(
    device: Device | None, works: bool, backend: str, title: str
) -> None:
    rank = RankBuilder(device=device)
    rank.operator("aten::mm", 0, 90)
    if works:
        rank.kernel("work", 20, 50, call_us=10, stream=rank.device_stream(3))
        rank.kernel("work", 75, 20, call_us=30, stream=rank.device_stream(5))
    rank.step(0, 0, 100)
    diagnosis = diagnosed(Profile(replace(run_of(rank), layout=Layout(backend=backend))))
    source = SourceRecord(path="t.json", format="kineto", ranks=[0], status="complete")
    whole = diagnosis.model_copy(update={"run": diagnosis.run.model_copy(update={"sources": [source]})})
    assert render_text(whole).splitlines()[0].endswith(f"· {title}")


def test_a_snapshot_alone_states_its_sizes_in_the_short_answer(tmp_path: Path) -> None:
    """10 and 4 MiB are live at the end, 6 MiB came and went before the 4: the peak is 16 of 16 MiB."""
    segments = [[block(1, 10 * MIB), block(2, 2 * MIB, "inactive")], [block(3, 4 * MIB)]]
    freed = (event("free_requested", 6 * MIB, 9), event("free_completed", 6 * MIB, 9))
    content = snapshot(segments, event("alloc", 6 * MIB, 9), *freed, event("alloc", 4 * MIB - 100, 3))
    found = diagnosed(Profile(load_run([written(tmp_path / "memory.pickle", content)])))
    assert found.verdict == "inconclusive"
    assert found.answer[0].startswith("Live allocations peak at 16.8 MB")  # 16 * 1.048576
    assert "reserved memory at 16.8 MB" in found.answer[0]
    assert any("a snapshot of the allocator does not show what a step loses" in each for each in found.answer)


@pytest.mark.parametrize(("on_core_ms", "said"), [(60.0, "40.0 ms [E"), (97.0, "not assessable from this data")])
def test_records_that_localise_time_say_how_much_of_it_and_computing_is_no_loss(on_core_ms: float, said: str) -> None:
    profile = untraced_profile(records_of([step_rows(0, [100.0] * 60, thread_cpu_ms=on_core_ms)]))
    found = diagnosed(profile)
    assert said in found.answer[0]
    assert ("lies in one place (lead 1)" in found.answer[0]) is (on_core_ms < 97.0)


def test_ranks_that_take_turns_in_being_slow_are_told_with_the_step_of_the_slowest_on_average() -> None:
    turns = profile_of(*taking_turns())
    (said,) = (each for each in opening(turns, replace(ranking(turns), verdict="problem")) if "turns" in each.template)

    assert [each.value for each in said.facts] == pytest.approx(
        [0.6]
    )  # 2 x 0.9 + 2 x 0.3 ms over 4 steps, while the slowest of each takes 0.9 ms
    assert turns.mean_step_ms == pytest.approx(0.9)
    assert measure(turns, "steps_per_s").value == pytest.approx(1e3 / 0.6)
    assert measure(turns, "steps_per_h").value == pytest.approx(3.6e6 / 0.6)


def test_no_cost_is_stated_of_what_would_take_away_most_of_an_unmarked_recording() -> None:
    rank = RankBuilder()
    for at in range(30):
        rank.operator("aten::add", 1000 * at, 20)
        rank.kernel("add", 1000 * at + 10, 100, call_us=1000 * at + 5)
    rank.step(0, 0, 30_000)
    for origin in ("window", "profiler_step"):
        run = run_of(rank)
        run = replace(run, ranks=tuple(replace(each, step_origin=origin) for each in run.ranks))
        diagnosis = diagnosed(Profile(run))
        assert (not diagnosis.causes and not diagnosis.advice) == (origin == "window")
        unpriced = [each.candidates[0].cause for each in diagnosis.leads if not each.impact_ms_per_step]
        assert unpriced == (["operator_dispatch"] if origin == "window" else [])


def test_healthy_of_one_rank_of_several_says_that_the_others_are_unseen() -> None:
    rank = RankBuilder()
    for step in range(4):
        rank.kernel("gemm", 1000 * step + 10, 950, call_us=1000 * step + 1)
        rank.step(step, 1000 * step, 1000 * (step + 1))
    for world_size in (1, 8):
        profile = profile_of(rank, layout=Layout(world_size=world_size))
        said = [each.template for each in opening(profile, replace(ranking(profile), verdict="healthy"))]
        assert (OTHERS_UNSEEN in said) == (world_size == 8)


@pytest.mark.parametrize(("lengths", "said"), [((300, 100, 100, 100), True), ((300, 100, 300, 100), False)])
def test_a_mean_step_with_one_outlier_is_said_to_hold_it(lengths: tuple[int, ...], said: bool) -> None:
    rank, at = RankBuilder(), 0.0
    for step, length in enumerate(lengths):
        rank.kernel("gemm", at + 10, length - 20, call_us=at + 5)
        rank.step(step, at, at + length)
        at += length
    texts = diagnosed(profile_of(rank)).answer
    assert any("The mean step holds step 0 with 0.30 ms" in each for each in texts) == said


def test_events_of_no_known_kind_are_no_work_of_the_host(tmp_path: Path) -> None:
    """A list of spans of some other program, as a viewer's demonstration is."""
    events = [{"ph": "X", "name": name, "pid": 1, "tid": 1, "ts": 10 * at, "dur": 8} for at, name in enumerate("abc")]
    path = tmp_path / "demo.json"
    path.write_text(json.dumps({"traceEvents": events}))
    found = diagnose(Request(paths=(path,), cache_dir=tmp_path / "cache"), lambda _: None)
    assert found.verdict == "inconclusive"
    assert any("by a category that is known" in each for each in found.answer)
    assert not any("host" in each for each in found.answer)
    assert [lead.candidates for lead in found.leads] == [[]]
