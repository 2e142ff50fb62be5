"""The data files of this folder."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Any

from tools.documents import parse_yaml


@lru_cache
def table(name: str) -> dict[str, Any]:
    """The content of ``name``.yaml."""
    read: dict[str, Any] = parse_yaml(files("tools.knowledge").joinpath(f"{name}.yaml").read_text("utf-8"))
    return read
