"""Runs one command module the way the command line does, without starting a process."""

from __future__ import annotations

import argparse
from typing import Protocol


class Command(Protocol):
    """What every command module offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int: ...


def execute(command: Command, *words: str) -> int:
    """The exit code of the command with these words."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args(words))
