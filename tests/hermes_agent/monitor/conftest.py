"""Fixtures of the monitor's tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_agent.monitor.format import ring_folders


@pytest.fixture
def run_folder(tmp_path: Path) -> Iterator[Path]:
    """An empty run folder; what its monitors leave in shared memory is removed afterwards."""
    folder = tmp_path / "run"
    folder.mkdir()
    yield folder
    shutil.rmtree(ring_folders(folder)[0], ignore_errors=True)
