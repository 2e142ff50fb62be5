"""Nothing connects anywhere unless it was configured: every main command under an audit hook on sockets."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from hermes_agent.demo.data import demo_run
from tests.hermes_agent.cli import connections
from tests.hermes_agent.llm.fake_endpoint import said, serving

REPOSITORY = Path(__file__).resolve().parents[3]
PLAN = {
    "gradients": [{"ready_ms": 4, "bytes": 2000000}, {"ready_ms": 9, "bytes": 2000000}],
    "link": {"alpha_ms": 1, "beta_ms_per_byte": 1e-6},
    "update_ms": 2,
}
COMMANDS = """
import asyncio, subprocess, sys, time
from pathlib import Path
from hermes_agent.cli.main import main

TRAINING = '''
import sys, time
from pathlib import Path
from hermes_agent.monitor.session import Monitor
with Monitor(sys.argv[1]) as watched:
    for look in range(600):
        watched.step()
        time.sleep(0.05)
        if look > 10 and list(Path(sys.argv[1]).glob("monitor/agent-*")):
            break
'''
run, plan, records = sys.argv[1:4]

def code(*words):
    found = main(list(words))
    print(words[0], found, flush=True)

code("diagnose", run, "--json", "--html", f"{records}.html", "--png", f"{records}.png")
code("ask", run, "why not the network?")
code("ask", run, "what did similar cases do?")
code("show", "E1", run)
code("cases", "search", "loader is slow")
code("compare", run, run)
code("plan", "gradient-buckets", plan)
code("steps", run)
code("env")
code("eval", "demo-slow", "--jobs", "1")

training = subprocess.Popen([sys.executable, "-c", TRAINING, records])
while not Path(records, "monitor").is_dir():
    time.sleep(0.05)
code("monitor", records, "--until-end", "--json")
training.wait()

from hermes_agent.cli.arguments import settings
from hermes_agent.cli.commands.chat import openings
from hermes_agent.model.request import Request
from hermes_agent.tui.app import HermesChat
from hermes_agent.tui.messages import UNICODE

async def chat():
    chosen = settings()
    request = Request(paths=(Path(run),), cache_dir=chosen.cache_dir)
    app = HermesChat(lambda: openings(request, chosen), UNICODE)
    async with app.run_test() as pilot:
        for text in ("why is it slow?", "/cases"):
            while app.controller.busy:
                await asyncio.sleep(0.02)
            app.prompt.fill(text)
            await pilot.press("enter")
            await pilot.pause()
        while app.controller.busy:
            await asyncio.sleep(0.02)
    print("chat", 0, flush=True)

asyncio.run(chat())
"""


def watched(folder: Path, program: str, *words: str, **variables: str) -> tuple[str, list[str]]:
    """The standard output of a Python program without configuration, and the connections that it tried to make."""
    hooks, log = folder / "hooks", folder / "connections"
    hooks.mkdir()
    shutil.copy(connections.__file__, hooks / "sitecustomize.py")
    own = {name: value for name, value in os.environ.items() if not name.startswith(("HERMES_DX_", "OPENAI_"))}
    folders = {"HOME": str(folder), "XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": "", connections.LOG: str(log)}
    env = {**own, **folders, "PYTHONPATH": f"{hooks}:{REPOSITORY}", **variables}
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout, log.read_text(encoding="utf-8").splitlines() if log.exists() else []


def test_no_command_connects_anywhere_without_configuration(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    printed, tried = watched(
        tmp_path, COMMANDS, str(demo_run()), str(tmp_path / "plan.json"), str(tmp_path / "records")
    )
    ended = [line.split() for line in printed.splitlines()]
    for name in ("diagnose", "ask", "show", "cases", "compare", "plan", "steps", "env", "eval", "monitor", "chat"):
        assert [name, "0"] in ended, f"{name}\n{printed[-2000:]}"
    assert tried == []


WORKER = """
import socket, sys
from dataclasses import dataclass
from tools.sources.workers import ReadingProcess
sys.path.insert(0, sys.argv[1])
import asked
with ReadingProcess() as process:
    process.ask(asked.Asked(int(sys.argv[2])))
    print(process.take())
"""
ASKED = """
import socket
from dataclasses import dataclass

@dataclass
class Asked:
    port: int

    def answer(self):
        return socket.socket().connect_ex(("127.0.0.1", self.port))
"""


def test_the_hook_sees_a_worker_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "asked.py").write_text(ASKED)
    printed, tried = watched(tmp_path, WORKER, str(tmp_path), "9")
    assert printed.strip().isdecimal()
    assert tried == ["socket.connect (('127.0.0.1', 9),)"]


def test_the_hook_sees_the_endpoint_that_was_configured_and_nothing_else(tmp_path: Path, own_cache: Path) -> None:
    program = "import sys; from hermes_agent.cli.main import main; sys.exit(main(sys.argv[1:]))"
    with serving(said("no statements")) as endpoint:
        words = ("ask", str(demo_run()), "why is it slow?")
        variables = {"HERMES_DX_LLM_BASE_URL": endpoint.url, "HERMES_DX_LLM_MODEL": "m"}
        variables["HERMES_DX_CACHE_DIR"] = str(own_cache)
        _, tried = watched(tmp_path, program, *words, **variables)
    port = endpoint.url.rpartition(":")[2].removesuffix("/v1")
    assert tried
    assert all(f"'127.0.0.1', {port}" in line for line in tried)
