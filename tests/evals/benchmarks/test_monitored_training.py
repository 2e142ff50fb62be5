"""A fault in a real training on two ranks, seen live, captured and explained; needs the extra ``lab``."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from hermes_agent.model.events import Event
from hermes_agent.model.request import Request
from hermes_agent.watch.agent import AgentOptions, NodeAgent, Noticed
from hermes_agent.watch.anomaly import AnomalyKind
from hermes_agent.watch.rings import RequestLimits
from hermes_agent.workflow.diagnose import diagnose
from tools.sources.monitor.reader import read_monitor

pytest.importorskip("torch", reason="torch is not installed (extra `lab`)")

FAULT_AT = 200
STEPS = 300
CHANGES = (AnomalyKind.CHANGE, AnomalyKind.RANK_CHANGE)
# What a rank that prepares its data in the training process can be said to suffer from.
SLOW_DATA = {"slow_data_processing", "data_skew"}
# What other work on the machine that runs this test does to it, rightly named next to the fault.
OF_THE_MACHINE = {"cpu_contention"}


def ignore(_: Event) -> None:
    pass


def test_slow_data_on_rank_1_is_seen_within_ten_steps_captured_without_a_restart_and_explained(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    words = (str(folder), "--steps", str(STEPS), "--fault-at", str(FAULT_AT), "--passes", "400")
    training = subprocess.Popen([sys.executable, "-m", "evals.benchmarks.monitored_training", *words])
    agent = NodeAgent(folder, AgentOptions(limits=RequestLimits(per_hour=20, apart_s=0.0), foreign=lambda _: ()))
    noticed: list[Noticed] = []
    deadline = time.monotonic() + 55
    while training.poll() is None and time.monotonic() < deadline:
        noticed += agent.poll()
        time.sleep(agent.pause_s)
    assert training.wait(10) == 0
    changes = [each for each in noticed if each.anomaly.deviation.kind in CHANGES]
    late = [each for each in changes if each.anomaly.deviation.noticed >= FAULT_AT and each.anomaly.rank == 1]
    assert late, [each.anomaly.claim for each in noticed]
    assert late[0].anomaly.deviation.noticed < FAULT_AT + 10
    assert late[0].anomaly.suspect is not None
    assert late[0].anomaly.suspect.part == "data wait"
    records = read_monitor(folder)
    # Where other work makes this rank suspect at the same time, its capture may be the one that is granted.
    asked = {each.capture.request for each in noticed if each.anomaly.rank == 1 and each.capture is not None}
    captures = records.captures[(records.captures["first_step"] > FAULT_AT) & records.captures["request"].isin(asked)]
    assert set(captures["rank"]) == {0, 1}  # the suspect, and the other rank to compare it with
    capture = folder / f"capture-{captures['request'].iloc[0]:04d}"
    assert sorted(each.name for each in capture.iterdir()) == [f"rank{rank}.pt.trace.json.gz" for rank in (0, 1)]
    assert all(each.attempt == 0 and each.steps == STEPS and each.ended_in_order for each in records.ranks)
    diagnosis = diagnose(Request(paths=(capture,), cache_dir=tmp_path / "cache"), ignore)
    of_the_training = [each.cause for each in diagnosis.causes if each.cause not in OF_THE_MACHINE]
    assert of_the_training[0] in SLOW_DATA
