"""Patterns of recorded names (``name_patterns.yaml``), matched against the distinct names of a trace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tools.knowledge.tables import table
from tools.run.events import name_mask

KERNEL_CLASSES: tuple[str, ...] = tuple(
    f"{name}_kernel"
    for name in (
        *("communication", "attention", "layout", "concatenation", "normalization", "convolution", "matmul"),
        *("optimizer", "embedding", "reduction", "elementwise"),
    )
)


KERNEL_NAMES_KEPT = 1 << 14


@lru_cache(maxsize=1)
def patterns() -> Mapping[str, re.Pattern[str]]:
    """All patterns by name."""
    return {name: re.compile("".join(pieces)) for name, pieces in table("name_patterns").items()}


def matching(names: pd.Series, pattern: str) -> NDArray[np.bool_]:
    """For each event, whether its name matches the named pattern (``names`` is a categorical column)."""
    return name_mask(names, patterns()[pattern].search)


@lru_cache(KERNEL_NAMES_KEPT)  # ranks run the same kernels
def kernel_class(name: str) -> str:
    """The class of a device kernel: the first pattern of ``KERNEL_CLASSES`` that matches, else ``other``."""
    for candidate in KERNEL_CLASSES:
        if patterns()[candidate].search(name):
            return candidate.removesuffix("_kernel")
    return "other"


# Checked in this order: the longer names hold the shorter ones.
COLLECTIVE_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        ("all_to_all", r"all[_-]?to[_-]?all|all2all"),
        ("all_gather", r"all[_-]?gather"),
        ("reduce_scatter", r"reduce[_-]?scatter"),
        ("all_reduce", r"all[_-]?reduce|cross_device_reduce|(one|two)_shot"),
        ("broadcast", r"broadcast|bcast"),
        ("barrier", r"barrier"),
        ("send_recv", r"send_?recv|(^|[:_ ])(i?send|i?recv)"),
        ("reduce", r"reduce"),
        ("gather", r"gather"),
        ("scatter", r"scatter"),
    )
)


def collective_kind(name: str) -> str:
    """The kind of collective that a kernel, a host span or a recorded collective name stands for, "" if unclear."""
    for kind, pattern in COLLECTIVE_KINDS:
        if pattern.search(name):
            return kind
    return ""
