"""Versions and settings of a training host, as ``hermes-dx env`` or PyTorch's collect_env recorded them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class HostEnvironment:
    """``facts`` by name, as texts: torch, python, cuda_build, cuda_available, driver, cores, allowed_cores,
    quota_cores, governor, gpus (how many), gpu (the first one's model), and others; what was not recorded is missing.
    """

    file: str
    facts: Mapping[str, str]
    lines: Mapping[str, int] = field(default_factory=dict)  # of a text, the line of each fact, counted from 1

    def number(self, name: str) -> float | None:
        """A fact as a number; None where it is none or not recorded."""
        try:
            value = float(self.facts[name])
        except (KeyError, ValueError):
            return None
        return value if 0 <= value < 1e9 else None
