"""The peak of device memory on lines of programs whose figure is known to be PyTorch's, in units of 1,024.

Sources: Megatron-LM's ``report_memory`` and DeepSpeed's ``see_memory_usage`` divide ``max_memory_allocated()`` and
``max_memory_reserved()`` by 2^20 and 2^30; MMCV, MMEngine, Detectron2, YOLOX, Swin Transformer and torchvision's
``MetricLogger`` divide ``max_memory_allocated()`` by 2^20, fairseq by 2^30; torchtitan prints the peak of reserved
memory in GiB.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tools.run.recorded.job_log import PeakKind

KINDS: tuple[PeakKind, ...] = ("allocated", "reserved")
OF_START = "Max_MA "  # DeepSpeed calls it while it sets up the model, and users where they like
AMOUNT = r"\d{1,9}(?:\.\d{1,20})?"


class Stated(NamedTuple):
    """One peak of a line: its kind, amount and unit; ``of_steps``: of steps that are done, and not of the start."""

    kind: PeakKind
    amount: str
    unit: str
    of_steps: bool


# A part of the line that is looked for first, the whole form, and the unit where the line itself names none.
FORMS = tuple(
    (mark, re.compile(pattern), unit)
    for mark, pattern, unit in (
        (
            "| max allocated: ",
            rf"\(after \d+ iterations\) memory \((?P<unit>[MG])B\) \|.{{0,60}}"
            rf"\| max allocated: (?P<allocated>{AMOUNT})(?:.{{0,60}}\| max reserved: (?P<reserved>{AMOUNT}))?",
            "M",
        ),
        (OF_START, rf"\bMax_MA (?P<allocated>{AMOUNT}) (?P<unit>[MG])B\b", "G"),
        ("GiB(", rf"\bmemory: {{1,9}}(?P<reserved>{AMOUNT})GiB\({AMOUNT}%\)", "G"),
        (
            "data_time: ",
            rf"\btime: {AMOUNT},?\s{{1,9}}data_time: {AMOUNT},?\s{{1,9}}memory: (?P<allocated>\d{{1,9}})(?![\d.])",
            "M",
        ),
        ("max_mem: ", r"\bmax_mem: (?P<allocated>\d{1,9})M\b", "M"),
        ("max mem: ", rf"\btime: {AMOUNT}\b.{{0,80}}\bmax mem: (?P<allocated>\d{{1,9}})(?![\d.])", "M"),
        ("mem ", rf"\btime {AMOUNT} \(.{{0,200}}\bmem (?P<allocated>\d{{1,9}})MB\b", "M"),
        ("cuda_gb_", rf"\bcuda_gb_allocated=(?P<allocated>{AMOUNT}), cuda_gb_reserved=(?P<reserved>{AMOUNT})", "G"),
        ("mem: ", r", (?:gpu )?mem: (?P<allocated>\d{1,9})Mb, (?:mem: [\d.]{1,9}Gb, )?iter_time: ", "M"),
    )
)


def stated_by_program(text: str) -> Iterator[Stated]:
    """The peaks that the line of a known program states; none on any other line."""
    for mark, form, unit in FORMS:
        if mark in text and (found := form.search(text)) is not None:
            known = found.groupdict()
            for kind in KINDS:
                if amount := known.get(kind):
                    size = f"{known.get('unit') or unit}iB"
                    yield Stated(kind, amount, size, mark != OF_START)
            return
