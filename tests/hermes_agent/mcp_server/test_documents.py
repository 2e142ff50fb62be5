"""The page of the server is current, its snippets can be used as they are, and the skill's commands work."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hermes_agent.cli.commands.mcp import skill
from hermes_agent.cli.main import build_parser, main
from hermes_agent.mcp_server.page import renewed
from tests.conftest import REPOSITORY
from tests.hermes_agent.mcp_server.served import DEMO

PAGE = (REPOSITORY / "docs" / "mcp.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SKILL = REPOSITORY / "hermes_agent" / "mcp_server" / "skills" / "hermes-dx" / "SKILL.md"


def test_the_lists_of_tools_and_resources_are_current() -> None:
    assert renewed(PAGE) == PAGE, "run python -m hermes_agent.mcp_server.page --write"


def snippets() -> Iterator[list[str]]:
    """The command of every configuration that starts the server."""
    for kind, text in FENCE.findall(PAGE):
        if kind in ("json", "toml"):
            parsed: dict[str, Any] = json.loads(text) if kind == "json" else tomllib.loads(text)
            for servers in parsed.values():
                if "command" in servers["hermes-dx"]:
                    yield [servers["hermes-dx"]["command"], *servers["hermes-dx"]["args"]]
        else:
            for line in text.splitlines():
                words = shlex.split(line, comments=True)
                yield words[words.index("--") + 1 :] if "--" in words else words


def test_every_snippet_is_a_command_that_there_is() -> None:
    ours = [words for words in snippets() if words[0] == "hermes-dx"]
    assert sum(words[1] == "mcp" for words in ours) >= 6
    for words in ours:
        build_parser().parse_args(words[1 : words.index(">") if ">" in words else None])


def test_the_skill_has_the_head_that_agents_read() -> None:
    assert skill() == SKILL.read_text(encoding="utf-8")
    _, head, body = skill().split("---\n", 2)
    fields = yaml.safe_load(head)
    assert fields["name"] == SKILL.parent.name == "hermes-dx"
    assert 0 < len(fields["description"]) <= 1024
    assert len(fields["compatibility"]) <= 500
    assert len(body.splitlines()) < 500


def test_every_command_of_the_skill_works(
    shared_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HERMES_DX_CACHE_DIR", str(shared_cache))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    runs = {"RUN": str(DEMO / "slow"), "AFTER_RUN": str(DEMO / "fixed")}
    commands = [line for _, text in FENCE.findall(skill()) for line in text.splitlines()]
    assert len(commands) >= 10
    for command in commands:
        words = [runs.get(word, word) for word in shlex.split(command)]
        assert main(words[1:]) == 0, (command, capsys.readouterr().err)
        assert capsys.readouterr().out
