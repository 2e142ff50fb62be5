"""The bundled recorded run: a real two-process training, slow, and the same training after the fix.

Recorded with ``python -m evals.lab record heavy_transform``. Each folder holds the Kineto trace and the step log
of both ranks, ``run.json`` (what ran on what) and ``measured.json`` (step time over steps without a profiler);
``measured.json`` above them holds both step times and the speedup.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from tools.errors import InputError


def demo_run() -> Path:
    """The folder of the slow run; raises InputError when the package was installed without its data."""
    return _folder("slow")


def demo_fixed_run() -> Path:
    """The folder of the same training after the fix."""
    return _folder("fixed")


def _folder(name: str) -> Path:
    folder = Path(str(files("hermes_agent") / "demo" / name))
    if not folder.is_dir():
        raise InputError(f"the bundled run is missing: {folder} is no folder; reinstall hermes-dx")
    return folder
