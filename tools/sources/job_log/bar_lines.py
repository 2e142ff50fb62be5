"""The updates of progress bars in a line: tqdm, Lightning's, rich and Ultralytics ones."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tools.sources.job_log.numbers import NUMBER, clock_s, number

COUNT = r"(\d{1,15})/(\d{1,15})"
GAP = r"\s{0,9}"
# A bar is searched from its mark, and its name is read before it: a name at the start of the pattern would be tried
# at every character of a line, and lines are anybody's.
TQDM = re.compile(
    rf"\d{{1,3}}%(?:\|[^|]{{0,300}}\||(?=\s)){GAP}{COUNT}{GAP}"
    rf"\[(?:(?P<elapsed>\d[\d:a-z, ]{{0,30}}?)<[^,\]]{{0,30}},{GAP})?{GAP}"
    rf"(?:({NUMBER})\s?(it/s|s/it|step/s|batch/s|s/?i?\s?\Z|it?/?\s?\Z)|\?)"
)
PLAIN = re.compile(rf"{COUNT}{GAP}\[(?P<elapsed>{NUMBER}s),{GAP}({NUMBER})\s?(it/s|s/it)")
# A loop of unknown length: "Epoch 0: 603it [00:37, 25.89it/s]".
ENDLESS = re.compile(rf"(?<=\s)(\d{{1,15}})it \[(?P<elapsed>\d[\d:]{{3,12}}), {{1,3}}(?:({NUMBER})(it/s|s/it)|\?it/s)")
NO_TOTAL = -1
RICH = re.compile(
    rf"(?<=\s)[^\s━╸╺]{{0,30}}[━╸╺]{{1,200}}{GAP}{COUNT}{GAP}(?P<elapsed>\d[\d:]{{1,12}}){GAP}•{GAP}\S{{0,12}}{GAP}"
    rf"({NUMBER})\s?(it/s|s/it)"
)
# Ultralytics since 8.3: "75% ━━━━━━━━━─── 3/4 1.8s/it 4.2s<1.8s", at the end without what is left.
TICKED = re.compile(
    rf"\d{{1,3}}% [━╸╺─]{{1,60}} {COUNT} ({NUMBER})\s?(it/s|s/it) "
    r"(?P<elapsed>\d[\d:]{0,12}(?:\.\d{1,3})?s?)(?=<|\s|\Z)"
)
# tqdm_loggable, which writes a bar's updates to the log every ten seconds, counts above 999 with three digits.
LOGGED = re.compile(
    rf"\bProgress on:(?P<name>.{{0,60}}?) (?P<done>\d[\d.]{{0,4}})(?P<scale>[kMG]?)(?P<unit>[a-z]{{0,12}})"
    rf"/(?P<total>\d[\d.]{{0,4}})(?P<of>[kMG]?)(?P=unit) rate:"
    rf"(?:({NUMBER})\s?(?P<per>s/[a-z]{{1,12}}|[a-z]{{1,12}}/s)|-)"
    rf" remaining:.{{1,40}}? elapsed:(?P<elapsed>\d[\d:]{{3,12}}) "
)
LOGGED_MARK = "Progress on:"
SCALES = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}
LEAST_RATE = 1.0  # one digit behind the point: a smaller one is not exact to 5 %
# Drawn over before its end, by itself: "  1%|#   | 1/90 [16:59<25:12  1%|#  | 1/90 [16:59<25:12:38, 1019.75s/it".
DRAWN_OVER = re.compile(r"\d{1,15}/\d{1,15} \[[\d:]{1,12}<")
# The end of a bar in a line that was cut: its last letters are missing.
CUT_END = re.compile(r"%\|.{1,400}\d(?:s/?i?|it?/?)\s?\Z")
NAME = re.compile(r"[^|\r]{0,60}\Z")
NAME_CHARS = 61  # the name and the space behind it
# Bars of other work than training steps.
OTHER = re.compile(
    r"valid|eval|test|predict|sanity|map|filter|load|download|fetch|token|generat|sav|shard|collat|process|extract|build"
    r"|compil|warm|cache|writ|read|pars|trial|(?<![a-z])(?:val|dev)(?![a-z])|\bmAP\d",
    re.I,
)
EVALUATION = re.compile(r"valid|eval|test|(?<![a-z])(?:val|dev)(?![a-z])|\bmAP\d", re.I)
OF_STEPS = re.compile(r"step|train|iter|batch|epoch \d", re.I)  # a single update of another bar may be of anything
# Ultralytics draws its bar behind the epoch, the memory and the losses; validation has other columns.
ULTRALYTICS = re.compile(r"(?:\A|\s)(\d{1,6}/\d{1,6})\s{1,20}\d[\d.]{0,9}G(?:\s{1,20}\d[\d.]{0,9}){3,12}:\s{0,9}\Z")
ROW_CHARS = 200  # of such a row
TRIALS = "trials"  # what a search over settings counts, by the best one that it shows: each is a training
BEST = re.compile(r"\bbest (?:loss|value|score|trial)\b", re.IGNORECASE)
GENERATION = "open-end generation"  # what transformers says behind the bar of a loop that generates text
SHORTEST_MS = 0.1  # no step with an optimizer is shorter: a bar of such items counts samples or the like


@dataclass(frozen=True, slots=True)
class BarPoint:
    """One update: steps done of ``total``, seconds since the bar began, ms of a step by its rate (None: not shown).

    ``rounded``: the count is shown with three digits, and ``done`` is the least that is shown so.
    """

    name: str
    done: int
    total: int
    elapsed_s: float | None
    step_ms: float | None
    rounded: bool = False
    behind: str = ""  # what stands behind the rate
    exact: bool = False  # the clock shows tenths of a second


def bar_point(text: str) -> BarPoint | None:
    """The update that a piece of a line shows; None where it shows none."""
    if LOGGED_MARK in text:
        return _logged(text)
    if "it/s" not in text and "s/it" not in text and CUT_END.search(text) is None:
        return None
    found = TQDM.search(text) or PLAIN.search(text) or RICH.search(text) or TICKED.search(text)
    if found is None:
        return _endless(text)
    done, total, elapsed, rate, unit = found.group(1, 2, "elapsed", *((3, 4) if found.re is TICKED else (4, 5)))
    shown = number(rate) if rate else None
    step_ms = (
        None
        if not shown or shown <= 0
        else (shown * 1e3 if unit.startswith("s/i") or unit.strip() in ("s", "s/") else 1e3 / shown)
    )
    seconds = None
    if elapsed:
        seconds = number(elapsed[:-1]) if elapsed.endswith("s") else clock_s(elapsed)
    name = _name_before(text, found.start()) or (GENERATION if GENERATION in text else "")
    name = TRIALS if BEST.search(text, found.end()) else name
    exact = bool(elapsed) and elapsed.endswith("s") and "." in elapsed
    return BarPoint(name, int(done), int(total), seconds, step_ms, behind=text[found.end() :], exact=exact)


def _endless(text: str) -> BarPoint | None:
    """The update of a bar that counts to no total, where its name says that it counts steps."""
    found = ENDLESS.search(text)
    if found is None:
        return None
    name, shown = _name_before(text, found.start()), number(found[3]) if found[3] else None
    if not OF_STEPS.search(name) or OTHER.search(name):
        return None
    step_ms = None if not shown or shown <= 0 else 1e3 * shown if found[4] == "s/it" else 1e3 / shown
    return BarPoint(name, int(found[1]), NO_TOTAL, clock_s(found["elapsed"]), step_ms, behind=text[found.end() :])


def _logged(text: str) -> BarPoint | None:
    """The update that a line of tqdm_loggable shows: ``Progress on:Training:  1.21kit/200kit rate:2.2s/it
    remaining:121:29:55 elapsed:46:31 postfix:-`` (tqdm_logging.py: display)."""
    found = LOGGED.search(text)
    if found is None:
        return None
    scale = SCALES[found["scale"]]
    done, total = float(found["done"]) * scale, round(float(found["total"]) * SCALES[found["of"]])
    rate, per = found[7], found["per"]
    shown = number(rate) if rate else None
    step_ms = None
    if shown is not None and shown >= LEAST_RATE:
        step_ms = 1e3 * shown if per.startswith("s/") else 1e3 / shown
    digits = found["done"]
    last = scale / 10.0 ** len(digits.partition(".")[2])  # what the last digit counts
    half = last / 20.0 if digits.strip("0.") == "1" else last / 2.0  # below 1.00k, 10.0k and 100k it counts less
    least = done if scale == 1 else math.ceil(done - half)
    return BarPoint(found["name"].strip(), int(least), total, clock_s(found["elapsed"]), step_ms, scale > 1)


def names_steps(point: BarPoint) -> bool:
    """Whether the name of a bar shows that it counts training steps, and its rate how long one takes."""
    train = OF_STEPS.search(point.name) is not None and OTHER.search(point.name) is None
    return train and point.done > 0 and point.step_ms is not None and point.step_ms >= SHORTEST_MS


def _name_before(text: str, start: int) -> str:
    """The name in front of a bar: up to 60 characters of its part of the line; of a row of Ultralytics the epoch."""
    if "G" in text[max(0, start - ROW_CHARS) : start] and (row := ULTRALYTICS.search(text[:start][-ROW_CHARS:])):
        return f"Epoch {row[1]}"
    before = text[max(0, start - NAME_CHARS) : start]
    named = NAME.search(before[:-1] if before[-1:].isspace() else before)
    name = named[0].strip() if named else ""
    return "" if DRAWN_OVER.search(name) else name
