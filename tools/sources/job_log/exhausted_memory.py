"""What PyTorch states of the memory of a device when it is exhausted."""

from __future__ import annotations

import re

from tools.run.recorded.job_log import Cited
from tools.sources.job_log.numbers import number

_AMOUNT = r"(\d{1,9}(?:\.\d{1,9})?) ([KMGT]i?B|bytes)"
BYTES = {"bytes": 1.0, **{f"{unit}{of}": 1024.0**at for at, unit in enumerate("KMGT", start=1) for of in ("iB", "B")}}
# What PyTorch says of the memory of the device when it is exhausted; others: each process that is not this one.
MEMORY: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("asked", re.compile(f"Tried to allocate {_AMOUNT}")),
    # PyTorch 2.1 prints "capacty".
    ("total", re.compile(f"total capaci?ty of {_AMOUNT}|{_AMOUNT} total capacity")),
    ("free", re.compile(f"{_AMOUNT} (?:is )?free")),
    ("others", re.compile(rf"Process (?:\d{{1,12}}|[Xx*?#]{{1,20}}|<\w{{1,20}}>) has {_AMOUNT} memory in use")),
    ("own", re.compile(f"this process has {_AMOUNT} memory in use")),
    ("allocated", re.compile(f"{_AMOUNT} is allocated by PyTorch|{_AMOUNT} already allocated")),
    ("reserved", re.compile(f"{_AMOUNT} reserved in total by PyTorch")),
    ("unused", re.compile(f"{_AMOUNT} is reserved by PyTorch but unallocated")),
)


def exhausted(text: str, line: int, file: int) -> dict[str, Cited]:
    """The amounts of memory that a line states, in bytes."""
    found: dict[str, Cited] = {}
    for name, pattern in MEMORY:
        amounts = [[part for part in each.groups() if part] for each in pattern.finditer(text)]
        if amounts:
            found[name] = Cited(str(sum((number(each[0]) or 0.0) * BYTES[each[1]] for each in amounts)), line, file)
    if "reserved" in found and "allocated" in found:  # as PyTorch before 2.0 states it
        left = float(found["reserved"].value) - float(found["allocated"].value)
        found.setdefault("unused", Cited(str(left), line, file))
    elif "unused" in found and "allocated" in found:
        both = float(found["unused"].value) + float(found["allocated"].value)
        found["reserved"] = Cited(str(both), line, file)
    return found
