"""The pictures of the chat in docs: the real app on the bundled run. ``python -m evals.pages.chat_pictures docs``.

The first process asks its questions and ends itself with SIGKILL; the second one opens the kept session again. Both
work in a folder with copies of the runs, so that no path of this machine is shown.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from textual.pilot import Pilot

from evals.suite.run_places import RECORDED
from hermes_agent.cli.commands.chat import openings
from hermes_agent.config.settings import Settings
from hermes_agent.demo.data import demo_run
from hermes_agent.model.request import Request
from hermes_agent.sessions.store import SessionStore
from hermes_agent.tui.app import HermesChat

RUN = "slow"
UNEXPLAINED = "heap_out_of_step"  # a run of the lab in which hypotheses compete
SIZE = (120, 38)
LOOK_S = 0.05
QUIET_LOOKS = 6
KILLED = -signal.SIGKILL


async def typed(pilot: Pilot[int], line: str) -> None:
    """Type a line and wait until its work is done and drawn."""
    app = pilot.app
    assert isinstance(app, HermesChat)
    app.prompt.fill(line)
    await pilot.press("enter")
    await settled(pilot)


async def settled(pilot: Pilot[int]) -> None:
    """Wait until nothing runs at several looks in a row."""
    app = pilot.app
    assert isinstance(app, HermesChat)
    quiet = 0
    while quiet < QUIET_LOOKS:
        await pilot.pause(LOOK_S)
        quiet = 0 if app.controller.busy else quiet + 1


def chat(cache: Path, resume: str | None = None) -> HermesChat:
    """The chat as the command opens it, with a cursor that does not blink."""
    settings = Settings(cache_dir=cache)
    app = HermesChat(lambda: openings(Request(paths=(), cache_dir=cache), settings, resume))
    app.prompt.cursor_blink = False
    return app


async def before_the_end(cache: Path, folder: Path) -> None:
    """Diagnose, ask, open evidence, draw; then end as a process does that is killed."""
    app = chat(cache)

    def save(name: str) -> None:
        (folder / f"{name}.svg").write_text(app.export_screenshot(title="Hermes"))

    async with app.run_test(size=SIZE) as pilot:
        await typed(pilot, f"/open {RUN}")
        save("chat")
        await typed(pilot, "ten slowest kernels of rank 1 in step 43")
        await typed(pilot, "and rank 0?")
        save("chat_tools")
        await typed(pilot, "/show E1")
        save("chat_evidence")
        await pilot.press("escape")
        await typed(pilot, "/series")
        await typed(pilot, "/heatmap")
        save("chat_steps")
        await typed(pilot, f"/whatif {app.controller.diagnosis.causes[0].cause}")
        await typed(pilot, "show me the timeline")
        await typed(pilot, "/critical-path")
        save("chat_pictures")
        os.kill(os.getpid(), signal.SIGKILL)


async def resumed(cache: Path, folder: Path) -> None:
    """Open the kept session again, as ``hermes-dx chat --resume ID`` does, then a second run."""
    identifier = SessionStore(cache).sessions()[0].id
    app = chat(cache, identifier)
    async with app.run_test(size=SIZE) as pilot:
        await settled(pilot)
        await typed(pilot, "why not the network?")
        (folder / "chat_resumed.svg").write_text(app.export_screenshot(title="Hermes"))
        await typed(pilot, f"/open {UNEXPLAINED}")
        await typed(pilot, "/hypotheses")
        (folder / "chat_hypotheses.svg").write_text(app.export_screenshot(title="Hermes"))


def main() -> None:
    """Write the pictures into the folder named on the command line."""
    folder = Path(sys.argv[1]).resolve()
    if len(sys.argv) > 2:
        asyncio.run(before_the_end(Path(sys.argv[2]), folder))
    with tempfile.TemporaryDirectory(prefix="hermes-chat-") as place:
        shutil.copytree(demo_run(), Path(place, RUN))
        shutil.copytree(RECORDED / UNEXPLAINED / "images-strong" / "slow", Path(place, UNEXPLAINED))
        os.chdir(place)
        first = subprocess.run([sys.executable, "-m", "evals.pages.chat_pictures", str(folder), "cache"], check=False)
        if first.returncode != KILLED:
            raise SystemExit(f"the first process ended with {first.returncode}, not by the signal")
        asyncio.run(resumed(Path("cache"), folder))


if __name__ == "__main__":
    main()
