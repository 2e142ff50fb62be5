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
OF_PYTORCH = tuple(f"[rank{digit}" for digit in range(10))
RANK_WORD = re.compile(r"\s*\[?(?:RANK|Rank|rank)[ =:](\d{1,6})\]?[:|,]?\s+(?=\S)")
RANK_LETTERS = ("RANK", "Rank", "rank")
POD = re.compile(r"\s*\[pod/([^\]\s]{1,200})\] ?")
RAY = re.compile(r"\s*\([\w .:-]{1,80} pid=\d{1,10}(?:, ip=[\w.:]{1,45})?\)\s?")  # the actor and its process
COMPOSE = re.compile(r"([\w.-]{1,80}-\d{1,4}) +\| ")
# Dates of Megatron-LM, Python's logging and ISO 8601, in brackets or not; the clock's zone is kept where stated. Behind
# it the stream of Kubernetes' container runtime.
STAMP = re.compile(
    r"\s*\[?(?P<date>\d{4}[-/]\d\d[-/]\d\d)[ T](?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?"
    r"(?P<zone>Z| ?(?:UTC|GMT)\b|[+-]\d\d:?\d\d| [+-]\d{4}(?=[\s\]]))?\]?(?:\s*[-|,:]+)?\s*(?:std(?:out|err) [FP] )?"
)
STAMP_WITHIN = 120  # characters of a line in which its time stands, behind a logger's name and level
CLOCK = re.compile(r"\s*\[?(?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?\]?\s+")
# Seconds since 1970 with a fraction or in brackets, else in ms, us or ns: a bare one may be a number of bytes.
EPOCH = re.compile(
    r"\s*(?:(?P<open>\[)(?=\d{10}\]))?\[?(?P<epoch>1[3-9]\d{8})"
    r"(?:\.(?P<part>\d{1,9})|(?P<finer>\d{9}|\d{6}|\d{3})|(?(open)|(?!)))\]?(?:\s*[-|:]+)?\s+(?=\S)"
)
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# syslog (RFC 3164) with host and program, and C's ctime, which states the year; glog and absl, which do not.
SYSLOG = re.compile(
    rf"\s*\[?(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) )?(?P<month>{'|'.join(MONTHS)}) {{1,2}}(?P<day>\d{{1,2}}) "
    r"(?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?(?: (?P<year>\d{4})(?=[\s\]]))?\]?\s+"
    r"(?:[\w.-]{1,64} [\w./-]{1,48}(?:\[\d{1,10}\])?: )?"
)
GLOG = re.compile(
    r"\s*[IWEF](?P<month>\d\d)(?P<day>\d\d) (?P<time>\d\d:\d\d:\d\d)\.(?P<part>\d{1,9})(?= )[^\]]{1,160}\] ?"
)
# Python's logging with "%m-%d %H:%M:%S".
MONTH_DAY = re.compile(
    r"\s*\[?(?P<month>\d\d)-(?P<day>\d\d) (?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?\]?(?:\s*[-|,:]+)?\s+"
)
# fvcore's and Detectron2's loggers with "%m/%d %H:%M:%S", which is kept apart from other orders by what follows.
SLASHED = re.compile(
    r"\s*\[(?P<month>\d\d)/(?P<day>\d\d) (?P<time>\d\d:\d\d:\d\d)(?P<part>)\] "
    r"(?=[\w.]{1,80} (?:DEBUG|INFO|WARNING|ERROR): )"
)
# The head of a line of PyTorch's C++ code, such as "[E419 10:42:28.858931807 ProcessGroupNCCL.cpp:616]".
C10 = re.compile(r"\[[IWEF](?P<month>\d{1,2})(?P<day>\d\d) (?P<time>\d\d:\d\d:\d\d)(?:\.(?P<part>\d{1,9}))?(?=[ \]])")
TIMES = (STAMP, CLOCK, EPOCH, SYSLOG, GLOG, MONTH_DAY, SLASHED)
TIME_LETTERS = frozenset("IWEFJMASONDT")  # of levels, months and days of the week
IN_BRACKETS: tuple[re.Pattern[str], ...] = (
    TORCHRUN,
    STAMP,
    CLOCK,
    RANK_WORD,
    MPI,
    POD,
    EPOCH,
    SYSLOG,
    MONTH_DAY,
    SLASHED,
)
OF_DIGITS: tuple[re.Pattern[str], ...] = (SRUN, STAMP, CLOCK, EPOCH, MONTH_DAY)
OF_LETTERS: tuple[re.Pattern[str], ...] = (GLOG, SYSLOG)
OF_WORDS: tuple[re.Pattern[str], ...] = (RANK_WORD,)
OF_BRACES: tuple[re.Pattern[str], ...] = (RAY,)
DAY_S = 86_400.0
LEAP_YEAR = 2024  # in which a date without a year is placed, so that every date exists
YEAR_S = 366 * DAY_S
MARCH_S = datetime(LEAP_YEAR, 3, 1, tzinfo=UTC).timestamp()
LEAP_DAY_S = MARCH_S - DAY_S


@dataclass(frozen=True, slots=True)
class Stamp:
    """Seconds on the log's clock and their resolution.

    Since 1970 where a whole date is stated; in some year (``yearless``), as syslog and glog write it, or since midnight
    otherwise.
    """

    seconds: float
    resolution_s: float
    dated: bool
    zoned: bool = False  # the zone of the clock is stated
    yearless: bool = False

    @property
    def kind(self) -> tuple[bool, bool, bool]:
        """What differences may be taken of: stamps of one kind."""
        return self.dated, self.yearless, self.zoned


@dataclass(frozen=True, slots=True)
class Line:
    """A line without its marks: its number, the rank and the pod that they name, and the text of its time.

    ``job_rank`` is the rank of the whole job, which PyTorch itself writes; a launcher's may be that of the host.
    """

    number: int
    text: str
    rank: int | None = None
    pod: str = ""
    time: re.Match[str] | None = None
    job_rank: int | None = None

    @property
    def stamp(self) -> Stamp | None:
        """Its time; None where it has none, or an impossible one."""
        return None if self.time is None else _stamp(self.time)


QUOTED = re.compile(r"\A(?:> ){1,9}")  # as issues and mails quote a line


def parse_line(number: int, data: bytes) -> Line:
    """The text of a line behind its marks; what is not UTF-8 is replaced."""
    text = data.decode("utf-8", "replace")
    if "\x1b" in text:
        text = ESCAPES.sub("", text)
    if text.startswith(">"):
        text = QUOTED.sub("", text)
    rank: int | None = None
    job_rank: int | None = None
    pod = ""
    time: re.Match[str] | None = None
    at = 0
    for _ in range(MOST_MARKS):
        found = _mark(text, at, time is None)
        if found is None:
            break
        if found.re in TIMES:
            time = found
        elif found.re is POD or found.re is COMPOSE:
            pod = found[1]
        elif found.re is RAY:
            pod = pod or found[0].strip()
        else:
            rank = int(found[1]) if rank is None else rank
            job_rank = int(found[1]) if found[0].lstrip().startswith(OF_PYTORCH) else job_rank
        at = found.end()
    return Line(number, text[at:], rank, pod, time, job_rank)


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
        tried = OF_LETTERS if start in TIME_LETTERS else ()
    for mark in tried:
        if (timed or mark not in TIMES) and (found := mark.match(text, at)):
            return found
    return COMPOSE.match(text) if at == 0 and " | " in text[:90] else None


def stamp_within(text: str) -> Stamp | None:
    """The date and time behind other marks at the start of a line, such as ``[INFO|trainer.py:1] 2021-05-25 ...``."""
    found = STAMP.search(text, 0, STAMP_WITHIN) or C10.search(text, 0, STAMP_WITHIN)
    return None if found is None else _stamp(found)


def _stamp(found: re.Match[str]) -> Stamp | None:
    """The time that a mark states; None where it is an impossible one."""
    if found.re is STAMP:
        return _dated(found)
    if found.re is EPOCH:
        return _since_1970(found)
    return _clock(found) if found.re is CLOCK else _of_year(found)


def _since_1970(found: re.Match[str]) -> Stamp:
    finer = found["finer"]
    if finer:
        return Stamp(float(f"{found['epoch']}.{finer}"), 10.0 ** -len(finer), dated=True, zoned=True)
    return Stamp(float(found["epoch"]) + _part(found), _resolution(found), dated=True, zoned=True)


def _of_year(found: re.Match[str]) -> Stamp | None:
    """A date with the month's name or number, and a year only where ``ctime`` wrote it."""
    month = MONTHS.index(found["month"]) + 1 if found.re is SYSLOG else int(found["month"])
    year = found["year"] if found.re is SYSLOG else None
    hours, minutes, seconds = map(int, found["time"].split(":"))
    try:
        moment = datetime(
            int(year or LEAP_YEAR), month, int(found["day"]), hours, minutes, seconds, tzinfo=UTC
        ).timestamp()
    except ValueError:
        return None
    return Stamp(moment + _part(found), _resolution(found), dated=bool(year), yearless=not year)


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
    text = (text or "").strip()
    if text in ("", "Z", "UTC", "GMT"):
        return UTC
    sign = -1 if text[0] == "-" else 1
    digits = text[1:].replace(":", "")
    return timezone(sign * timedelta(hours=min(int(digits[:2]), 23), minutes=min(int(digits[2:]), 59)))


def _part(found: re.Match[str]) -> float:
    return float(f"0.{found['part']}") if found["part"] else 0.0


def _resolution(found: re.Match[str]) -> float:
    return 10.0 ** -len(found["part"]) if found["part"] else 1.0


def after(later: Stamp, earlier: Stamp) -> float:
    """Seconds between two stamps of one kind in one log.

    A clock without a date has passed midnight at most once, a date without a year the end of a year at most once; over
    the end of February such a date has passed the 29th only where a line is of that day.
    """
    seconds = later.seconds - earlier.seconds
    if later.yearless and earlier.yearless:
        if seconds < -YEAR_S / 2:
            seconds += YEAR_S
        leaps = earlier.seconds < LEAP_DAY_S and later.seconds >= MARCH_S and seconds >= DAY_S
        return seconds - DAY_S if leaps else seconds
    if not (later.dated and earlier.dated) and seconds < -DAY_S / 2:
        seconds += DAY_S
    return seconds


@dataclass
class LogClock:
    """The clock of one log: seconds that rise over midnight or the end of a year, of stamps of one kind alone."""

    _last: Stamp | None = None
    _seconds: float = 0.0

    def seconds(self, stamp: Stamp | None) -> float | None:
        """The time of a line; None without one, or where it is of another kind than the first."""
        if stamp is None or (self._last is not None and stamp.kind != self._last.kind):
            return None
        if self._last is None:
            self._seconds = stamp.seconds
        else:
            self._seconds += after(stamp, self._last)
        self._last = stamp
        return self._seconds
