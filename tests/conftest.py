"""Fixtures shared by all tests."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


def pytest_collection_finish() -> None:
    """Keep the garbage collector from walking over imported modules and collected tests again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder with real traces of public origin; tests that need it are skipped where it is absent."""
    folder = Path(os.environ.get("HERMES_TRACES", REPOSITORY.parent / "shared" / "traces"))
    if not folder.is_dir():
        pytest.skip(f"the real traces are not here: {folder} is no folder (set HERMES_TRACES)")
    return folder
