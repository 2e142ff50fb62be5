"""Step times and ranks by steps, from records of whole steps where these hold more of them than the traces."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.request import Request
from hermes_agent.report.files import profile_behind
from hermes_agent.report.html.page import NARROW_PX, WIDE_PX, render_html
from hermes_agent.report.pictures.charts import breakdown
from hermes_agent.report.pictures.drawn import Drawn
from hermes_agent.report.pictures.export import inline_svg
from hermes_agent.report.pictures.palette import PARTS
from hermes_agent.report.pictures.registry import drawable
from hermes_agent.report.pictures.rows import Bar
from hermes_agent.report.pictures.step_pictures import heatmap, series
from hermes_agent.workflow.diagnose import diagnose
from tests.recorded_runs import records_of, step_rows, untraced_profile
from tests.tools.sources.job_log.logs import megatron
from tools.errors import UsageError
from tools.views.profile import Profile

STEPS = 60
LEFT_OUT = 6  # the first steps of a series, in which a program settles


def recorded(*steps: pd.DataFrame) -> Profile:
    return untraced_profile(records_of(list(steps)))


def walls(rank: int) -> list[float]:
    return [100.0 + rank + step / 100 for step in range(STEPS)]


@pytest.fixture
def untraced(demo: Diagnosis) -> Diagnosis:
    return demo.model_copy(update={"breakdown": []})


def test_without_own_times_the_heatmap_holds_the_whole_steps_of_each_rank(untraced: Diagnosis) -> None:
    drawn = heatmap(untraced, recorded(*(step_rows(rank, walls(rank)) for rank in range(3))))
    assert drawn.title == "Step time of unprofiled steps by rank and step, from monitor records"
    assert drawn.finding.startswith(f"The longest is rank 2 in step {STEPS - 1}: 103 ms. Whole steps:")
    assert drawn.heads == ("step", "rank 0, ms", "rank 1, ms", "rank 2, ms")
    assert drawn.rows[0][0].startswith(str(LEFT_OUT))
    assert drawn.rows[-1] == ("58-59", *(f"{walls(rank)[-1]:.2f}" for rank in range(3)))


def test_own_times_show_the_rank_that_the_others_wait_for(untraced: Diagnosis) -> None:
    own = {rank: [90.0 if (rank, step) == (1, 40) else 50.0 for step in range(STEPS)] for rank in range(2)}
    drawn = heatmap(untraced, recorded(*(step_rows(rank, [100.0] * STEPS, own_ms=own[rank]) for rank in range(2))))
    assert drawn.title.startswith("Own time (step without exposed communication) of unprofiled steps by rank")
    assert drawn.finding == "The longest is rank 1 in step 40: 90.0 ms."


def test_a_profiled_step_is_not_the_longest_of_a_heatmap(untraced: Diagnosis) -> None:
    captured = [step == 30 for step in range(STEPS)]
    slow = [500.0 if each else 100.0 for each in captured]
    drawn = heatmap(untraced, recorded(*(step_rows(rank, slow, captured=captured) for rank in range(2))))
    assert "100 ms" in drawn.finding
    assert "500" not in " ".join(cell for row in drawn.rows for cell in row)


def test_of_many_ranks_the_heatmap_says_how_many_it_shows(untraced: Diagnosis) -> None:
    steps = [step_rows(rank, [100.0 + 50.0 * (rank == 33)] * STEPS) for rank in range(40)]
    drawn = heatmap(untraced, recorded(*steps))
    assert "by rank (13 that differ most and 3 typical ones of 40) and step" in drawn.title
    assert "rank 33, ms" in drawn.heads
    assert len(drawn.heads) == 17


def test_traces_of_several_ranks_come_before_whole_steps_of_records(demo: Diagnosis, demo_profile: Profile) -> None:
    drawn = heatmap(demo, demo_profile)
    assert drawn.title == "Own time (step without exposed communication) by rank and step"
    assert demo_profile.series is not None  # whole steps of a step log


def test_one_recorded_rank_has_no_heatmap(untraced: Diagnosis) -> None:
    with pytest.raises(UsageError, match="the steps of one are recorded"):
        heatmap(untraced, recorded(step_rows(0, walls(0))))


def test_a_run_without_any_step_has_neither_picture(untraced: Diagnosis) -> None:
    for make in (series, heatmap):
        with pytest.raises(UsageError, match="No step of this run was traced"):
            make(untraced, None)


def test_a_label_at_either_end_stays_inside_the_picture(untraced: Diagnosis) -> None:
    long = [300.0 if step in (LEFT_OUT, 32, STEPS - 1) else 100.0 for step in range(STEPS)]
    svg = inline_svg(series(untraced, recorded(step_rows(0, long))), WIDE_PX)
    labels = re.findall(r'text-anchor="(\w+)"[^>]*>300 ms<', svg)
    assert sorted(labels) == ["end", "middle", "start"]


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> tuple[Diagnosis, Profile]:
    folder = tmp_path_factory.mktemp("job")
    (folder / "job.out").write_text(megatron(*((step, 100.0 + step % 3) for step in range(1, 41))))
    request = Request((folder,), cache_dir=folder / "cache")
    diagnosis = diagnose(request, lambda event: None)
    return diagnosis, profile_behind(request, diagnosis)


def test_steps_in_the_output_of_a_job_are_of_no_rank(job: tuple[Diagnosis, Profile]) -> None:
    drawn = series(*job)
    assert drawn.title == "Step time by the job's output"
    assert drawn.heads == ("step", "ms", "")
    assert all(len(row) == len(drawn.heads) for row in drawn.rows)
    page = render_html(*job)
    picture = page[page.index('id="picture-series"') : page.index("</figure>")]
    assert "<title>step 12: 100 ms</title>" in picture
    assert "rank" not in picture


def test_why_pictures_are_missing_is_said_once(job: tuple[Diagnosis, Profile]) -> None:
    _, missing = drawable(*job)
    assert sorted(missing) == ["breakdown", "critical_path", "heatmap", "roofline"]
    page = render_html(*job)
    assert page.count("No step of this run was traced") == 1
    assert "No breakdown, critical path or roofline: No step of this run was traced" in page
    assert "No heatmap: A heatmap compares ranks, and the job&#39;s output gives one step time" in page


def test_records_of_one_rank_among_several_name_it(untraced: Diagnosis) -> None:
    profile = recorded(*(step_rows(rank, walls(rank)) for rank in range(2)))
    drawn = series(untraced, profile)
    assert drawn.title == "Step time of unprofiled steps by monitor records, rank 1"
    assert drawn.heads == ("step", "rank", "ms", "")


def test_a_legend_of_every_part_does_not_widen_a_picture_for_a_phone() -> None:
    found = [Bar("ranks 0 to 12 and 14 to 55", tuple(10.0 for _ in PARTS), 10.0 * len(PARTS))]
    drawn = Drawn("breakdown", "", "", lambda canvas: breakdown(found, canvas), (), (), "")
    svg = inline_svg(drawn, NARROW_PX)
    width = re.search(r'viewBox="0 0 (\d+)', svg)
    assert width is not None
    assert int(width[1]) <= NARROW_PX
