from __future__ import annotations

import os
from pathlib import Path

import pytest

from hermes_agent.monitor.format import RECORD, STATE, STATE_AT, ring_folders
from hermes_agent.watch.ring_reader import RingReader
from hermes_agent.watch.rings import RunRings, is_abandoned, recover
from tests.hermes_agent.monitor.monitored import start_script
from tools.sources.monitor.reader import read_monitor

KILLED = """
import os, signal, sys, time
from hermes_agent.monitor import Monitor, Options
from hermes_agent.monitor.flush import FlushPlan
monitor = Monitor(sys.argv[1], rank=7, options=Options(capacity=64, plan=FlushPlan(flush_s=0.3)))
for step in range(20):
    monitor.step()
time.sleep(0.5)
for step in range(20):
    monitor.step()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def killed(run_folder: Path) -> Path:
    """The ring of a process that was killed with half of its steps flushed."""
    start_script(KILLED, str(run_folder)).wait(30)
    (ring,) = ring_folders(run_folder)[0].glob("*.ring")
    return ring


def make_silent(ring: Path) -> None:
    """Make the last heartbeat a minute old."""
    with ring.open("r+b") as file:
        file.seek(STATE_AT)
        steps, heartbeat_ns, closed, unix_at_zero_ns = STATE.unpack(file.read(STATE.size))
        file.seek(STATE_AT)
        file.write(STATE.pack(steps, heartbeat_ns - 60_000_000_000, closed, unix_at_zero_ns))


def flushed(run_folder: Path) -> list[int]:
    """What the step file alone holds."""
    return list(read_monitor(run_folder).steps["step"])


def test_what_was_not_flushed_is_brought_over_and_the_ring_removed(run_folder: Path, killed: Path) -> None:
    (file,) = (run_folder / "monitor").glob("*.steps")
    with file.open("ab") as torn:
        torn.write(b"\1" * 30)
    ring = RingReader(killed)
    assert is_abandoned(ring)
    assert recover(ring, run_folder) == 20
    assert not killed.exists()
    records = read_monitor(run_folder)
    assert list(records.steps["step"]) == list(range(40))
    assert records.notes == ()


def test_half_a_record_is_cut_off_also_where_nothing_is_missing(run_folder: Path, killed: Path) -> None:
    (file,) = (run_folder / "monitor").glob("*.steps")
    rows = [RECORD.pack(*row) for row in RingReader(killed).new()]
    whole = file.read_bytes() + b"".join(rows[20:])
    file.write_bytes(whole + rows[0][:50])
    assert recover(RingReader(killed), run_folder) == 0
    assert file.read_bytes() == whole


def test_a_ring_whose_file_is_gone_is_left_alone(run_folder: Path, killed: Path) -> None:
    (file,) = (run_folder / "monitor").glob("*.steps")
    file.unlink()
    assert recover(RingReader(killed), run_folder) == 0
    assert killed.exists()


def test_the_agent_clears_up_after_an_earlier_run_and_does_not_watch_it(run_folder: Path, killed: Path) -> None:
    make_silent(killed)
    rings = RunRings(run_folder)
    assert rings.refresh() == ()
    assert rings.ranks() == ()
    assert not killed.exists()
    assert flushed(run_folder) == list(range(40))


def test_the_ring_of_a_process_that_still_exists_is_not_taken_from_it(run_folder: Path, killed: Path) -> None:
    ring = RingReader(killed)
    ring.head.pid = os.getpid()
    assert not is_abandoned(ring)


def test_steps_that_the_agent_has_seen_and_nobody_wrote_are_brought_over_as_well(
    run_folder: Path, killed: Path
) -> None:
    rings = RunRings(run_folder)
    assert rings.refresh() == (7,)
    assert [row.step for row in rings.new()[7]] == list(range(40))
    make_silent(killed)
    assert not rings.state(7).alive
    rings.drop(7)
    assert not killed.exists()
    assert flushed(run_folder) == list(range(40))
