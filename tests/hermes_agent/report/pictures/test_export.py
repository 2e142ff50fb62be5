"""Pictures as files: the finding on top, the light colours, and nothing but the picture inside."""

from __future__ import annotations

import struct
from pathlib import Path

import altair as alt
import pytest

from hermes_agent.evidence.citations import without_citations
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.model.request import Request
from hermes_agent.report.files import profile_behind
from hermes_agent.report.pictures.charts import Canvas, configured
from hermes_agent.report.pictures.export import SCALE, WIDTH, inline_svg, render_png, render_svg
from hermes_agent.report.pictures.offer import NAMES
from hermes_agent.report.pictures.palette import light, variable
from hermes_agent.report.pictures.registry import PICTURES, chosen, drawable, most_telling
from hermes_agent.workflow.diagnose import diagnose
from tests.synthetic import H100, RankBuilder, profile_of
from tools.errors import UsageError
from tools.views.profile import Profile


def test_the_names_that_can_be_asked_for_are_those_that_exist() -> None:
    assert tuple(PICTURES) == NAMES


def test_every_picture_is_a_valid_specification(demo: Diagnosis, demo_profile: Profile) -> None:
    drawn, _ = drawable(demo, demo_profile)
    assert len(drawn) >= 4
    for canvas in (Canvas(WIDTH, light), Canvas(360, variable)):
        for each in drawn.values():
            alt.Chart.from_dict(configured(each.chart(canvas), canvas, None), validate=True)


def test_a_png_is_readable_at_800_pixels_and_drawn_with_twice_as_many(demo: Diagnosis, demo_profile: Profile) -> None:
    content = render_png(demo, demo_profile)
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", content[16:24])
    assert width == pytest.approx(WIDTH * SCALE, rel=0.05)
    assert 200 < height < 2000


def test_a_picture_is_titled_by_the_finding_of_the_diagnosis(demo: Diagnosis, demo_profile: Profile) -> None:
    text = render_svg(demo, demo_profile, "breakdown").replace("\u00a0", " ")
    assert text.startswith('<svg style="color-scheme: only light" ')  # a forced dark mode would turn only the text
    for word in without_citations(demo.headline).split()[:5]:
        assert word in text
    assert "data wait, 60.0 ms" in text
    assert "var(--" not in text
    assert "<script" not in text


def test_the_cause_that_the_headline_names_chooses_the_picture(demo: Diagnosis) -> None:
    (cause,) = demo.causes
    assert most_telling(demo)[0] == "heatmap"  # rank 1 of two

    def first(**changed: object) -> str:
        return most_telling(demo.model_copy(update={"causes": [cause.model_copy(update=changed)]}))[0]

    assert first(ranks=[0, 1], steps=demo.run.steps, family="io") == "breakdown"
    everywhere = {"ranks": demo.run.ranks, "steps": demo.run.steps}
    assert first(ranks=demo.run.ranks, steps=[41]) == "series"
    assert first(**everywhere, family="computation") == "roofline"
    assert first(**everywhere, family="parallel") == "critical_path"
    assert first(**everywhere, family="cpu") == "breakdown"
    assert most_telling(demo.model_copy(update={"causes": []}))[0] == "breakdown"


def test_what_cannot_be_drawn_is_a_sentence_and_the_next_picture_is_taken(demo: Diagnosis) -> None:
    drawn, missing = drawable(demo, None)
    assert set(drawn) == {"series", "heatmap", "breakdown"}
    assert set(missing) == {"critical_path", "roofline"}
    with pytest.raises(UsageError, match="not at hand"):
        chosen(demo, None, "roofline")
    with pytest.raises(UsageError, match="There is no picture 'pie'; there are series"):
        chosen(demo, None, "pie")
    empty = demo.model_copy(update={"breakdown": [], "causes": []})
    with pytest.raises(UsageError, match="nothing to draw"):
        render_png(empty, None)


def test_a_figure_of_a_picture_is_that_of_the_diagnosis(demo: Diagnosis, demo_profile: Profile) -> None:
    drawn, _ = drawable(demo, demo_profile)
    values = {row.id: row.value for row in demo.evidence}
    cited = [row for row in drawn["critical_path"].rows if row[3]]
    assert cited
    for _, on_path, _, identifiers in cited:
        assert float(on_path) == pytest.approx(values[identifiers.split("]")[0][1:]], abs=0.006)


def test_a_picture_in_a_page_has_hover_titles_and_takes_its_colours_from_the_page(
    demo: Diagnosis, demo_profile: Profile
) -> None:
    text = inline_svg(chosen(demo, demo_profile, "breakdown"), 780)
    assert "rank 1, data wait: 60.0 ms of 107 ms</title>" in text
    assert "var(--data_wait)" in text
    assert "style=" not in text
    assert "aria-label" not in text
    assert 'aria-hidden="true"' in text


def test_a_roofline_holds_the_operations_of_its_operators_and_the_peaks_of_the_device(demo: Diagnosis) -> None:
    rank = RankBuilder(device=H100)
    rank.operator("aten::mm", 10, 20, dims=[[4096, 4096], [4096, 4096]], types=["c10::BFloat16", "c10::BFloat16"])
    rank.kernel("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f", start_us=40, duration_us=400, call_us=12)
    rank.step(0, 0, 500)
    drawn = chosen(demo, profile_of(rank), "roofline")
    (row,) = drawn.rows
    flops, moved = 2 * 4096**3, 3 * 4096**2 * 2
    assert float(row[5]) == pytest.approx(flops / moved, rel=0.01)
    assert float(row[6]) == pytest.approx(flops / 400e-6 / 1e12, rel=0.01)
    assert float(row[7]) == pytest.approx(100 * flops / 400e-6 / 989.5e12, rel=0.01)
    assert "aten::mm" in inline_svg(drawn, 780)


def test_steps_of_a_jobs_output_are_not_called_unprofiled_nor_single_ones(tmp_path: Path) -> None:
    log = tmp_path / "train.out"
    line = " iteration {step:8d}/ 500 | consumed samples: {step} | elapsed time per iteration (ms): {ms:.1f} |"
    log.write_text("\n".join(line.format(step=10 * n, ms=100.0 + n % 3) for n in range(1, 30)), encoding="utf-8")
    request = Request((log,), cache_dir=tmp_path / "cache")
    diagnosis = diagnose(request, lambda _: None)
    drawn = chosen(diagnosis, profile_behind(request, diagnosis), "series")
    assert drawn.title == "Step time by the job's output"
    assert drawn.finding.endswith("Each line gives the mean over the steps since the one before it.")
