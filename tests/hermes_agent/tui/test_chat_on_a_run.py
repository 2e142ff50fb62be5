"""The chat on the bundled run, with the real session behind it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_agent.cli.commands.chat import openings
from hermes_agent.config.settings import Settings
from hermes_agent.demo.data import demo_fixed_run, demo_run
from hermes_agent.locations.places import RunUrl
from hermes_agent.model.events import Stage, StageFinished, ignore
from hermes_agent.model.request import Request
from hermes_agent.questions.material import never
from hermes_agent.sessions.store import SessionStore
from hermes_agent.tui.app import HermesChat
from hermes_agent.tui.messages import SectionMessage
from hermes_agent.tui.screens import EvidenceScreen
from hermes_agent.tui.work import Happened
from tests.hermes_agent.tui.driving import WIDE, idle, said, typed


def test_a_run_at_a_url_is_copied_when_it_is_opened(own_cache: Path) -> None:
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    ways = openings(Request(paths=(), cache_dir=own_cache), Settings(cache_dir=own_cache))
    session = ways.path((RunUrl(f"file://{demo_run()}"),))
    assert session.diagnose(ignore, never).causes[0].ranks == [1]
    assert len([path for path in (own_cache / "fetched").iterdir() if path.is_dir()]) == 1
    session.close()


async def test_the_bundled_run_is_diagnosed_discussed_and_measured_again(index_only: Path) -> None:
    settings = Settings(cache_dir=index_only)
    app = HermesChat(lambda: openings(Request(paths=(), cache_dir=index_only), settings))
    async with app.run_test(size=WIDE) as pilot:
        await typed(pilot, "/demo", wait_s=60.0)
        assert "1. Heavy data transforms" in said(app)
        assert app.controller.diagnosis.causes[0].ranks == [1]
        await typed(pilot, "which rank is the slowest?", wait_s=60.0)
        assert "Rank 1 is the slowest" in said(app)
        first = app.query(SectionMessage).first(SectionMessage)
        await typed(pilot, f"/show {first.cited[0]}", wait_s=60.0)
        assert isinstance(app.screen, EvidenceScreen)
        assert app.screen.query(".agrees")


async def test_two_runs_are_compared_and_an_advice_is_confirmed(own_cache: Path) -> None:
    settings = Settings(cache_dir=own_cache)
    app = HermesChat(lambda: openings(Request(paths=(demo_run(),), cache_dir=own_cache), settings))
    async with app.run_test(size=WIDE) as pilot:
        await typed(pilot, f"/open {demo_fixed_run()}", wait_s=60.0)
        await typed(pilot, "/compare @slow @fixed", wait_s=60.0)
        assert "The average unprofiled step fell from 94.4 ms to 48.5 ms." in said(app)
        await typed(pilot, "@slow")
        await typed(pilot, "/confirm A1 @fixed", wait_s=60.0)
        assert "Measured speedup 1.95x; predicted" in said(app)
        await typed(pilot, f"/export {own_cache / 'talk.md'}")
        written = (own_cache / "talk.md").read_text()
        assert written.count("\n#### Causes, largest saving first\n") == 1
        assert "\n- **phases**: " in written
        assert "> /compare @slow @fixed\n\n**From @slow to @fixed**\n\nThe average unprofiled step fell" in written
        assert "> /confirm A1 @fixed\n\n**A1 put to the test**\n\n" in written
        await typed(pilot, "/timeline", wait_s=60.0)
        assert "Step 43, the longest: what each rank does, over time" in said(app)


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from hermes_agent.cli.commands.chat import openings
from hermes_agent.config.settings import Settings
from hermes_agent.demo.data import demo_run
from hermes_agent.model.events import Stage, StageFinished
from hermes_agent.model.request import Request
from hermes_agent.tui.app import HermesChat
from hermes_agent.tui.work import Happened

async def happened(message: Happened) -> None:
    if isinstance(message.event, StageFinished) and message.event.stage == Stage.PREDICT:
        os.kill(os.getpid(), signal.SIGKILL)

async def main() -> None:
    cache = Path(sys.argv[1])
    app = HermesChat(lambda: openings(Request(paths=(demo_run(),), cache_dir=cache), Settings(cache_dir=cache)))
    app.controller.happened = happened
    async with app.run_test() as pilot:
        await pilot.pause(60)

asyncio.run(main())
"""


async def test_a_chat_that_was_killed_while_it_diagnosed_goes_on_after_the_last_kept_step(index_only: Path) -> None:
    own = {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", KILLED, str(index_only)], env=os.environ | own, check=False)
    assert done.returncode == -signal.SIGKILL
    (row,) = SessionStore(index_only).sessions()
    ways = openings(Request(paths=(), cache_dir=index_only), Settings(cache_dir=index_only), resume=row.id)
    app, finished = HermesChat(lambda: ways), set[Stage]()
    happened = app.controller.happened

    async def noting(message: Happened) -> None:
        if isinstance(message.event, StageFinished):
            finished.add(message.event.stage)
        await happened(message)

    app.controller.happened = noting  # type: ignore[method-assign]
    async with app.run_test(size=WIDE) as pilot:
        await idle(pilot, wait_s=60.0)
        assert "1. Heavy data transforms" in said(app)
        progress = app.controller.runs.current.progress
        assert len(progress.checks) == len(app.controller.diagnosis.checks)
        assert not {Stage.COARSE, Stage.INTER_OPERATOR, Stage.FAMILIES, Stage.EXPLAIN} & finished
        assert SessionStore(index_only).open(row.id).pending == ""
        assert SessionStore(index_only).open(row.id).records
