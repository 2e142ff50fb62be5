"""The data files of this folder."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml


@lru_cache
def table(name: str) -> dict[str, Any]:
    """The content of ``name``.yaml."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    read: dict[str, Any] = yaml.load(
        files("tools.knowledge").joinpath(f"{name}.yaml").read_text("utf-8"), Loader=loader
    )
    return read
