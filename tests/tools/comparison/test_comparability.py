"""The layers of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.synthetic import A100, RankBuilder, profile_of
from tests.tools.sources.job_log.logs import megatron
from tools.comparison.comparability import layers
from tools.comparison.compare import compare
from tools.errors import NotComparableError
from tools.run.model import Device, Layout
from tools.sources.load import load_run
from tools.views.profile import Profile


def test_layers_are_distinct_parameter_shapes_whatever_the_batch_and_the_number_of_calls() -> None:
    rank = RankBuilder(0)
    rank.operator("aten::convolution", 10, 5, dims=[[24, 3, 48, 48], [32, 3, 3, 3], [32], [], []])
    for start, batch in ((20, 8), (30, 16)):
        rank.operator("aten::addmm", start, 5, dims=[[16], [batch, 256], [256, 16], [], []])
    rank.operator("aten::mm", 40, 5, dims=[[8, 256], [256, 16]])
    rank.operator("aten::embedding", 50, 5, dims=[[512, 160], [8, 96]])
    rank.operator("aten::linear", 500, 5, dims=[[8, 4], [2, 4]])
    rank.step(0, 0, 100)
    assert layers(profile_of(rank)).to_dict() == {
        "aten::addmm [256, 16]": 1.0,
        "aten::convolution [32, 3, 3, 3]": 1.0,
        "aten::embedding [512, 160]": 1.0,
    }


def test_stages_on_different_ranks_are_one_model() -> None:
    builders = []
    for number, width in enumerate((64, 128)):
        rank = RankBuilder(number)
        rank.operator("aten::linear", 10, 5, dims=[[8, width], [16, width]])
        rank.step(0, 0, 100)
        builders.append(rank)
    assert list(layers(profile_of(*builders)).index) == ["aten::linear [16, 128]", "aten::linear [16, 64]"]


def test_without_recorded_shapes_no_layer_is_known() -> None:
    rank = RankBuilder(0)
    rank.operator("aten::linear", 10, 5)
    rank.operator("aten::linear", 20, 5, dims=["odd", {}])
    rank.step(0, 0, 100)
    assert len(layers(profile_of(rank))) == 0


ARGUMENTS = {"num_layers": 24, "hidden_size": 1024, "global_batch_size": 4, "micro_batch_size": 1, "world_size": 8}


def logged(folder: Path, step_ms: float = 900.0, left_out: tuple[str, ...] = (), /, **changed: int) -> Profile:
    """A job's output with its arguments, as Megatron-LM prints them, and steps that vary by 1 %."""
    folder.mkdir()
    lines = [f"  {name} {'.' * 30} {value}" for name, value in {**ARGUMENTS, **changed}.items() if name not in left_out]
    steps = megatron(*((step, step_ms * (1 + 0.01 * (step % 3 - 1))) for step in range(1, 41)))
    (folder / "job.out").write_text("\n".join(lines) + "\n" + steps)
    return Profile(load_run([folder]))


def test_outputs_of_the_same_job_are_comparable_but_for_what_they_do_not_state(tmp_path: Path) -> None:
    found = compare(logged(tmp_path / "a"), logged(tmp_path / "b", 990.0))
    assert found.step.after.value / found.step.before.value == pytest.approx(1.1, rel=1e-3)
    assert found.changes == ()
    assert (found.comparability.score, found.comparability.reasons) == (0.9, ("not stated by both: the devices",))
    assert found.notes == ("Not stated by both runs: the devices; that they are the same was assumed.",)


def test_what_is_unknown_of_either_output_lowers_the_comparability(tmp_path: Path) -> None:
    whole = logged(tmp_path / "a")
    no_model = logged(tmp_path / "b", 900.0, ("num_layers", "hidden_size"))
    assert compare(whole, no_model).comparability.score == 0.81
    assert compare(no_model, whole).comparability.score == 0.81
    no_size = logged(tmp_path / "c", 900.0, ("world_size",))
    assert compare(whole, no_size).comparability.score == 0.81


UNKNOWN = ("num_layers", "hidden_size", "world_size")


def test_outputs_of_one_program_that_state_nothing_of_the_job_are_compared_with_a_reservation(tmp_path: Path) -> None:
    """0.9 for each of model, world size and devices, and 0.5 where the form of the lines is all that they share."""
    found = compare(logged(tmp_path / "a", 900.0, UNKNOWN), logged(tmp_path / "b", 990.0, UNKNOWN))
    assert found.step.after.value / found.step.before.value == pytest.approx(1.1, rel=1e-3)
    assert found.comparability.score == round(0.5 * 0.9**3, 2)
    assert found.comparability.reasons == ("not stated by both: the model, the world size, the devices",)
    (note,) = found.notes
    assert note.endswith("the model, the world size, the devices; that they are the same was assumed.")


def test_outputs_that_state_nothing_of_the_job_are_refused_where_anything_contradicts(tmp_path: Path) -> None:
    unknown = logged(tmp_path / "a", 900.0, UNKNOWN)
    other_work = logged(tmp_path / "b", 900.0, UNKNOWN, global_batch_size=8)
    with pytest.raises(NotComparableError, match="another global_batch_size"):
        compare(unknown, other_work)
    (tmp_path / "c").mkdir()
    lines = "".join(f"Epoch: [0][{at}/99]\tTime 0.9{at % 3} ( 0.910)\tLoss 2.31 (2.30)\n" for at in range(40))
    (tmp_path / "c" / "job.out").write_text(lines)
    with pytest.raises(NotComparableError, match="not stated by both: the model, the world size, the devices"):
        compare(unknown, Profile(load_run([tmp_path / "c"])))


def test_other_samples_per_step_by_the_step_lines_count_as_other_work(tmp_path: Path) -> None:
    """Stated by the lines alone: half as comparable, and refused where nothing else is known."""
    before, after = (logged(tmp_path / name, 900.0, ("global_batch_size",)) for name in "ab")
    log = after.run.job_log
    assert log is not None
    log = replace(log, steps=log.steps.assign(samples=log.steps["samples"] * 2))
    found = compare(before, Profile(replace(after.run, job_log=log)))
    assert found.comparability.score == 0.45
    assert any(each.startswith("another number of samples per step") for each in found.comparability.reasons)


def test_settings_that_differ_are_listed_and_lower_the_comparability(tmp_path: Path) -> None:
    before = logged(tmp_path / "a")
    layout = compare(before, logged(tmp_path / "b", 800.0, micro_batch_size=2))
    assert [each.names for each in layout.changes] == [("micro_batch_size", "1", "2")]
    assert "no other setting that both state differs" in layout.changes[0].template
    assert layout.comparability.score == 0.72  # 0.8 * 0.9
    work = compare(before, logged(tmp_path / "c", 800.0, micro_batch_size=2, global_batch_size=8))
    assert work.comparability.score == 0.36  # 0.5 * 0.8 * 0.9


def test_jobs_of_other_models_or_with_hardly_anything_in_common_are_refused(tmp_path: Path) -> None:
    before = logged(tmp_path / "a")
    changed = {"micro_batch_size": 2, "global_batch_size": 8, "data_parallel_size": 4}
    less = compare(before, logged(tmp_path / "b", **changed))  # the first does not state its data-parallel size
    assert less.comparability.score == 0.36
    with pytest.raises(NotComparableError, match=r"comparability 0\.29 is below 0\.3"):
        compare(
            logged(tmp_path / "c", data_parallel_size=8),
            logged(tmp_path / "d", **changed),
        )


def linear(device: Device | None, width: int = 64) -> Profile:
    rank = RankBuilder(0, device=device)
    rank.operator("aten::linear", 10, 5, dims=[[8, width], [16, width]])
    rank.kernel("gemm", 20, 50)
    rank.step(0, 0, 100)
    return profile_of(rank)


def test_other_devices_are_compared_where_the_layers_show_the_same_model() -> None:
    npu = Device(0, "Ascend910B")
    found = compare(linear(A100), linear(npu))
    assert found.comparability.score == 0.5
    assert any("another device model" in each for each in found.comparability.reasons)
    with pytest.raises(NotComparableError, match="another device model"):
        compare(linear(A100), linear(npu, width=128))


def half_shared(device: Device, *widths: int) -> Profile:
    """A model of linear layers of these widths, other names on each device; the world size is not recorded."""
    rank = RankBuilder(0, device=device)
    for place, width in enumerate(widths):
        rank.operator("aten::linear", 2 * place + 10, 1, dims=[[8, width], [16, width]])
    for place in range(20):
        rank.operator(f"{device.name}::{place}", 2 * place + 40, 1)
    rank.kernel(f"gemm_{device.name}", 20, 50)
    rank.step(0, 0, 100)
    profile = profile_of(rank)
    return Profile(replace(profile.run, layout=Layout()))


def test_traces_below_the_least_comparability_are_refused_with_every_reason() -> None:
    npu = Device(0, "Ascend910B")
    above = compare(half_shared(A100, 64, 80, 96), half_shared(npu, 64, 80, 96, 112))
    assert above.comparability.score == 0.34  # 3 of 4 layers * 0.5 * 0.9
    with pytest.raises(NotComparableError) as refusal:
        compare(half_shared(A100, 64, 80, 96, 112), half_shared(npu, 64, 80, 96, 128))
    text = str(refusal.value)
    assert "comparability 0.27 is below 0.3" in text  # 3 of 5 layers * 0.5 * 0.9
    assert "60 % of their layers" in text
    assert "another device model" in text
    assert "the world size is not recorded of both runs" in text
