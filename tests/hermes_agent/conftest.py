"""Commands in tests keep their results in a folder of their own and see no configuration of the machine's user."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cache folder that the commands share."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def commands_cache(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Points the commands at the shared cache and at an empty configuration folder."""
    monkeypatch.setenv("HERMES_DX_CACHE_DIR", str(kept))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    return kept
