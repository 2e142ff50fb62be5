"""The time of day is set back or ahead by an hour while a training is recorded and watched."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import pytest

from hermes_agent.monitor import flush, session
from hermes_agent.monitor.session import Monitor
from hermes_agent.watch.agent import AgentOptions, NodeAgent, Noticed
from hermes_agent.watch.anomaly import AnomalyKind, Foreign
from hermes_agent.watch.rings import RunRings
from tests.hermes_agent.monitor.monitored import options
from tools.sources.monitor.reader import read_monitor

HOUR_NS = 3600 * 10**9


def nobody(_: set[int]) -> tuple[Foreign, ...]:
    return ()


@pytest.mark.parametrize("moved_ns", [-HOUR_NS, HOUR_NS, -(10**8)])
def test_no_time_falls_and_no_rank_seems_to_end(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch, moved_ns: int
) -> None:
    offset_ns = [0]
    for module in (flush, session):
        monkeypatch.setattr(module, "time_ns", lambda: time.time_ns() + offset_ns[0])
    agent = NodeAgent(run_folder, AgentOptions(foreign=nobody))
    noticed: list[Noticed] = []
    with Monitor(run_folder, rank=0, options=options()) as monitor:
        for step in range(90):
            if step == 45:
                offset_ns[0] = moved_ns
            gc.collect()
            time.sleep(0.004)
            monitor.step()
            noticed += agent.poll()
        assert agent.alive
    level = {AnomalyKind.SILENT, AnomalyKind.HANG}
    assert [each.anomaly.claim for each in noticed if each.anomaly.deviation.kind in level] == []
    assert agent.left_out.take() == []
    records = read_monitor(run_folder)
    assert list(records.steps["step"]) == list(range(90))
    assert (records.steps["end_unix_ns"].diff().iloc[1:] > 0).all()
    assert (records.steps["wall_ms"] > 0).all()
    assert records.steps["wall_ms"].max() < 60_000  # the hour is in no step
    assert (records.system["unix_ns"].diff().iloc[1:] > 0).all()
    assert (records.gc["end_unix_ns"].diff().iloc[1:] > 0).all()
    whole_ns = records.steps["end_unix_ns"].iloc[-1] - records.steps["end_unix_ns"].iloc[0]
    ahead_ns = max(moved_ns, 0)
    walked_ns = records.steps["wall_ms"].iloc[1:].sum() * 1e6 + ahead_ns
    assert whole_ns == pytest.approx(walked_ns, abs=1e6 + 1e3 * 90)


def test_a_start_after_the_clock_was_set_back_is_watched_instead_of_the_dead_one(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Monitor(run_folder, rank=0, options=options())
    rings = RunRings(run_folder)
    assert rings.refresh() == (0,)
    first._flusher.stop(5.0)
    first._ring.beat(time.time_ns(), 0, closed=True)  # it has ended, and its file is still there
    monkeypatch.setattr(session, "time_ns", lambda: time.time_ns() - HOUR_NS)
    with Monitor(run_folder, rank=0, options=options()) as second:
        second.step(step=7)
        assert rings.refresh() == (0,)
        assert [row.step for row in rings.new()[0]] == [7]
    first.close()
