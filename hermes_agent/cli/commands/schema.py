"""Print the JSON schema of what diagnose --json prints."""

from __future__ import annotations

import argparse

from tools.errors import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """``schema`` takes none."""


def run(args: argparse.Namespace) -> int:
    """Print the schema."""
    from hermes_agent.model.contract import contract_text

    print(contract_text(), end="")
    return ExitCode.OK
