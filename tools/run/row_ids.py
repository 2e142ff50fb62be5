"""Ids of what a run holds. An id says what it names and where, and is the same in every reading of the run.

==============  =====================================================================================
``e0.1520``     event row 1520 of rank 0 (``EventTable.frame``)
``c0.1520``     the collective that is this row of rank 0
``g0.3.2``      the third device gap (counted from 0) of rank 0 in step 3
``s0.12``       step 12 of rank 0, from its trace; ``w0.12`` from monitor records or a step log
``r0``          rank 0
``n0.1f0c9a2e``  events of rank 0 with one name; ``m`` module, ``p`` phase, ``h`` shape, ``t`` stack, ``q`` stream,
                ``u`` process group. The digits are a digest of the text.
==============  =====================================================================================
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from tools.errors import UsageError

EVENT, COLLECTIVE, GAP, STEP, RECORDED_STEP, RANK = "e", "c", "g", "s", "w", "r"
GROUPS = {"name": "n", "module": "m", "phase": "p", "shape": "h", "stack": "t", "stream": "q", "group": "u"}
FORM = re.compile(
    r"(?P<letter>[ecgswrnmphtqu])(?P<rank>\d{1,9})(?:\.(?P<first>\d{1,18}|[0-9a-f]{8}))?(?:\.(?P<second>\d{1,9}))?"
)
EXAMPLES = (
    "e0.1520 (an event), c0.1520 (a collective), g0.3.2 (a gap), s0.12 (a step), r0 (a rank), n0.1f0c9a2e (a group)"
)


@dataclass(frozen=True)
class RowId:
    """An id in its parts; ``key`` is the digest of a group, ``place`` and ``second`` the numbers behind the rank."""

    letter: str
    rank: int
    place: int = -1
    second: int = -1
    key: str = ""


def row_id(letter: str, rank: int, *places: int) -> str:
    """``e0.1520`` and the like."""
    return ".".join((f"{letter}{rank}", *map(str, places)))


def group_id(by: str, rank: int, text: str) -> str:
    """The id of the events of a rank that share a name, module, ... (a key of ``GROUPS``)."""
    return f"{GROUPS[by]}{rank}.{digest(text)}"


def digest(text: str) -> str:
    """Eight hexadecimal digits of a text."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()


def parse(text: str) -> RowId:
    """An id in its parts; UsageError with examples where it is none."""
    match = FORM.fullmatch(text.strip())
    wanted = {EVENT: 1, COLLECTIVE: 1, GAP: 2, STEP: 1, RECORDED_STEP: 1, RANK: 0}
    if match is None:
        raise UsageError(f"{text[:80]!r} is no id of this run; ids look like {EXAMPLES}")
    letter, rank, first, second = match["letter"], int(match["rank"]), match["first"], match["second"]
    if letter in GROUPS.values():
        if first is None or len(first) != 8 or second is not None:
            raise UsageError(f"{text!r} is not whole; the id of a group ends with eight digits, as n0.1f0c9a2e does")
        return RowId(letter, rank, key=first)
    numbers = [each for each in (first, second) if each is not None]
    if len(numbers) != wanted[letter] or not all(each.isdecimal() for each in numbers):
        raise UsageError(f"{text!r} is not whole; ids look like {EXAMPLES}")
    place, behind = ([int(each) for each in numbers] + [-1, -1])[:2]
    return RowId(letter, rank, place, behind)
