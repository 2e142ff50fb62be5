"""The length that a question names: ``under 5 us``, ``at least 2 ms``, ``zwischen 1 und 3 ms``, ``超过1毫秒``."""

from __future__ import annotations

import re
from dataclasses import dataclass

IN_US = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
ONE_NS_US = 1e-3  # times are whole nanoseconds: longer than 5 us is 5.001 us or more
NUMBER = r"(\d{1,3}(?:,\d{3})+|\d+(?:[.,]\d+)?)"
UNIT = (
    r"(?:(?P<ns{0}>ns|nanose[ck]\w*|纳秒)|(?P<us{0}>us(?:ec)?s?|[µμ]s|mi[ck]rose[ck]\w*|微秒)"
    r"|(?P<ms{0}>ms(?:ec)?s?|millise[ck]\w*|毫秒)|(?P<s{0}>s|secs?|seconds?|sekunden?|秒))(?![a-z])"
)
LENGTH = re.compile(rf"(?<![a-z0-9_.,]){NUMBER}\s*{UNIT.format('')}")
BETWEEN = re.compile(
    rf"{NUMBER}\s*(?:{UNIT.format('')})?\s*(?:and|to|und|bis|y|et|-|–|到|至|和)\s*{NUMBER}\s*{UNIT.format('2')}"
)
_AS = r"(?: (?:than|als))?"
# What stands before a length, the first that fits: "no more than" is not "more than".
AT_MOST = (
    rf"(?:not|no|nicht) (?:more|longer|over|above|greater|slower|mehr|langer|uber){_AS}|up to|at most|at maximum|within"
    r"|max(?:imum|imal)?|hochstens|bis zu|<=|≤|不超过|至多|最多"
)
AT_LEAST = (
    rf"(?:not|no|nicht) (?:less|shorter|under|below|faster|smaller|weniger|kurzer|unter){_AS}|at least|at minimum"
    r"|min(?:imum|destens)?|>=|≥|至少|不少于"
)
BELOW = (
    rf"(?:less|shorter|faster|smaller|quicker|briefer|lower|fewer|weniger|kurzer|schneller|kleiner){_AS}"
    r"|under|below|unter|<|小于|少于|短于|低于|不到"
)
ABOVE = (
    rf"(?:more|longer|slower|greater|bigger|larger|higher|langer|mehr|grosser|langsamer){_AS}"
    r"|over|above|beyond|exceed\w*|uber|>|超过|大于|长于|高于|多于"
)
BEFORE = re.compile(
    rf"(?:(?P<most>{AT_MOST})|(?P<least>{AT_LEAST})|(?P<below>{BELOW})|(?P<above>{ABOVE}))"
    r"\s*(?:about |around |roughly |etwa )?$"
)
AFTER = re.compile(
    r"^\s*(?:(?P<least>(?:or|and|oder|und) (?:more|longer|over|above|up|slower|mehr|langer)\b|以上)"
    r"|(?P<most>(?:or|and|oder|und) (?:less|shorter|under|below|faster|weniger|kurzer)\b|以内|以下))"
)
UMLAUTS = str.maketrans({"ä": "a", "ö": "o", "ü": "u", "ß": "ss"})


@dataclass(frozen=True)
class Lengths:
    """Events of at least ``least_us`` and shorter than ``most_us``; ``text`` says it as an attribute."""

    least_us: float | None
    most_us: float | None
    text: str

    def holds(self, length_us: float) -> bool:
        """Whether an event of this length is meant."""
        return (self.least_us is None or length_us >= self.least_us) and (
            self.most_us is None or length_us < self.most_us
        )


def lengths(text: str) -> Lengths | None:
    """The range of lengths in a question; None where it names none."""
    low = text.lower().translate(UMLAUTS)
    if match := BETWEEN.search(low):
        second = _unit(match, "2")
        first_us = _number(match[1]) * IN_US[_unit(match, "") or second]
        last_us = _number(match[6]) * IN_US[second]
        first_us, last_us = min(first_us, last_us), max(first_us, last_us)
        return Lengths(first_us, last_us + ONE_NS_US, f"from {_text(first_us)} to {_text(last_us)}")
    least = most = None
    texts = []
    for match in LENGTH.finditer(low):
        relation = BEFORE.search(low[: match.start()]) or AFTER.search(low[match.end() :])
        if relation is None:
            continue
        length_us = _number(match[1]) * IN_US[_unit(match, "")]
        match relation.lastgroup:
            case "below":
                most, said = length_us, "shorter than"
            case "above":
                least, said = length_us + ONE_NS_US, "longer than"
            case "most":
                most, said = length_us + ONE_NS_US, "of at most"
            case _:
                least, said = length_us, "of at least"
        texts.append(f"{said} {_text(length_us)}")
    return Lengths(least, most, " and ".join(texts)) if texts else None


def without_side(text: str) -> bool:
    """Whether a length is named without saying if longer or shorter is meant."""
    return bool(LENGTH.search(text.lower())) and lengths(text) is None


def bounds(asked: Lengths | None) -> dict[str, float]:
    """The arguments of tools and metrics for a range; none without one."""
    given = {} if asked is None else {"min_us": asked.least_us, "max_us": asked.most_us}
    return {name: value for name, value in given.items() if value is not None}


def _number(text: str) -> float:
    return float(text.replace(",", "") if re.fullmatch(r"\d{1,3}(,\d{3})+", text) else text.replace(",", "."))


def _unit(match: re.Match[str], place: str) -> str:
    return next((unit for unit in IN_US if match[f"{unit}{place}"]), "")


def _text(length_us: float) -> str:
    return f"{length_us / 1e3:g} ms" if length_us >= 1e3 else f"{length_us:g} us"
