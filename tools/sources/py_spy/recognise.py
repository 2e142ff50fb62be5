"""Recognises what py-spy writes by its content: speedscope and dump JSON, dumps as text, folded stacks."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Literal

from tools.sources.decompress import beginning

Form = Literal["speedscope", "dump json", "dump", "folded"]
LOOKED_AT_BYTES = 16_384
SPEEDSCOPE = re.compile(rb'\A\s*\{\s*"(?:\$schema|exporter|version|name|shared|profiles|activeProfileIndex)"')
DUMP_JSON = re.compile(rb'\A\s*\[\s*\{\s*"(?:pid|thread_id|thread_name|os_thread_id|active|owns_gil|frames)"\s*:')
PROCESS = re.compile(r"Process (?P<pid>\d{1,10})(?:: (?P<command>.*))?\Z")
THREAD = re.compile(r'Thread (?:(?:0x)?[0-9A-Fa-f]+ )?\((?P<state>[a-z+]+)\)(?:: "(?P<name>.*)")?\Z')
FRAME = re.compile(r"    (?P<frame>\S.* \(.+\))\Z")
FOLDED = re.compile(r"(?P<stack>[^;].*\)) (?P<count>\d{1,12})\Z")
FOLDED_FRAME = re.compile(r"[^()]\S* \(.+(?::\d+)?\)|process \d+.*|thread \(.+\).*", re.I)
ENOUGH_LINES = 2


def form_of(start: bytes) -> Form | None:
    """The form of a file that begins so; None where py-spy writes none such."""
    if SPEEDSCOPE.match(start):
        return "speedscope" if b"speedscope" in start or b'"py-spy' in start else None
    if DUMP_JSON.match(start):
        return "dump json" if b'"thread_id"' in start and b'"frames"' in start else None
    if start[:1] in (b"{", b"[", b"\x00"):
        return None
    lines = start.decode("utf-8", "replace").splitlines()
    whole = lines[:-1] if len(start) >= LOOKED_AT_BYTES else lines
    if _dumped(whole):
        return "dump"
    return "folded" if _all_folded([line for line in whole if line.strip()]) else None


def _dumped(lines: list[str]) -> bool:
    """Whether a thread's line has a frame below it, whatever stands around them: dumps are mostly pasted."""
    return any(THREAD.match(head.rstrip()) and FRAME.match(frame.rstrip()) for head, frame in pairwise(lines))


def _all_folded(lines: list[str]) -> bool:
    if len(lines) < ENOUGH_LINES:
        return False
    found = (FOLDED.match(line.rstrip()) for line in lines)
    return all(each and all(map(FOLDED_FRAME.match, each["stack"].split(";"))) for each in found)


def form_of_file(path: Path) -> Form | None:
    """The same of a file; None as well where it cannot be read."""
    try:
        return form_of(bytes(beginning(path, LOOKED_AT_BYTES).data))
    except OSError:
        return None
