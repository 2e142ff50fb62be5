"""A settings file that came with a run: a whole process, the user's key, and a server that waits for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from hermes_agent.demo.data import demo_run
from tests.hermes_agent.llm.fake_endpoint import said, serving


def test_a_run_folder_receives_neither_the_user_s_key_nor_a_question(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(demo_run(), run)
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("HERMES_DX_")},
        "HOME": str(tmp_path / "home"),
        "XDG_CONFIG_HOME": "",
        "XDG_CACHE_HOME": "",
        "HERMES_DX_API_KEY": "the-user-s-key",
    }
    with serving(said("hello")) as endpoint:
        planted = tmp_path / "hermes-dx.toml"
        planted.write_text(f'[llm]\nbase_url = "{endpoint.url}"\nmodel = "m"\n', encoding="utf-8")
        planted.chmod(0o644)
        command = [sys.executable, "-m", "hermes_agent.cli.main", "ask", ".", "why is it slow?"]
        done = subprocess.run(command, cwd=run, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert endpoint.paths == []
    assert f"{planted}: llm.base_url and llm.model are not taken from a project file" in done.stderr
