"""The peak of memory that a program prints at its end or now and then: "peak memory allocated: 11812 MiB".

Next to lines of known programs (``program_memory``) those that name a peak in words are read. They print
``torch.cuda.max_memory_allocated()`` and ``max_memory_reserved()``; a number without a unit is none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from tools.run.recorded.job_log import PeakKind, PeakMemory
from tools.sources.job_log.memory_summary import BYTES
from tools.sources.job_log.numbers import NUMBER, number
from tools.sources.job_log.program_memory import stated_by_program

WORDS = "cuda|gpu|device|vram|memory|mem|torch|pytorch|allocated|allocation|reserved|usage|used|use|consumption|per"
UNIT = r"[KMGT]i?B|bytes"
STATED = re.compile(
    rf"(?<![A-Za-z0-9])(?P<most>peak|max(?:imum)?)(?P<words>(?:[ _-]{{1,2}}(?:{WORDS})(?![A-Za-z0-9])){{1,6}})"
    rf"(?:[ _]?[(\[]?(?P<before>{UNIT})[)\]]?)?['\"]?\s{{0,9}}[:=]\s{{0,40}}['\"]?"
    rf"(?P<amount>{NUMBER})(?:\s?(?P<unit>{UNIT})\b(?!/s))?",
    re.I,
)
# "peak memory allocated: 11812 MiB reserved: 14952 MiB"
ALSO_RESERVED = re.compile(
    rf"[ ,;|/(]{{1,4}}(?:(?:peak|max)[ _])?reserved\s?[:=]?\s{{0,9}}(?P<amount>{NUMBER})\s?(?P<unit>{UNIT})\b", re.I
)
# "Max memory: 20GB" is a limit that is set; a peak is one whatever follows.
MEASURED = re.compile(r"allocat|reserved|used", re.I)
NOT_OF_DEVICE = re.compile(
    r"\b(?:cpu|host|ram|rss|system|estimated|predicted|expected|theoretical|target)[ _:-]{1,3}(?:\w{1,20}[ _]){0,2}\Z",
    re.I,
)
LOOKED_BEFORE = 60  # characters
MARKS = ("eak", "EAK", "ax", "AX", "mem", "cuda_gb_")
COMMENTS = ("#", "//")  # of program text that a job prints
MEMORY = re.compile(r"memory|mem\b|vram", re.I)
ON_DEVICE = re.compile(r"gpu|cuda|vram|device", re.I)


@dataclass
class PeakMemories:
    """Of each kind the largest that a line of the file states."""

    file: int
    found: dict[PeakKind, PeakMemory] = field(default_factory=dict)

    def take(self, line: int, text: str) -> None:
        """Read a line that may state one."""
        if not any(mark in text for mark in MARKS) or text.lstrip().startswith(COMMENTS):
            return
        for each in stated_by_program(text):
            self._add(PeakMemory(each.amount, line, self.file, each.kind, each.unit, each.of_steps))
        for stated in STATED.finditer(text):
            if _no_peak(stated, text):
                continue
            unit = _spelled(stated["unit"] or stated["before"])
            self._add(PeakMemory(stated["amount"], line, self.file, _kind(stated["words"]), unit))
            if "allocat" in stated["words"].lower() and (also := ALSO_RESERVED.match(text, stated.end())):
                self._add(PeakMemory(also["amount"], line, self.file, "reserved", _spelled(also["unit"])))

    def _add(self, stated: PeakMemory) -> None:
        """Keep what a line states, with its amount in bytes, where it is the largest of its kind."""
        amount, factor = number(stated.value), BYTES.get(stated.unit)
        if amount is None or factor is None or amount <= 0.0:
            return
        known = self.found.get(stated.kind)
        if known is None or amount * factor > float(known.value):
            self.found[stated.kind] = replace(stated, value=str(amount * factor))


def largest(peaks: list[tuple[PeakMemory, ...]]) -> tuple[PeakMemory, ...]:
    """Of several files the largest peak of each kind."""
    found: dict[PeakKind, PeakMemory] = {}
    for each in (peak for of_file in peaks for peak in of_file):
        known = found.get(each.kind)
        found[each.kind] = each if known is None or float(each.value) > float(known.value) else known
    return tuple(found.values())


def _no_peak(stated: re.Match[str], text: str) -> bool:
    """Whether it is no measured peak of a device's memory: a limit, an estimate, memory of the host."""
    words = stated["words"]
    if not MEMORY.search(words) or not (stated["most"].lower() == "peak" or MEASURED.search(words)):
        return True
    return NOT_OF_DEVICE.search(text[max(stated.start() - LOOKED_BEFORE, 0) : stated.start()]) is not None


def _kind(words: str) -> PeakKind:
    if "reserved" in words.lower():
        return "reserved"
    if "allocat" in words.lower():
        return "allocated"
    return "device" if ON_DEVICE.search(words) else "unnamed"


def _spelled(unit: str | None) -> str:
    """The unit as "MiB", "GB" or "B"."""
    name = (unit or "").upper()
    return "B" if name == "BYTES" else name.replace("I", "i")
