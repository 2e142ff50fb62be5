"""Warnings of libraries stay out of what a person reads."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys, warnings
from hermes_agent.cli import env, main
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
