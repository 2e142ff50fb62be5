"""The model FLOPs utilization that a step line states, by its program's own figure of the device's peak."""

from __future__ import annotations

import re
from dataclasses import replace

from tools.sources.job_log.grammars.step_figures import StepLine
from tools.sources.job_log.numbers import NUMBER, number

MARKS = ("mfu", "MFU")
NAMED = re.compile(rf"(?<![A-Za-z])mfu['\"]?\s{{0,2}}[:=|]?\s{{0,2}}({NUMBER})\s?(%)?", re.I)
BEFORE = re.compile(rf"({NUMBER})\s?%\s{{0,2}}(?:[A-Za-z\d]{{1,8}} )?MFU\b")
IN_PERCENT = ("nanochat",)  # prints 100 times the fraction without a sign
LARGEST_FRACTION = 1.0  # without a percent sign a figure up to here may be a fraction: it is left out


def with_mfu(line: StepLine, text: str) -> StepLine:
    """The line with the MFU that its text states in percent: ``mfu 0.96%`` (nanoGPT, smoothed over the last
    iterations), ``mfu: 22.68%`` (torchtitan, since the line before), ``mfu: 74.13`` (nanochat, of that step), ``40.1%
    bf16 MFU`` (llm.c, of that step). A negative one, as llm.c and nanoGPT print it where they do not know it, is none.
    """
    if not any(mark in text for mark in MARKS):
        return line
    before = BEFORE.search(text)
    named = None if before else NAMED.search(text)
    if before:
        stated = number(before[1])
    elif named and (named[2] or line.grammar in IN_PERCENT):
        stated = number(named[1])
    else:
        stated = number(named[1]) if named else None
        stated = stated if stated is not None and stated > LARGEST_FRACTION else None
    return line if stated is None or stated <= 0 else replace(line, mfu_pct=stated)
