from __future__ import annotations

import time
from pathlib import Path

import pytest

from hermes_agent.monitor.capture import CaptureLimits, TorchProfiler
from hermes_agent.monitor.format import CAPTURE_ENDED, CAPTURED, REQUEST_AT, Answer
from hermes_agent.monitor.ring import CaptureRequest
from hermes_agent.monitor.session import Monitor
from hermes_agent.watch.rings import RunRings
from tests.hermes_agent.monitor.monitored import BrokenProfiler, FakeProfiler, options
from tools.sources.monitor.reader import read_monitor

RANK = 3


def rings_of(run_folder: Path) -> RunRings:
    rings = RunRings(run_folder)
    assert rings.refresh() == (RANK,)
    return rings


def wait_for(rings: RunRings, request: int, *answers: int) -> tuple[int, int, int, str]:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        answer = rings[RANK].answer()
        if answer[0] == request and answer[1] in answers:
            return answer
        time.sleep(0.005)
    raise AssertionError(f"request {request} was not answered as awaited, but {rings[RANK].answer()}")


def test_the_steps_asked_for_are_profiled_and_training_goes_on(run_folder: Path) -> None:
    with Monitor(run_folder, rank=RANK, options=options()) as monitor:
        rings = rings_of(run_folder)
        for _ in range(5):
            monitor.step()
        rings[RANK].ask(CaptureRequest(1, 3))
        for _ in range(4):
            monitor.step()
        wait_for(rings, 1, Answer.WRITTEN)
        for _ in range(4):
            monitor.step()
        flags = [row.flags for row in rings.new()[RANK]]
    assert (run_folder / "capture-0001" / "rank3.pt.trace.json.gz").read_text(encoding="utf-8") == "6 7 8"
    assert [step for step, each in enumerate(flags) if each & CAPTURED] == [6, 7, 8]
    assert [step for step, each in enumerate(flags) if each & CAPTURE_ENDED] == [9]
    records = read_monitor(run_folder)
    assert records.captures[["rank", "request", "first_step", "last_step", "bytes"]].values.tolist() == [
        [3, 1, 6, 8, 5]
    ]
    assert list(records.steps.loc[records.steps["captured"], "step"]) == [6, 7, 8, 9]


def test_a_capture_begins_at_the_step_that_was_named(run_folder: Path) -> None:
    with Monitor(run_folder, rank=RANK, options=options()) as monitor:
        rings = rings_of(run_folder)
        rings[RANK].ask(CaptureRequest(1, 2, first_step=7))
        for _ in range(10):
            monitor.step()
        wait_for(rings, 1, Answer.WRITTEN)
    trace = run_folder / "capture-0001" / "rank3.pt.trace.json.gz"
    assert trace.read_text(encoding="utf-8") == "7 8"
    (run_folder / "usual").touch()
    assert trace.stat().st_mode == (run_folder / "usual").stat().st_mode  # as readable as any file of this user


def test_a_capture_that_training_does_not_live_to_finish_is_written_at_the_end(run_folder: Path) -> None:
    with Monitor(run_folder, rank=RANK, options=options()) as monitor:
        rings = rings_of(run_folder)
        rings[RANK].ask(CaptureRequest(1, 20))
        for _ in range(3):
            monitor.step()
    assert rings[RANK].answer()[:2] == (1, Answer.WRITTEN)
    assert (run_folder / "capture-0001" / "rank3.pt.trace.json.gz").read_text(encoding="utf-8") == "1 2 3"


@pytest.mark.parametrize(
    ("limits", "steps", "reason"),
    [
        pytest.param(CaptureLimits(steps=2), 3, "3 steps requested, 1 to 2 allowed", id="too many steps"),
        pytest.param(CaptureLimits(), 0, "0 steps requested", id="no step"),
        pytest.param(CaptureLimits(captures=0), 1, "0 captures were made within 3600 s", id="captures an hour"),
        pytest.param(CaptureLimits(total_bytes=5), 1, "the captures fill 5 bytes", id="bytes"),
    ],
)
def test_a_request_beyond_the_limits_is_refused_with_the_reason(
    run_folder: Path, limits: CaptureLimits, steps: int, reason: str
) -> None:
    (run_folder / "capture-0001").mkdir()
    (run_folder / "capture-0001" / "rank0.pt.trace.json.gz").write_bytes(b"12345")
    with Monitor(run_folder, rank=RANK, options=options(limits=limits)) as monitor:
        rings = rings_of(run_folder)
        rings[RANK].ask(CaptureRequest(2, steps))
        for _ in range(3):
            monitor.step()
        request, answer, step, said = rings[RANK].answer()
        assert (request, answer, step) == (2, Answer.REFUSED, 0)
        assert said.startswith(reason)
        assert all(row.flags & CAPTURED == 0 for row in rings.new()[RANK])
    assert not (run_folder / "capture-0002").exists()
    assert any(reason in note for note in read_monitor(run_folder).notes)


def test_only_so_many_captures_are_made_in_an_hour(run_folder: Path) -> None:
    with Monitor(run_folder, rank=RANK, options=options(limits=CaptureLimits(captures=2))) as monitor:
        rings = rings_of(run_folder)
        answers = []
        for number in (1, 2, 3):
            rings[RANK].ask(CaptureRequest(number, 1))
            for _ in range(3):
                monitor.step()
            answers.append(wait_for(rings, number, Answer.WRITTEN, Answer.REFUSED)[1])
    assert answers == [Answer.WRITTEN, Answer.WRITTEN, Answer.REFUSED]


def test_a_profiler_that_cannot_start_is_a_refusal_and_training_goes_on(run_folder: Path) -> None:
    with Monitor(run_folder, rank=RANK, options=options(profiler=BrokenProfiler)) as monitor:
        rings = rings_of(run_folder)
        rings[RANK].ask(CaptureRequest(1, 2))
        for _ in range(3):
            monitor.step()
        assert rings[RANK].answer() == (1, Answer.REFUSED, 1, "another profiler is running in this process")
        assert monitor.on


def test_a_trace_that_cannot_be_written_is_told_and_training_goes_on(run_folder: Path) -> None:
    (run_folder / "capture-0001").write_text("in the way", encoding="utf-8")
    with Monitor(run_folder, rank=RANK, options=options()) as monitor:
        rings = rings_of(run_folder)
        rings[RANK].ask(CaptureRequest(1, 1))
        for _ in range(3):
            monitor.step()
        wait_for(rings, 1, Answer.FAILED)
        monitor.step()
        assert monitor.on


def test_a_damaged_request_is_not_followed(run_folder: Path) -> None:
    with Monitor(run_folder, rank=RANK, options=options()) as monitor:
        rings = rings_of(run_folder)
        rings[RANK].ask(CaptureRequest(1, 2))
        monitor._ring.map[REQUEST_AT + 8] ^= 1
        for _ in range(3):
            monitor.step()
        assert rings[RANK].answer()[0] == 0
    assert list(run_folder.glob("capture-*")) == []


def test_a_profiler_that_fails_on_the_way_ends_the_monitor_and_not_the_training(
    run_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Failing(FakeProfiler):
        def step(self) -> None:
            raise RuntimeError("no memory left on the device")

    with Monitor(run_folder, rank=RANK, options=options(profiler=Failing)) as monitor:
        rings_of(run_folder)[RANK].ask(CaptureRequest(1, 3))
        for _ in range(5):
            monitor.step()
        assert not monitor.on
    assert "no memory left on the device" in capsys.readouterr().err


def test_without_torch_a_capture_is_refused() -> None:
    import sys

    if "torch" in sys.modules:
        pytest.skip("torch is loaded in this process")
    with pytest.raises(RuntimeError, match="torch is not loaded"):
        TorchProfiler().start(0, 1)
