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
POD = re.compile(r"\s*\[pod/([^\]\s]{1,200})\] ?")
COMPOSE = re.compile(r"([\w.-]{1,80}-\d{1,4})\s+\| ")
# Dates of Megatron-LM, Python's logging, ISO 8601 and glog, in brackets or not; the clock's zone is kept where stated.
STAMP = re.compile(
    r"\s*\[?(?P<date>\d{4}[-/]\d\d[-/]\d\d)[ T](?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?"
    r"(?P<zone>Z|[+-]\d\d:?\d\d)?\]?(?:\s*[-|,:]+)?\s*"
)
STAMP_WITHIN = 120  # characters of a line in which its time stands, behind a logger's name and level
CLOCK = re.compile(r"\s*\[?(?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?\]?\s+")
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Stamp:
    """Seconds on the log's clock (since 1970 where a date is stated, else since midnight), and their resolution."""

    seconds: float
    resolution_s: float
    dated: bool


@dataclass(frozen=True, slots=True)
class Line:
    """A line without its marks: its number, the rank and the pod that they name, and its time."""

    number: int
    text: str
    rank: int | None = None
    pod: str = ""
    stamp: Stamp | None = None


def parse_line(number: int, data: bytes) -> Line:
    """The text of a line behind its marks; what is not UTF-8 is replaced."""
    text = data.decode("utf-8", "replace")
    if "\x1b" in text:
        text = ESCAPES.sub("", text)
    rank: int | None = None
    pod = ""
    stamp: Stamp | None = None
    at = 0
    for _ in range(MOST_MARKS):
        start = text[at : at + 1]
        if start.isalpha() and start not in "Rr" and "|" not in text[at : at + 90]:
            break
        if (
            found := TORCHRUN.match(text, at)
            or MPI.match(text, at)
            or SRUN.match(text, at)
            or RANK_WORD.match(text, at)
        ):
            rank = int(found[1]) if rank is None else rank
        elif (found := POD.match(text, at)) or (at == 0 and (found := COMPOSE.match(text, at))):
            pod = found[1]
        elif stamp is None and (found := STAMP.match(text, at)):
            stamp = _dated(found)
        elif stamp is None and (found := CLOCK.match(text, at)):
            stamp = _clock(found)
        else:
            break
        at = found.end()
    return Line(number, text[at:], rank, pod, stamp)


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
    return Stamp(seconds + _part(found), _resolution(found), dated=True)


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
