"""The bundled run: traces, logs, setup and unprofiled step time of a two-process training before and after a fix."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from tools.errors import InputError


def demo_run(name: str = "slow") -> Path:
    """Return the folder of the slow run; raises InputError when the package was installed without its data."""
    folder = Path(str(files("hermes_agent") / "demo" / name))
    if not folder.is_dir():
        raise InputError(f"the bundled run is missing: {folder} is no folder; reinstall hermes-dx")
    return folder


def demo_fixed_run() -> Path:
    """Return the folder of the same training after the fix."""
    return demo_run("fixed")
