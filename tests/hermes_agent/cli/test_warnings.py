"""Warnings of libraries stay out of what a person reads; --debug shows them without escape codes and passwords."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys, warnings
from hermes_agent.cli import main
from hermes_agent.cli.commands import env
def warned(args):
    warnings.warn("invalid value encountered in divide", RuntimeWarning)
    return 0
env.run = warned
sys.exit(main.main(sys.argv[1:]))
"""


@pytest.mark.parametrize(("words", "shown"), [(["env"], False), (["--debug", "env"], True)])
def test_a_warning_is_for_those_who_debug(words: list[str], shown: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, timeout=60, check=True
    )
    assert ("invalid value encountered" in done.stderr) is shown


FAULT = """
import logging, sys
from hermes_agent.cli import main
from hermes_agent.cli.commands import env
def failing(args):
    logging.getLogger("fsspec.http").debug("asked http://u:hidden@127.0.0.1/x")
    logging.getLogger("hermes_dx").debug("own \x1b[31m words")
    try:
        raise OSError("no http://u:hid@den@127.0.0.1/x?token=hidden#hidden here")
    except OSError as error:
        raise ValueError("bad \x1b[31m\u202e name") from error
env.run = failing
sys.exit(main.main(sys.argv[1:]))
"""


def test_a_traceback_shows_neither_escape_codes_nor_passwords() -> None:
    command = [sys.executable, "-c", FAULT, "--debug", "env"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "no http://...@127.0.0.1/x?... here" in done.stderr
    assert "hermes-dx: internal error, ValueError" in done.stderr
    assert "DEBUG:hermes_dx:own" in done.stderr
    assert not {"\x1b", "\u202e"} & set(done.stderr)
    assert "hidden" not in done.stderr
    assert "hid@den" not in done.stderr
