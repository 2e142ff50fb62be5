"""The first line of a job's output that has words of a topic and a figure, whether a reader understands it or not.

An answer that declines says by it where to look; it is never the source of a figure.
"""

from __future__ import annotations

import re

import pyarrow.compute as pc

from tools.run.recorded.job_log import NamedLine, Topic
from tools.sources.job_log.scan import lines_of

DIGIT = r"[^\n]*\d"
NAMES: dict[Topic, str] = {
    "evaluation": r"\b(?:eval(?:uat\w*)?|valid(?:ation|ating|ate)?|(?:val|test)[ _/](?:loss|acc\w*))\b",
    "memory": r"\b(?:gpu|cuda|device|peak|max|allocated|reserved)[ _]?mem\w*|\b(?:vram|mem|memory|gb_free)\b",
    "length": r"\b(?:max|total|num|train\w*)[ _](?:train[ _])?(?:steps|iters|iterations|epochs?|time)\b"
    r"|\b(?:took|elapsed|eta|remaining)\b|\btrain\w* (?:finished|completed?|done)\b|\bfinish(?:ed)? train\w*",
    "batch": r"\b(?:\w+[ _])?batch[ _]?size\b",
    "precision": r"\b(?:bf16|bfloat16|fp16|float16|fp8|fp32|tf32|amp|mixed[ _]precision|half)\b",
    "save": r"\b(?:sav(?:e|ed|ing)|checkpoint\w*)\b",
}
FIGURES: dict[Topic, str] = {  # behind the name
    "evaluation": r"[^\n]*\d\.\d",
    "memory": r"[^\n]{0,40}\d",
    "batch": r"[^\n]{0,20}\d",
    "precision": "",
}
OF_MEMORY = r"\s\d+(?:\.\d+)?G\s"  # as Ultralytics writes it into a column of its table
PATTERNS = {topic: f"(?i:{names}){FIGURES.get(topic, DIGIT)}" for topic, names in NAMES.items()}
PATTERNS["memory"] += f"|{OF_MEMORY}"
WORDS = {topic: re.compile(names, re.IGNORECASE) for topic, names in NAMES.items()}
WORDS["memory"] = re.compile(f"{NAMES['memory']}|{OF_MEMORY}", re.IGNORECASE)
LONGEST_WORDS, LONGEST_LINE = 40, 4096  # characters
MOST_BYTES = 64 << 20  # that are looked through: what a job prints shows in its first hours


class NamedLines:
    """Looks for each topic until it was found."""

    def __init__(self, file: int) -> None:
        self.file = file
        self.found: dict[Topic, NamedLine] = {}
        self._looked = 0

    def take(self, text: bytes, block: bytes, line: int) -> None:
        """Look through whole lines, the first of them with this number; ``text`` is ``block`` with line feeds for
        carriage returns, which end no line by count."""
        if len(self.found) == len(PATTERNS) or not text or self._looked > MOST_BYTES:
            return
        self._looked += len(text)
        begins, column = lines_of(text)
        for topic, pattern in PATTERNS.items():
            if topic in self.found:
                continue
            held = pc.index(pc.match_substring_regex(column, pattern), True).as_py()
            if held >= 0:
                begin = int(begins[held])
                self._keep(topic, text[begin : begin + LONGEST_LINE], line + block.count(b"\n", 0, begin))

    def _keep(self, topic: Topic, begun: bytes, line: int) -> None:
        words = WORDS[topic].search(begun.partition(b"\n")[0].decode("utf-8", "replace"))
        if words is not None:
            self.found[topic] = NamedLine(topic, words[0].strip()[:LONGEST_WORDS], line, self.file)
