"""The closed set of causes: every finding, case, piece of advice and evaluation label uses these ids."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import yaml


@dataclass(frozen=True)
class Cause:
    """One cause of slow training; ``mechanisms`` are finer names for how it happens."""

    id: str
    family: str
    signals: tuple[str, ...]
    optimizations: tuple[str, ...]
    mechanisms: tuple[str, ...] = ()


@lru_cache(maxsize=1)
def causes() -> dict[str, Cause]:
    """All causes by id."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    table = yaml.load(files("tools.knowledge").joinpath("taxonomy.yaml").read_text(encoding="utf-8"), Loader=loader)
    return {
        name: Cause(
            name,
            entry["family"],
            tuple(entry["signals"]),
            tuple(entry["optimizations"]),
            tuple(entry.get("mechanisms", ())),
        )
        for name, entry in table["causes"].items()
    }


def family_of(cause: str) -> str:
    """The family a cause belongs to."""
    return causes()[cause].family
