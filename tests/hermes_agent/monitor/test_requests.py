from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.monitor.session import Monitor
from hermes_agent.watch.rings import CaptureRequests, RequestLimits, RunRings
from tests.hermes_agent.monitor.monitored import options


@pytest.mark.parametrize(
    ("later_s", "cost_ms", "refused"),
    [
        pytest.param(10.0, 14.0, "the last capture was less than 60 s ago", id="soon after"),
        pytest.param(10.0, 15.0, "", id="soon after and half as bad again"),
        pytest.param(61.0, 1.0, "", id="a minute later"),
    ],
)
def test_captures_keep_a_distance_unless_it_gets_worse(
    run_folder: Path, later_s: float, cost_ms: float, refused: str
) -> None:
    with Monitor(run_folder, rank=0, options=options()):
        rings = RunRings(run_folder)
        rings.refresh()
        requests = CaptureRequests(run_folder, rings, RequestLimits())
        assert requests.by_itself([0], 5, 10.0, now_s=1000.0).refused == ""
        assert requests.by_itself([0], 9, cost_ms, now_s=1000.0 + later_s).refused == refused


def test_the_hour_goes_by(run_folder: Path) -> None:
    with Monitor(run_folder, rank=0, options=options()):
        rings = RunRings(run_folder)
        rings.refresh()
        requests = CaptureRequests(run_folder, rings, RequestLimits(per_hour=1))
        times = (0.0, 3599.0, 3601.0)
        refused = [requests.by_itself([0], 5, 100.0, now_s=now).refused for now in times]
    assert refused == ["", "1 captures were made within the hour", ""]


def test_full_captures_are_a_reason_and_ids_go_on_after_those_in_the_folder(run_folder: Path) -> None:
    (run_folder / "capture-0041").mkdir()
    (run_folder / "capture-0041" / "rank0.pt.trace.json.gz").write_bytes(b"12345")
    with Monitor(run_folder, rank=0, options=options()):
        rings = RunRings(run_folder)
        rings.refresh()
        assert CaptureRequests(run_folder, rings, RequestLimits()).by_itself([0], 5, 1.0, 0.0).request == 42
        full = CaptureRequests(run_folder, rings, RequestLimits(total_bytes=5)).by_itself([0], 5, 1.0, 0.0)
    assert full.refused == "the captures fill 5 bytes"
