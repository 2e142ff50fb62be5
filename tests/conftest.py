"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder with real traces of public origin; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("HERMES_TRACES", REPOSITORY.parent / "shared" / "traces"))
    if not folder.is_dir():
        pytest.skip(f"the real traces are not here: {folder} is no folder (set HERMES_TRACES)")
    return folder
