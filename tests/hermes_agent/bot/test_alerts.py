"""Alerts of the monitor: what is new in a run folder, and its diagnosis in the thread."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hermes_agent.bot.alerts import PER_HOUR, SETTLED_S, Alert, AlertWatch
from hermes_agent.bot.announce import Announcer, Watched
from hermes_agent.bot.platform import Place
from hermes_agent.demo.data import demo_run
from hermes_agent.monitor.format import anomalies_file, capture_folder
from hermes_agent.watch.anomaly import Anomaly, AnomalyKind, Deviation, Suspect
from hermes_agent.watch.journal import Journal, line_of
from hermes_agent.watch.left_out import LeftOut
from tests.hermes_agent.bot.channel import Room
from tools.errors import InputError

CLAIM = "Since step 40 a step takes 12.0 ms, 20 % over the 10.0 ms before; rank 3: data wait took 2.0 ms more."


class Clock:
    """Seconds that pass when told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def noticed(folder: Path, host: str = "gpu-1", *, times: int = 1) -> None:
    """Write what an agent writes for a change on rank 3."""
    (folder / "monitor").mkdir(exist_ok=True)
    anomaly = Anomaly(Deviation(AnomalyKind.CHANGE, 40, 44, 10.0, 12.0), Suspect(3, "data wait", 2.0))
    journal = Journal(anomalies_file(folder, host), LeftOut())
    for _ in range(times):
        journal.add(line_of(anomaly, 1, ()))


def test_only_what_is_new_is_announced(tmp_path: Path) -> None:
    noticed(tmp_path)
    watch = AlertWatch(tmp_path)
    assert watch.look().alerts == ()
    noticed(tmp_path)
    noticed(tmp_path, "gpu-2")
    alerts = watch.look().alerts
    assert alerts == (Alert("change", 3, f"{CLAIM[:1].lower()}{CLAIM[1:-1]}"),) * 2
    assert watch.look().alerts == ()


def test_lines_that_are_cut_or_no_anomalies_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "monitor").mkdir()
    watch = AlertWatch(tmp_path)
    file = anomalies_file(tmp_path, "gpu-1")
    file.write_bytes(b'{"kind": 3}\n[]\n\xff\xfe\n' + b"[" * 5000 + b"\n")
    assert watch.look().alerts == ()
    noticed(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])  # a line that is just being written
    assert watch.look().alerts == ()
    file.write_bytes(whole)
    assert len(watch.look().alerts) == 1
    file.unlink()
    file.symlink_to("/etc/passwd")
    assert watch.look().alerts == ()


def test_a_flood_of_anomalies_is_counted_not_announced(tmp_path: Path) -> None:
    clock = Clock()
    (tmp_path / "monitor").mkdir()
    watch = AlertWatch(tmp_path, clock)
    noticed(tmp_path, times=PER_HOUR + 5)
    assert len(watch.look().alerts) == PER_HOUR
    clock.now = 3601.0
    noticed(tmp_path)
    (alert,) = watch.look().alerts
    assert alert.left_out == 5


def test_a_capture_is_complete_when_no_trace_is_added_any_more(tmp_path: Path) -> None:
    clock = Clock()
    watch = AlertWatch(tmp_path, clock)
    folder = capture_folder(tmp_path, 1)
    folder.mkdir()
    (tmp_path / "capture-9999").symlink_to("/tmp")
    assert watch.look().captures == ()
    for rank in (0, 1):
        (folder / f"rank{rank}.pt.trace.json.gz").write_bytes(b"x")
        watch.look()
        clock.now += SETTLED_S - 1
        assert watch.look().captures == ()
    clock.now += SETTLED_S
    assert watch.look().captures == (folder,)
    assert watch.look().captures == ()


def test_a_folder_that_cannot_be_listed_is_named(tmp_path: Path) -> None:
    (tmp_path / "monitor").write_text("no folder")
    with pytest.raises(InputError, match=r"cannot be watched for alerts"):
        AlertWatch(tmp_path)


async def test_an_alert_is_posted_and_the_captures_diagnosis_follows_in_its_thread(
    tmp_path: Path, shared_cache: Path
) -> None:
    clock = Clock()
    folder = tmp_path / "run"
    folder.mkdir()
    room = Room(tmp_path, shared_cache)
    announcer = Announcer(room.bot, Watched("slow", folder, Place("", "C1")), AlertWatch(folder, clock))
    await announcer.look()
    assert not room.channel.messages
    noticed(folder)
    await announcer.look()
    assert room.channel.last == f"slow: change\n{CLAIM}"
    capture = capture_folder(folder, 1)
    capture.mkdir()
    for trace in demo_run().glob("*.pt.trace.json.gz"):
        os.link(trace, capture / trace.name)
    await announcer.look()
    clock.now = SETTLED_S + 1
    await announcer.look()
    assert room.channel.threads == {"m1": "m1", "m2": "m1"}
    assert "heavy data transforms on rank 1" in room.channel.last
    assert "108 ms" in await room.ask("how long does a step take?", "m1")
    assert not room.reports


async def test_what_fails_while_watching_is_reported(tmp_path: Path, shared_cache: Path) -> None:
    room = Room(tmp_path, shared_cache)
    folder = tmp_path / "run"
    folder.mkdir()
    announcer = Announcer(room.bot, Watched("slow", folder, Place("", "C1")), AlertWatch(folder))
    noticed(folder)
    room.channel.broken = True
    await announcer.look()
    assert room.reports == ["alerts of slow: the test refuses"]
    assert json.loads(anomalies_file(folder, "gpu-1").read_text())["kind"] == "change"
