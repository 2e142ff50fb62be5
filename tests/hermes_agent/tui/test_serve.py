"""The chat in a browser: who may open it. The server itself is an extra and is not needed here."""

from __future__ import annotations

import argparse

import pytest

from hermes_agent.cli.chat import add_arguments, command_of
from hermes_agent.tui.serve import refusal

TOKEN = "a-token"


@pytest.mark.parametrize(
    ("host", "origin", "given", "passes"),
    [
        ("127.0.0.1:8137", None, TOKEN, True),
        ("localhost:8137", "http://localhost:8137", TOKEN, True),
        ("127.0.0.1:8137", "http://127.0.0.1:8137", "", False),
        ("127.0.0.1:8137", "http://127.0.0.1:8137", "another", False),
        ("127.0.0.1:8137", "https://example.org", TOKEN, False),
        ("127.0.0.1:8137", "null", TOKEN, False),
        ("rebound.example.org:8137", None, TOKEN, False),
        ("127.0.0.1:9999", None, TOKEN, False),
        ("127.0.0.1:8137", None, "tökén", False),
    ],
)
def test_only_the_browser_with_the_token_on_this_machine_passes(
    host: str, origin: str | None, given: str, passes: bool
) -> None:
    assert (refusal(host, origin, 8137, ["", given], TOKEN) == "") is passes


def test_the_served_command_is_the_chat_with_the_same_arguments() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    args = parser.parse_args(["a run", "--ranks", "0,3", "--steps", "5:9", "--no-llm", "--serve"])
    assert args.serve == 8137
    assert command_of(args)[3:] == ["chat", "a run", "--steps", "5:9", "--ranks", "0,3", "--no-llm"]


@pytest.mark.parametrize("port", ["0", "80", "70000", "0.0.0.0:8137", "x"])
def test_no_other_address_and_no_privileged_port_can_be_given(port: str) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--serve", port])
