"""Recorded traces of public origin, each read once for all tests of a process; nobody changes a profile."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tools.sources.load import load_run
from tools.views.profile import Profile


@cache
def real_profile(*paths: Path) -> Profile:
    """The profile of these files or folders; what is derived from it is kept as well."""
    return Profile(load_run(list(paths)))
