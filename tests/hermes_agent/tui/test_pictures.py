"""Pictures: their figures are those of the tools, and they fit, also without colour and in ASCII."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast, get_args

import pandas as pd
import pytest

from hermes_agent.config.settings import Settings
from hermes_agent.demo.data import demo_run
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.events import ignore
from hermes_agent.model.request import Request
from hermes_agent.questions.material import never
from hermes_agent.report.pictures import data, recorded
from hermes_agent.session import Session
from hermes_agent.tui.messages import ASCII, UNICODE, Glyphs
from hermes_agent.tui.pictures import draw
from hermes_agent.tui.pictures.lanes import BINS, lanes
from hermes_agent.tui.pictures.registry import PICTURES, Measured, Source, picture_for
from tests.hermes_agent.tui.fake_session import critical_path, diagnosis, row
from tools.agent_tools.steps import RankRow, StepRow
from tools.errors import UsageError
from tools.knowledge.thresholds import Thresholds
from tools.views.steps.series import RunSeries, SeriesOrigin

LIMIT_PCT = 10.0


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    cache = tmp_path_factory.mktemp("cache")
    made = Session(Request(paths=(demo_run(),), cache_dir=cache), Settings(cache_dir=cache))
    made.diagnose(ignore)
    return made


def chosen(heat: data.Heat) -> data.ChosenRanks:
    return data.chosen_ranks(data.rank_figures(heat))


def with_steps(durations_ms: list[float]) -> Diagnosis:
    rows = [row(0, step, ms - 6.0, 0.0) for step, ms in enumerate(durations_ms)]
    return diagnosis().model_copy(update={"breakdown": rows})


def test_step_times_are_those_of_the_tool(session: Session) -> None:
    drawn = data.step_times(session.diagnosis, LIMIT_PCT)
    rows = session.call("series", {"sort": "step", "limit": 500}, ignore).rows
    expected = [(row.step, row.rank, row.duration_ms) for row in rows if isinstance(row, StepRow)]
    assert [(point.step, point.rank) for point in drawn.points] == [each[:2] for each in expected]
    assert [point.ms for point in drawn.points] == pytest.approx([each[2] for each in expected])
    long = session.call("measure", {"metric": "fluctuating_steps"}, ignore).facts[0]
    assert len(drawn.long) == long.value


def test_the_mean_of_a_heatmap_row_is_the_own_time_of_the_rank(session: Session) -> None:
    heat = data.heat(session.diagnosis)
    for each in session.call("rank_comparison", {}, ignore).rows:
        assert isinstance(each, RankRow)
        own = [ms for (rank, _), ms in heat.values.items() if rank == each.rank]
        assert sum(own) / len(own) == pytest.approx(each.own_ms)


def test_bins_of_a_lane_add_up_to_the_parts_of_its_step(session: Session) -> None:
    found = lanes(session.profile(ignore), data.rows_of_step(session.diagnosis, None)[0].step or 0, (0, 1))
    assert found.step == 43  # the longest, 114.8 ms on rank 0
    for lane in found.lanes:
        facts = session.call("breakdown", {"rank": lane.rank, "step": found.step}, ignore).facts
        measured = {str(fact.arguments["part"]): fact.value for fact in facts if fact.metric == "part_ms"}
        assert len(lane.bins) == BINS
        for place, part in enumerate(data.PARTS):
            assert sum(each[place] for each in lane.bins) == pytest.approx(measured[part], abs=1e-3)


def test_the_critical_path_keeps_figures_and_ids_of_the_tool() -> None:
    found = data.critical_path(critical_path())
    assert (found.step_ms, found.step_id) == (100.0, "E1")
    assert [(share.family, share.ms, share.saved_ms, share.ids) for share in found.shares] == [
        ("io", 60.0, 55.0, ("E2", "E3")),
        ("idle", 40.0, None, ("E4",)),
    ]


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@pytest.mark.parametrize("width", [56, 78, 160])
def test_every_picture_fits_its_width(session: Session, glyphs: Glyphs, width: int) -> None:
    source = Source(session.diagnosis, session, ignore, never, Thresholds())
    for picture in PICTURES:
        text = picture.make(source, "").draw(width, glyphs).plain
        chart = [line for line in text.splitlines() if glyphs.axis in line or glyphs.parts[0] in line]
        assert chart, picture.name
        assert max(map(len, chart)) <= width, picture.name
        assert glyphs is UNICODE or text.isascii(), picture.name


def test_long_steps_are_marked_under_their_columns_and_named() -> None:
    times = data.step_times(with_steps([100.0] * 4 + [1500.0] + [100.0] * 5), LIMIT_PCT)
    lines = draw.series(times, 78, ASCII).plain.splitlines()
    top, marks = lines[0], next(line for line in lines if "long" in line)
    assert "1500 ms" in top
    assert top.index("#") == marks.index("^")
    assert "1 of 10 steps over 110 ms (the median and 10 %): step 4 (1500 ms)." in lines[-1]


def test_more_steps_than_columns_show_the_longest_of_each_column() -> None:
    durations = [100.0] * 1000
    durations[777] = 300.0
    lines = draw.series(data.step_times(with_steps(durations), LIMIT_PCT), 60, ASCII).plain.splitlines()
    assert lines[0].count("#") == 1
    assert "Each column is the longest of 20 or 21 steps." in lines


def test_even_ranks_are_not_spread_over_the_whole_scale() -> None:
    even = [row(rank, step, 94.0 + 0.01 * rank, 0.0) for rank in range(4) for step in range(5)]
    heat = data.heat(diagnosis().model_copy(update={"breakdown": even}))
    text = draw.heatmap(heat, chosen(heat), 78, ASCII).plain
    assert "All are within 5% of the longest." in text
    assert "#" not in "".join(line for line in text.splitlines() if "|" in line)


def test_an_outlier_among_many_ranks_has_a_row_of_its_own_and_a_missing_step_stays_empty() -> None:
    rows = [row(rank, step, 50.0 + 40 * (rank == 77), 0.0) for rank in range(100) for step in (1, 2, 3)]
    rows = [each for each in rows if (each.rank, each.step) != (77, 2)]
    heat = data.heat(diagnosis().model_copy(update={"breakdown": rows}))
    text = draw.heatmap(heat, chosen(heat), 78, ASCII).plain
    drawn = [line for line in text.splitlines() if "|" in line]
    assert len(drawn) == data.MOST_RANKS
    assert [line for line in drawn if "#" in line] == [f"rank 77   |{'#' * 8}{' ' * 8}{'#' * 8}"]
    assert "84 more ranks not shown." in text


def test_a_run_without_traced_steps_says_so() -> None:
    with pytest.raises(UsageError, match="nothing to draw"):
        data.heat(diagnosis().model_copy(update={"breakdown": []}))


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("show me the timeline", "timeline"),
        ("Why do some steps take 15x longer?", ""),
        ("why are some steps three times longer", "series"),
        ("plot the step times", "series"),
        ("heatmap please", "heatmap"),
        ("what is on the critical path?", "critical-path"),
        ("show the breakdown", "breakdown"),
        ("why is it slow?", ""),
    ],
)
def test_questions_ask_for_pictures(question: str, name: str) -> None:
    found = picture_for(question)
    assert (found.name if found else "") == name


def test_records_know_more_steps_than_the_traces_which_are_marked(session: Session) -> None:
    source = Source(session.diagnosis, session, ignore, never, Thresholds())
    drawn = PICTURES[1].make(source, "")
    lines = drawn.draw(120, ASCII).plain.splitlines()
    rows = session.call("series", {"source": "records", "limit": 500}, ignore).rows
    traced = {row.step for row in session.diagnosis.breakdown if row.step is not None}
    assert drawn.title == "Step time of rank 0 by the step log"
    assert next(line for line in lines if "traced" in line).count("=") == len(traced)
    assert lines[-3].split() == ["step", "5", "43"]
    assert lines[-1] == "No unprofiled step is over 103 ms (the median and 10 %)."
    assert len(rows) + len(traced) == 38
    heat = PICTURES[2].make(source, "")
    assert "Step time of each rank in each step." in heat.draw(120, ASCII).plain
    assert "/heatmap own" in heat.sentences[0]
    own = PICTURES[2].make(source, "own").draw(120, ASCII).plain
    assert "Own time (step without exposed communication) of each rank in each step." in own


def test_steps_recorded_before_those_that_are_drawn_are_counted(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "MOST_STEPS", 10)
    monkeypatch.setattr(recorded, "MOST_COLUMNS", 7)
    series = session.profile(ignore).series
    assert series is not None
    source = Source(session.diagnosis, session, ignore, never, Thresholds())
    times, heat = (PICTURES[place].make(source, "") for place in (1, 2))
    unprofiled = len(series.whole.of(series.slowest_rank))
    known = set(series.whole.numbers()) | set(series.captured["step"].astype(int))
    assert times.sentences[0] == f"Neither drawn nor counted here: {unprofiled - 10} steps recorded before."
    assert heat.sentences[0] == f"Neither drawn nor counted here: {len(known) - 7} steps recorded before."


def test_unprofiled_steps_are_drawn_where_nothing_was_traced(session: Session) -> None:
    untraced = session.diagnosis.model_copy(update={"breakdown": []})
    source = Source(untraced, session, ignore, never, Thresholds())
    assert PICTURES[1].make(source, "").draw(78, ASCII).plain.splitlines()[-1].startswith("No unprofiled step is over")


@pytest.mark.parametrize("origin", get_args(SeriesOrigin))
def test_every_kind_of_record_has_a_title(origin: SeriesOrigin) -> None:
    steps = pd.DataFrame({"rank": 0, "step": range(9), "wall_ms": 100.0})
    profile = SimpleNamespace(series=RunSeries(steps, steps.iloc[:0], origin))
    untraced = diagnosis().model_copy(update={"breakdown": [], "step_time_ms": None})
    session = SimpleNamespace(profile=lambda emit, cancelled: profile)
    source = Source(untraced, cast("Measured", session), ignore, never, Thresholds())
    assert recorded.SOURCES[origin] in PICTURES[1].make(source, "").title
    assert recorded.SOURCES[origin] in PICTURES[2].make(source, "").title


def test_traced_steps_of_another_numbering_are_marked_by_that_of_the_records() -> None:
    times = data.recorded_times(3, [(step, 100.0) for step in range(50)], 10.0, [(step, 150.0) for step in (50, 51)])
    assert times.limit_ms == pytest.approx(110.0)
    assert [point.step for point in times.points if point.traced] == [50, 51]
    assert times.long == ()  # the profiler costs as much
    assert times.median_ms == 100.0
