"""``hermes-dx slack``: what it refuses before it connects anywhere."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from hermes_agent.cli.commands.slack import credentials
from hermes_agent.cli.main import main
from hermes_agent.demo.data import demo_run
from tools.errors import UsageError

pytest.importorskip("slack_bolt", reason="the extra slack is not installed")
from hermes_agent.bot.slack import platform

VARIABLES = ("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET", "SLACK_CLIENT_ID", "SLACK_CLIENT_SECRET")


@pytest.fixture
def settled(commands_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No tokens in the environment; returns the configuration folder."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "config" / "hermes-dx").mkdir(parents=True)
    return tmp_path / "config" / "hermes-dx"


def test_without_an_allow_list_it_refuses(settled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slack"]) == 2
    assert "nobody may ask yet" in capsys.readouterr().err
    assert main(["slack", "--everyone", "--team", "T1"]) == 2


def test_a_missing_token_is_named_with_its_file(settled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slack", "--team", "T1"]) == 2
    said = capsys.readouterr().err
    assert "SLACK_BOT_TOKEN is not set" in said
    assert str(settled / "slack-bot-token") in said


def test_tokens_come_from_private_files_or_the_environment(settled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-1")
    secret = settled / "slack-signing-secret"
    secret.write_text("0123abcd\n")
    secret.chmod(0o644)
    with pytest.raises(UsageError, match="holds SLACK_SIGNING_SECRET but others can get at it; run: chmod 600"):
        credentials(http=True)
    secret.chmod(0o600)
    found = credentials(http=True)
    assert (found.bot_token, found.signing_secret, found.app_token) == ("xoxb-1", "0123abcd", "")
    monkeypatch.setenv("SLACK_APP_TOKEN", "xoxb-2")
    with pytest.raises(UsageError, match="has to begin with xapp-") as refused:
        credentials(http=False)
    assert "xoxb-2" not in str(refused.value)


def test_the_settings_of_an_oauth_app_are_refused(settled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_CLIENT_ID", "1")
    monkeypatch.setenv("SLACK_CLIENT_SECRET", "2")
    assert main(["slack", "--team", "T1"]) == 2


def test_alerts_name_a_registered_run_folder_and_a_channel(
    settled: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-1")
    monkeypatch.setenv("SLACK_APP_TOKEN", "xapp-1")
    assert main(["runs", "add", "demo", str(demo_run())]) == 0
    for given, said in [
        ("demo", "write RUN=CHANNEL"),
        ("demo=<!here>", "write RUN=CHANNEL"),
        ("demmo=C1", "did you mean demo?"),
    ]:
        assert main(["slack", "--team", "T1", "--alerts", given]) == 2
        assert said in capsys.readouterr().err


def test_the_manifest_asks_for_no_more_than_the_bot_uses(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["slack", "--manifest"]) == 0
    manifest = json.loads(capsys.readouterr().out)
    assert manifest["oauth_config"]["scopes"] == {
        "bot": ["app_mentions:read", "chat:write", "commands", "files:write", "im:history"]
    }
    assert manifest["settings"]["event_subscriptions"]["bot_events"] == ["app_mention", "message.im"]


def test_a_server_that_cannot_be_reached_is_one_sentence_without_tokens(
    settled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setattr(platform, "API", f"http://127.0.0.1:{taken.getsockname()[1]}/api/")
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-1-very-secret")
        monkeypatch.setenv("SLACK_APP_TOKEN", "xapp-1-very-secret")
        assert main(["slack", "--team", "T1"]) == 2
    said = capsys.readouterr().err
    assert "answering the allow-list on Slack (Socket Mode); names of hosts, users and paths are masked" in said
    assert "Slack cannot be reached" in said
    assert "secret" not in said
    assert (tmp_path / "state" / "hermes-dx" / "slack" / "threads.sqlite").is_file()
