"""Figures with their units in one form for all frontends, and their citations in text: ``56.0 ms [E7]``, ``[A1]``."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes_agent.evidence.index import EvidenceIndex
    from hermes_agent.model.diagnosis import EvidenceRecord


CONTINUOUS = ("ns", "us", "ms", "s", "KiB", "MiB", "GiB")
MAGNITUDES = ((1e12, "T"), (1e9, "G"), (1e6, "M"))
LONG_S = 1e4  # and in hours
LONG_MS = 1e4  # from here on in seconds: more digits of ms than three mean nothing
CITATION = re.compile(r"\[((?:[EAC]\d+)(?:\s*[,;]\s*[EAC]\d+)*)\]")
CITED_FIGURE = re.compile(r"(?P<figure>[-+]?\d[\d.,]*(?:x|/\w+| [^\s\[\]]+)?) \[(?P<id>E\d+)\]")
CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
LIST_MARK = re.compile(r"^[ \t]*(?:[-*]|\d+[.)]|#+)[ \t]+", re.MULTILINE)
BOUNDARY = re.compile(r"(?<=[.!?])(?P<cite>(?:\s*\[[EAC]\d[^\]]*\])*)\s+(?=[\"'(]?[A-Z`*\[]|$)|\n+")


def written(value: float, unit: str) -> str:
    """A figure with its unit, rounded to three significant digits and at most two decimals; counts are whole.

    Times from ``LONG_MS`` on are in seconds, from ``LONG_S`` on in hours.
    """
    match unit:
        case "B" | "B/s" | "FLOP" | "FLOP/s":
            for size, prefix in MAGNITUDES:
                if abs(value) >= size:
                    return f"{_rounded(value / size)} {prefix}{unit}"
            return f"{_rounded(value)} {unit}"
        case "ms" if abs(value) >= LONG_MS:
            return written(value / 1e3, "s")
        case "s" if abs(value) >= LONG_S:
            return f"{_rounded(value / 3600)} h"
        case "x":
            return f"{value:.2f}x"
        case "" | "count":
            return _count(value)
        case _ if unit.startswith("/"):
            return f"{_count(value) if value == round(value) else _rounded(value)}{unit}"
        case _ if unit in CONTINUOUS or "/" in unit or unit == "%":
            return f"{_rounded(value)} {unit}"
        case _:
            return f"{_count(value)} {_singular(unit) if _count(value) == '1' else unit}"


def _singular(unit: str) -> str:
    return unit.removesuffix("es") if unit.endswith("sses") else unit.removesuffix("s")


def _count(value: float) -> str:
    return str(round(value)) if abs(value - round(value)) < 1e-9 or abs(value) >= 100 else f"{value:.1f}"


def _rounded(value: float) -> str:
    if value == 0:
        return "0"
    decimals = min(max(2 - math.floor(math.log10(abs(value))), 0), 3 if abs(value) < 0.1 else 2)
    return f"{value:.{decimals}f}"


def cited_ids(text: str) -> list[str]:
    """The ids cited in a text, in order."""
    return [part.strip() for match in CITATION.finditer(text) for part in re.split("[,;]", match.group(1))]


def without_citations(text: str) -> str:
    """The text as it reads where ids mean nothing."""
    return re.sub(rf"\s*{CITATION.pattern}", "", text)


def sentences(text: str) -> list[str]:
    """The text cut into sentences; a citation behind the full stop belongs to the sentence before it."""
    masked = text
    for opaque in (CODE, LIST_MARK):
        masked = opaque.sub(lambda match: "\x00" * len(match.group(0)), masked)
    result, begin = [], 0
    for match in BOUNDARY.finditer(masked):
        end = match.start() + len(match["cite"] or "")
        result.append(text[begin:end])
        begin = match.end()
    result.append(text[begin:])
    return [sentence.strip() for sentence in result if sentence.strip()]


def cited_figures(text: str) -> list[tuple[str, str]]:
    """Each figure that stands directly before a citation of evidence, as written, with the id."""
    return [(match["figure"], match["id"]) for match in CITED_FIGURE.finditer(CODE.sub(" ", text))]


def is_figure_of(figure: str, record: EvidenceRecord) -> bool:
    """Return whether the figure is written exactly as the evidence is rendered."""
    return figure == written(record.value, record.unit)


def wrong_citations(text: str, known: EvidenceIndex) -> list[str]:
    """The faults in the citations of a text: ids that do not exist, figures that are not their evidence's."""
    unknown = [f"[{name}] does not exist" for name in cited_ids(text) if name not in known]
    pairs = [(figure, known.evidence[name]) for figure, name in cited_figures(text) if name in known.evidence]
    wrong = [
        f"{figure!r} is not {written(record.value, record.unit)} [{record.id}]"
        for figure, record in pairs
        if not is_figure_of(figure, record)
    ]
    return unknown + wrong
