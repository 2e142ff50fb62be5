"""The bundled run: traces, logs, setup and unprofiled step time of a two-process training before and after a fix."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from tools.errors import InputError


def demo_run() -> Path:
    """Return the folder of the slow run; raises InputError when the package was installed without its data."""
    return _folder("slow")


def demo_fixed_run() -> Path:
    """Return the folder of the same training after the fix."""
    return _folder("fixed")


def _folder(name: str) -> Path:
    folder = Path(str(files("hermes_agent") / "demo" / name))
    if not folder.is_dir():
        raise InputError(f"the bundled run is missing: {folder} is no folder; reinstall hermes-dx")
    return folder
