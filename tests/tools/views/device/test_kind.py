"""The kind of hardware that a run computes on."""

from __future__ import annotations

import pytest

from tests.synthetic import H100, V100, RankBuilder, profile_of
from tools.run.events import EventKind
from tools.run.model import Device
from tools.views.device.kind import device_kind


@pytest.mark.parametrize(
    ("device", "kind"),
    [
        (H100, "nvidia"),
        (V100, "nvidia"),
        (Device(0, "AMD Instinct MI300X"), "amd"),
        (Device(0, "MTIA"), "accelerator"),
        (None, "host"),
    ],
)
def test_by_the_name_of_the_device(device: Device | None, kind: str) -> None:
    rank = RankBuilder(device=device)
    rank.operator("aten::mm", 0, 10)
    if device is not None:
        rank.event(EventKind.KERNEL, "work", 5, 10, rank.stream)
    rank.step(0, 0, 20)
    assert device_kind(profile_of(rank)) == kind


def test_by_its_runtime_calls_where_the_device_has_no_known_name() -> None:
    rank = RankBuilder(device=Device(0, "graphics"))
    rank.kernel("work", 5, 10, call_us=1)
    rank.step(0, 0, 20)
    assert device_kind(profile_of(rank)) == "nvidia"
