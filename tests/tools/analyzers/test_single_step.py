"""What the host does in the only recorded step of a device is a lead: the other steps may look different."""

from __future__ import annotations

import pytest

from tests.synthetic import RankBuilder, profile_of
from tools.analyzers.registry import check_of
from tools.findings import Finding
from tools.run.events import EventKind
from tools.run.model import Device
from tools.views.device.kind import device_kind

LAUNCHES, EVERY_US, WORK_US = 100, 50, 10


def small_operators(steps: int, device: str) -> Finding:
    """Each step launches a kernel of 10 us every 50 us, one after the other."""
    rank, at = RankBuilder(device=Device(0, device)), 0.0
    for step in range(steps):
        begun = at
        for link in range(LAUNCHES):
            number = 1 + step * LAUNCHES + link
            call = "cudaLaunchKernel" if device.startswith("NVIDIA") else "runFunction - launch kernel"
            rank.runtime(call, at, 2, correlation=number)
            rank.event(EventKind.KERNEL, "add", at + 15, WORK_US, rank.stream, correlation=number)
            at += EVERY_US
        rank.step(step, begun, at)
    profile = profile_of(rank)
    assert device_kind(profile) == ("nvidia" if device.startswith("NVIDIA") else "accelerator")
    check = check_of(profile, "cpu.small_operators")
    assert check is not None
    (finding,) = check.findings
    return finding


@pytest.mark.parametrize(("steps", "sure"), [(1, False), (4, True)])
def test_one_step_is_low_confidence(steps: int, sure: bool) -> None:
    finding = small_operators(steps, "NVIDIA H100")
    assert (finding.confidence >= 0.5) == sure
    assert any("One step was recorded" in each.template for each in finding.against) != sure


@pytest.mark.parametrize(("device", "graphs"), [("NVIDIA H100", True), ("MTIA", False)])
def test_only_devices_that_replay_graphs_are_asked_to(device: str, graphs: bool) -> None:
    assert ("CUDA graph" in small_operators(4, device).disproved_by) == graphs
