"""The forward that runs again inside the backward."""

from __future__ import annotations

import dataclasses

import pytest

from tests.asked import ask
from tests.synthetic import RankBuilder, profile_of
from tools.findings import Finding, Sentence
from tools.judgement.planned_settings import planned_setting
from tools.metrics.registry import measure
from tools.run.events import EventKind
from tools.views.profile import Profile
from tools.whatif.predict import predict

NODE = "autograd::engine::evaluate_function: GeluBackward0"


def checkpointed(device: bool = False, again: bool = True) -> Profile:
    """Two steps of 1000 us; in each one node of the backward computes a convolution again, for 100 us."""
    rank = RankBuilder() if device else RankBuilder(device=None)
    for step in range(2):
        at = 1000.0 * step
        rank.operator("aten::conv2d", at, 100)
        rank.operator(NODE, at + 300, 300)
        if again:
            rank.operator("aten::conv2d", at + 320, 80)
            rank.operator("aten::batch_norm", at + 400, 20)
        rank.operator("aten::gelu_backward", at + 420, 150)
        if device:
            rank.kernel("conv", at + 340, 200, call_us=at + 330)
            rank.kernel("gelu", at + 545, 100, call_us=at + 430)
        rank.step(step, at, at + 1000)
    return profile_of(rank)


def test_a_forward_inside_a_node_of_the_backward_is_recomputation() -> None:
    profile = checkpointed()
    check = ask(profile, "memory.recomputation")
    assert check.status == "found"
    assert (check.findings[0].cause, check.findings[0].mechanism) == ("memory_pressure", "recomputation")
    assert measure(profile, "recomputed_ms", rank=0).value == pytest.approx(0.1)
    assert measure(profile, "recomputed_regions", rank=0).value == 1
    assert predict(profile, check.findings[0].change).saving_ms == pytest.approx(0.1, rel=0.05)


def test_on_a_device_the_kernels_launched_there_count() -> None:
    assert measure(checkpointed(device=True), "recomputed_ms", rank=0).value == pytest.approx(0.2)


def test_a_backward_of_its_own_is_clean() -> None:
    assert ask(checkpointed(again=False), "memory.recomputation").status == "clean"


def test_without_a_backward_it_cannot_be_judged() -> None:
    rank = RankBuilder(device=None)
    rank.operator("aten::conv2d", 0, 100)
    rank.step(0, 0, 1000)
    assert ask(profile_of(rank), "memory.recomputation").status == "cannot_answer"


GIB = 2**30
DEVICE_BYTES = 34e9  # of the made-up device
HOST_US = 60  # of a recomputed region: the device, 100 us, would then wait for the host


def with_memory(*held_gib: float, reserved_gib: float, frame: str = "") -> Profile:
    """Two steps of 2000 us; node n recomputes for 100 us of the device and then holds ``held_gib[n]``."""
    rank = RankBuilder()
    for step in range(2):
        at = 2000.0 * step
        rank.operator("aten::linear", at, 50)
        for place, held in enumerate(held_gib):
            begin = at + 100 + 200 * place
            rank.operator(NODE, begin, 190)
            rank.operator("aten::linear", begin + 10, 50)
            rank.kernel("gemm", begin + 20, 100, call_us=begin + 15)
            for moment, size in ((12, held + 1.0), (40, -1.0)):  # a buffer of 1 GiB is freed again
                mark = rank.event(EventKind.INSTANT, "[memory]", begin + moment, 0)
                totals = {"total_allocated": 1, "total_reserved": int(reserved_gib * GIB)}
                rank.detail("memory", mark, bytes=int(size * GIB), **totals, device_type=1, device=0)
            rank.operator("aten::linear_backward", begin + 70, 100)
            rank.kernel("gemm backward", begin + 120, 60, call_us=begin + 75)
        if frame:
            rank.event(EventKind.PYTHON, frame, at + 1, 10)
        rank.step(step, at, at + 2000)
    return profile_of(rank)


def only(profile: Profile) -> Finding:
    (finding,) = ask(profile, "memory.recomputation").findings
    return finding


def test_what_memory_has_room_for_is_kept_and_no_more_is_predicted() -> None:
    profile = with_memory(8, 1, 3, 2, reserved_gib=20)  # 0.9 * 34 GB - 20 GiB leave 8.5 GiB: 1 + 2 + 3 fit
    spare = 0.9 * DEVICE_BYTES / GIB - 20
    assert measure(profile, "spare_memory_gib", rank=0).value == pytest.approx(spare)
    assert measure(profile, "kept_regions", rank=0).value == 3
    assert measure(profile, "recomputed_gib", rank=0).value == pytest.approx(14)
    assert measure(profile, "recomputed_gib", rank=0, which="kept").value == pytest.approx(6)
    finding = only(profile)
    assert predict(profile, finding.change).saving_ms == pytest.approx(3 * HOST_US / 1000, rel=0.05)
    assert [fact.value for fact in finding.details[0].facts] == pytest.approx([spare, 3, 6, 14])
    found = planned_setting(profile, finding)
    assert found is not None
    assert "Memory has room for {0} of {1} ({2} of {3} to spare): keep these" in found.sentence.template
    assert [fact.value for fact in found.sentence.facts] == pytest.approx([3, 4, 6, spare])


@pytest.mark.parametrize(
    ("frame", "setting"),
    [
        ("", "without `torch.utils.checkpoint`"),
        ("/x/transformers/trainer.py(10): step", "`gradient_checkpointing=False`"),
        ("/x/megatron/core/training.py(10): step", "without `--recompute-granularity`"),
    ],
)
def test_where_all_fit_recomputation_is_turned_off_in_the_framework_that_is_seen(frame: str, setting: str) -> None:
    profile = with_memory(1, 1, reserved_gib=10, frame=frame)
    found = planned_setting(profile, only(profile))
    assert found is not None
    assert setting in found.sentence.template
    assert found.sentence.facts[0].value == 2
    assert predict(profile, only(profile).change).saving_ms == pytest.approx(2 * HOST_US / 1000, rel=0.05)


def test_where_memory_has_no_room_for_one_region_recomputation_is_needed() -> None:
    check = ask(with_memory(8, 9, reserved_gib=25), "memory.recomputation")
    assert check.status == "clean"
    assert "no room for one region more" in check.support[0].template


def test_a_nearly_full_device_has_room_for_small_activations() -> None:
    profile = with_memory(0.25, 0.25, reserved_gib=27)  # 85 % of the device, 1.5 GiB to spare
    assert measure(profile, "device_memory_pct", rank=0).value == pytest.approx(100 * 27 * GIB / DEVICE_BYTES)
    assert measure(profile, "kept_regions", rank=0).value == 2
    assert only(profile).confidence > 0


def test_without_figures_of_memory_no_setting_is_advised() -> None:
    profile = checkpointed(device=True)
    found = planned_setting(profile, only(profile))
    assert found is not None
    assert found.setting == ""
    assert "whether memory has room for them was not recorded. profile_memory=True" in found.sentence.template
    assert found.sentence.facts[0].value == pytest.approx(0.2)
    on_host = checkpointed()
    said = planned_setting(on_host, only(on_host))
    assert said is not None
    assert "nvidia-smi" not in said.sentence.template


def full_and_allocating(reserved_gib: float | None, call_us: float = 300) -> Profile:
    """Three steps of 2000 us: 200 us of forward and 400 us of backward kernels, and a cudaMalloc."""
    rank = RankBuilder()
    for step in range(3):
        at = 2000.0 * step
        rank.runtime("cudaMalloc", at, call_us)
        rank.operator("aten::linear", at + call_us + 10, 50)
        rank.kernel("gemm", at + call_us + 20, 200, call_us=at + call_us + 15)
        rank.operator(NODE, at + call_us + 300, 100)
        rank.kernel("gemm backward", at + call_us + 330, 400, call_us=at + call_us + 310)
        if reserved_gib is not None:
            mark = rank.event(EventKind.INSTANT, "[memory]", at + 5, 0)
            totals = {"total_allocated": 1, "total_reserved": int(reserved_gib * GIB)}
            rank.detail("memory", mark, bytes=GIB, **totals, device_type=1, device=0)
        rank.step(step, at, at + 2000)
    return profile_of(rank)


@pytest.mark.parametrize(
    ("reserved_gib", "call_us", "said"),
    [
        (31.4, 300, "that pays (`checkpoint_sequential(segments=...)`)"),
        (31.4, 150, "costs more than it saves"),
        (None, 300, "Whether memory is full was not recorded"),
    ],
)
def test_where_memory_is_full_recomputation_is_advised_with_its_price(
    reserved_gib: float | None, call_us: float, said: str
) -> None:
    profile = full_and_allocating(reserved_gib, call_us)
    finding = Finding("memory_pressure", only_claim(profile), 0.8, "allocator_retry", ranks=(0,))
    found = planned_setting(profile, finding)
    assert found is not None
    assert said in found.sentence.template
    prices = [fact.value for fact in found.sentence.facts][-2:]
    assert prices == pytest.approx([0.2, call_us / 1000])


def test_where_memory_is_not_full_no_recomputation_is_advised() -> None:
    profile = full_and_allocating(10)
    finding = Finding("memory_pressure", only_claim(profile), 0.8, "allocator_retry", ranks=(0,))
    assert planned_setting(profile, finding) is None
    again = with_memory(8, 9, reserved_gib=31)
    assert planned_setting(again, dataclasses.replace(finding, ranks=(0,))) is None  # recomputed already


def only_claim(profile: Profile) -> Sentence:
    return Sentence("", (measure(profile, "allocation_ms", rank=0),))
