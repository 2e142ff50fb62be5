from __future__ import annotations

from pathlib import Path

import pytest

from hermes_agent.monitor.session import Monitor
from hermes_agent.watch.rings import CaptureRequests, RequestLimits, RunRings, WantedCapture
from tests.hermes_agent.monitor.monitored import options


def wanted(cost_ms: float, named: bool = True) -> WantedCapture:
    return WantedCapture((0,), cost_ms, named)


@pytest.mark.parametrize(
    ("later_s", "second", "refused"),
    [
        pytest.param(10.0, wanted(14.0), "the last capture was less than 15 s ago", id="soon after"),
        pytest.param(10.0, wanted(15.0), "", id="soon after and half as bad again"),
        pytest.param(16.0, wanted(1.0), "", id="after the pause"),
    ],
)
def test_captures_keep_a_distance_unless_it_gets_worse(
    run_folder: Path, later_s: float, second: WantedCapture, refused: str
) -> None:
    with Monitor(run_folder, rank=0, options=options()):
        rings = RunRings(run_folder)
        rings.refresh()
        requests = CaptureRequests(run_folder, rings, RequestLimits())
        assert requests.by_itself(wanted(10.0), 5, now_s=1000.0).refused == ""
        assert requests.by_itself(second, 9, now_s=1000.0 + later_s).refused == refused


def test_the_pause_doubles_and_a_named_rank_need_not_wait_for_the_end_of_an_unclear_one(run_folder: Path) -> None:
    with Monitor(run_folder, rank=0, options=options()):
        rings = RunRings(run_folder)
        rings.refresh()
        requests = CaptureRequests(run_folder, rings, RequestLimits())
        asked = [
            (0.0, wanted(10.0, named=False), ""),
            (1.0, wanted(10.0), ""),
            (17.0, wanted(10.0), "the last capture was less than 30 s ago"),
            (32.0, wanted(10.0, named=False), ""),
            (200.0, wanted(10.0, named=False), "2 captures without a suspect were made within the hour"),
            (200.0, wanted(10.0), ""),
            (900.0, wanted(90.0), "4 captures were made within the hour"),
        ]
        assert [requests.by_itself(one, 5, now_s=at).refused for at, one, _ in asked] == [each for *_, each in asked]


def test_the_hour_goes_by(run_folder: Path) -> None:
    with Monitor(run_folder, rank=0, options=options()):
        rings = RunRings(run_folder)
        rings.refresh()
        requests = CaptureRequests(run_folder, rings, RequestLimits(per_hour=1))
        times = (0.0, 3599.0, 3601.0)
        refused = [requests.by_itself(wanted(100.0), 5, now_s=now).refused for now in times]
    assert refused == ["", "1 captures were made within the hour", ""]


def test_full_captures_are_a_reason_and_ids_go_on_after_those_in_the_folder(run_folder: Path) -> None:
    (run_folder / "capture-0041").mkdir()
    (run_folder / "capture-0041" / "rank0.pt.trace.json.gz").write_bytes(b"12345")
    with Monitor(run_folder, rank=0, options=options()):
        rings = RunRings(run_folder)
        rings.refresh()
        assert CaptureRequests(run_folder, rings, RequestLimits()).by_itself(wanted(1.0), 5, 0.0).request == 42
        full = CaptureRequests(run_folder, rings, RequestLimits(total_bytes=5)).by_itself(wanted(1.0), 5, 0.0)
    assert full.refused == "the captures fill 5 bytes"
