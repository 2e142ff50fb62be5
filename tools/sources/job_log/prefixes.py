"""The marks that launchers put before a line: rank, pod and time, and the codes by which terminals are coloured."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
MOST_MARKS = 6
# srun --label "3: "; mpirun --tag-output "[1,3]<stdout>:"; torchrun "[rank3]:", "[default3]:"; a script's "[rank 3]"
SRUN = re.compile(r"\s*(\d{1,6}): (?=\S)")
MPI = re.compile(r"\s*\[\d+,(\d{1,6})\]<(?:stdout|stderr)>: ?")
TORCHRUN = re.compile(r"\s*\[(?:rank|default|worker|trainer)[ _]?(\d{1,6})\](?:: ?|\s+|(?=\[))", re.I)
RANK_WORD = re.compile(r"\s*\[?(?:RANK|Rank|rank)[ =:](\d{1,6})\]?[:|,]?\s+(?=\S)")
RANK_LETTERS = ("RANK", "Rank", "rank")
POD = re.compile(r"\s*\[pod/([^\]\s]{1,200})\] ?")
RAY = re.compile(r"\s*\([\w .:-]{1,80} pid=\d{1,10}(?:, ip=[\w.:]{1,45})?\)\s?")  # the actor and its process
COMPOSE = re.compile(r"([\w.-]{1,80}-\d{1,4}) +\| ")
# Dates of Megatron-LM, Python's logging, ISO 8601 and glog, in brackets or not; the clock's zone is kept where stated.
STAMP = re.compile(
    r"\s*\[?(?P<date>\d{4}[-/]\d\d[-/]\d\d)[ T](?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?"
    r"(?P<zone>Z|[+-]\d\d:?\d\d)?\]?(?:\s*[-|,:]+)?\s*"
)
STAMP_WITHIN = 120  # characters of a line in which its time stands, behind a logger's name and level
CLOCK = re.compile(r"\s*\[?(?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?\]?\s+")
IN_BRACKETS: tuple[re.Pattern[str], ...] = (TORCHRUN, STAMP, CLOCK, RANK_WORD, MPI, POD)
OF_DIGITS: tuple[re.Pattern[str], ...] = (SRUN, STAMP, CLOCK)
OF_WORDS: tuple[re.Pattern[str], ...] = (RANK_WORD,)
OF_BRACES: tuple[re.Pattern[str], ...] = (RAY,)
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Stamp:
    """Seconds on the log's clock (since 1970 where a date is stated, else since midnight), and their resolution."""

    seconds: float
    resolution_s: float
    dated: bool
    zoned: bool = False  # the zone of the clock is stated


@dataclass(frozen=True, slots=True)
class Line:
    """A line without its marks: its number, the rank and the pod that they name, and the text of its time."""

    number: int
    text: str
    rank: int | None = None
    pod: str = ""
    time: re.Match[str] | None = None

    @property
    def stamp(self) -> Stamp | None:
        """Its time; None where it has none, or an impossible one."""
        if self.time is None:
            return None
        return _dated(self.time) if self.time.re is STAMP else _clock(self.time)


def parse_line(number: int, data: bytes) -> Line:
    """The text of a line behind its marks; what is not UTF-8 is replaced."""
    text = data.decode("utf-8", "replace")
    if "\x1b" in text:
        text = ESCAPES.sub("", text)
    rank: int | None = None
    pod = ""
    time: re.Match[str] | None = None
    at = 0
    for _ in range(MOST_MARKS):
        found = _mark(text, at, time is None)
        if found is None:
            break
        if found.re is STAMP or found.re is CLOCK:
            time = found
        elif found.re is POD or found.re is COMPOSE:
            pod = found[1]
        elif found.re is RAY:
            pod = pod or found[0].strip()
        else:
            rank = int(found[1]) if rank is None else rank
        at = found.end()
    return Line(number, text[at:], rank, pod, time)


def _mark(text: str, at: int, timed: bool) -> re.Match[str] | None:
    """The next mark; the first letter of the line says which it may be."""
    start = text[at : at + 1]
    if start.isspace():
        start = text[at:].lstrip()[:1]
    if start == "[":
        tried = IN_BRACKETS
    elif start.isdigit():
        tried = OF_DIGITS
    elif text.startswith(RANK_LETTERS, at):
        tried = OF_WORDS
    elif start == "(":
        tried = OF_BRACES
    else:
        return COMPOSE.match(text) if at == 0 and " | " in text[:90] else None
    for mark in tried:
        if (timed or mark not in (STAMP, CLOCK)) and (found := mark.match(text, at)):
            return found
    return None


def stamp_within(text: str) -> Stamp | None:
    """The date and time behind other marks at the start of a line, such as ``[INFO|trainer.py:1] 2021-05-25 ...``."""
    found = STAMP.search(text, 0, STAMP_WITHIN)
    return None if found is None else _dated(found)


def _dated(found: re.Match[str]) -> Stamp | None:
    try:
        moment = datetime.fromisoformat(f"{found['date'].replace('/', '-')}T{found['time']}")
    except ValueError:
        return None
    seconds = moment.replace(tzinfo=_zone(found["zone"])).timestamp()
    return Stamp(seconds + _part(found), _resolution(found), dated=True, zoned=bool(found["zone"]))


def _clock(found: re.Match[str]) -> Stamp:
    hours, minutes, seconds = map(int, found["time"].split(":"))
    return Stamp(hours * 3600 + minutes * 60 + seconds + _part(found), _resolution(found), dated=False)


def _zone(text: str | None) -> timezone:
    """UTC where no zone is stated: only differences within the log are used."""
    if not text or text == "Z":
        return UTC
    sign = -1 if text[0] == "-" else 1
    digits = text[1:].replace(":", "")
    return timezone(sign * timedelta(hours=min(int(digits[:2]), 23), minutes=min(int(digits[2:]), 59)))


def _part(found: re.Match[str]) -> float:
    return float(f"0.{found['part']}") if found["part"] else 0.0


def _resolution(found: re.Match[str]) -> float:
    return 10.0 ** -len(found["part"]) if found["part"] else 1.0


def after(later: Stamp, earlier: Stamp) -> float:
    """Seconds between two stamps of one log; a clock without a date has passed midnight at most once."""
    seconds = later.seconds - earlier.seconds
    if not (later.dated and earlier.dated) and seconds < -DAY_S / 2:
        seconds += DAY_S
    return seconds
