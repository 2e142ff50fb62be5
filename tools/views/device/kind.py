"""The kind of hardware that a run computes on, for advice that fits it."""

from __future__ import annotations

import re
from typing import Literal

import numpy as np

from tools.run.device_use import uses_device
from tools.run.events import EventKind
from tools.views.profile import Profile

Kind = Literal["host", "nvidia", "amd", "accelerator"]
BY_NAME: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("amd", re.compile(r"\bAMD\b|\bInstinct\b|\bMI\d{2,3}|\bRadeon\b", re.IGNORECASE)),
    ("nvidia", re.compile(r"\bNVIDIA\b|\bTesla\b|\bGeForce\b|\bQuadro\b|\bRTX\b", re.IGNORECASE)),
)
BY_CALL: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("amd", re.compile(r"hip[A-Z]")),
    ("nvidia", re.compile(r"cu(da)?[A-Z]")),
)


def device_kind(profile: Profile) -> Kind | None:
    """``host`` without accelerators, a vendor by device names or runtime calls; None where nothing says it."""
    if not profile.traced:
        return None if profile.accelerated else "host"
    names = {device.name for rank in profile.run.ranks for device in rank.devices}
    backend = profile.run.layout.backend
    if not any(uses_device(rank, backend) for rank in profile.run.ranks):
        return "host"
    calls = {
        name for view in profile.ranks for name in view.distinct_names(np.flatnonzero(view.kind == EventKind.RUNTIME))
    }
    return next((kind for kind, form in BY_NAME if any(map(form.search, names))), None) or next(
        (kind for kind, form in BY_CALL if any(map(form.match, calls))), "accelerator"
    )
