"""Whose devices a run or a case used, as far as its words say."""

from __future__ import annotations

import re

_WORDS = {
    "NVIDIA": "nvidia cuda nccl a100 h100 h200 h800 a800 b200 gb200 v100 p100 t4 l4 l40 rtx gtx geforce tesla dgx hgx",
    "AMD": "amd rocm rccl hip mi100 mi200 mi210 mi250 mi250x mi300 mi300x mi300a mi325x mi350x mi355x radeon",
    "Ascend": "ascend npu cann hccl atlas",
    "Google": "tpu tpus",
}
_VENDOR = {word: vendor for vendor, words in _WORDS.items() for word in words.split()}
_NAME = re.compile(r"[a-z]+[0-9]*[a-z]*")


def vendors(text: str) -> frozenset[str]:
    """The makers of the devices that a text names; empty if it names none."""
    return frozenset(_VENDOR[word] for word in _NAME.findall(text.lower()) if word in _VENDOR)


def vendor_conflict(asked: str, setting: str) -> str:
    """One phrase if both texts name a maker and share none; empty otherwise."""
    wanted, there = vendors(asked), vendors(setting)
    if not wanted or not there or wanted & there:
        return ""
    return f"on {' and '.join(sorted(there))}, not {' or '.join(sorted(wanted))}"
