"""What every test of the chat relies on."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _colours_as_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Screens look the same whatever the terminal of the person who runs the tests asks for."""
    for name in ("NO_COLOR", "FORCE_COLOR", "HERMES_DX_ASCII"):
        monkeypatch.delenv(name, raising=False)
