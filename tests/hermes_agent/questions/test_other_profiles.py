"""Questions to a py-spy recording, an allocator snapshot or a host's record alone."""

from __future__ import annotations

from pathlib import Path

from hermes_agent.questions.intents import reply
from tests.hermes_agent.questions.discussed import discuss
from tests.tools.sources.collect_env.test_environments import TEXT
from tests.tools.sources.memory_snapshot.test_snapshots import MIB, block, snapshot, written
from tests.tools.sources.py_spy.test_stacks import DATA, STEP, speedscope
from tools.sources.load import load_run
from tools.views.profile import Profile


def test_the_host_by_its_stacks_and_what_they_do_not_show(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(speedscope((DATA, 30), (STEP, 20)))
    text = reply(discuss(Profile(load_run([tmp_path / "a.json"]))), "where does the host spend its time?").text
    assert text.startswith("Of 50 samples [E")
    assert "60.0 % [E" in text
    assert "`decode (images.py:12)`" in text
    assert "Not assessable from these sources" in text


def test_the_peak_of_a_snapshot(tmp_path: Path) -> None:
    path = written(tmp_path / "a.pickle", snapshot([[block(1, 100 * MIB)]]))
    text = reply(discuss(Profile(load_run([path]))), "what is the peak memory?").text
    assert text.startswith("Live allocations peak at 105 MB [E")


def test_versions_with_the_line_that_states_them(tmp_path: Path) -> None:
    (tmp_path / "env.txt").write_text(TEXT)
    discussion = discuss(Profile(load_run([tmp_path / "env.txt"])))
    assert "`torch` `2.3.0+cu121` (`env.txt`, line 2)" in reply(discussion, "which PyTorch version?").text
    assert "`driver` `535.104.05` (`env.txt`, line 16)" in reply(discussion, "which driver version?").text
