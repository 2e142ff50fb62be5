"""The model FLOPs utilization that a step line states, by its program's own figure of the device's peak."""

from __future__ import annotations

import re
from dataclasses import replace

from tools.sources.job_log.grammars.step_figures import StepLine
from tools.sources.job_log.numbers import NUMBER, number

MARKS = ("mfu", "MFU")
NAMED = re.compile(rf"(?<![A-Za-z_])(?:(?:train|step)_)?mfu['\"]?\s{{0,2}}[:=|]?\s{{0,2}}({NUMBER})\s?(%)?", re.I)
BEFORE = re.compile(rf"({NUMBER})\s?%\s{{0,2}}(?:[A-Za-z\d]{{1,8}} )?(?=MFU\b)")
OTHER = re.compile(
    r"(?<![A-Za-z])(?:target|goal|peak|max(?:imum)?|min(?:imum)?|best|expected|avg|average|ideal)[\s_/.-]{1,2}\Z", re.I
)
OTHER_CHARS = 20  # the longest of these names and what follows it
IN_PERCENT = ("nanochat",)  # prints 100 times the fraction without a sign
LARGEST_FRACTION = 1.0  # without a percent sign a figure up to here may be a fraction: it is left out


def with_mfu(line: StepLine, text: str) -> StepLine:
    """The line with the MFU that its text states in percent: ``mfu 0.96%`` (nanoGPT, smoothed over the last
    iterations), ``mfu: 22.68%`` (torchtitan, since the line before), ``mfu: 74.13`` (nanochat, of that step), ``40.1%
    bf16 MFU`` (llm.c, of that step). A negative one, as llm.c and nanoGPT print it where they do not know it, is none,
    nor is one with another name before it: ``target_mfu 60%``.
    """
    if not any(mark in text for mark in MARKS):
        return line
    before = _own(BEFORE, text, at_end=True)
    named = None if before else _own(NAMED, text)
    if before:
        stated = number(before[1])
    elif named and (named[2] or line.grammar in IN_PERCENT):
        stated = number(named[1])
    else:
        stated = number(named[1]) if named else None
        stated = stated if stated is not None and stated > LARGEST_FRACTION else None
    return line if stated is None or stated <= 0 else replace(line, mfu_pct=stated)


def _own(pattern: re.Pattern[str], text: str, at_end: bool = False) -> re.Match[str] | None:
    """The first match that no name such as "target" or "peak" makes another figure, before it or before its end."""
    for found in pattern.finditer(text):
        at = found.end() if at_end else found.start()
        if not OTHER.search(text, max(at - OTHER_CHARS, 0), at):
            return found
    return None
