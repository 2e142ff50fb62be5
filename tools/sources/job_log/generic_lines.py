"""Lines of any program that name a step and its time: free text, and records with names (JSON, dictionaries, CSV).

A time needs a unit: next to the number or in the name of the field. One without is kept as ``bare_time``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

import msgspec

from tools.sources.job_log.numbers import NUMBER, TO_MS, UNIT, in_ms, number
from tools.sources.job_log.step_figures import StepLine

LONGEST_RECORD = 2048  # characters
BARE_WALL = ("wall_time", "walltime")  # of a step, where it is no moment
SINCE_1970_S = 1e8  # a larger time is a moment: in seconds it would be a step of three years
MS_SINCE_1970 = 1e11  # a larger clock counts milliseconds: in seconds it would be the year 5138
# Words of lines that speak of other work at a step: evaluating, saving, loading, compiling.
OTHER_WORK = re.compile(
    r"\b(?:valid(?:ation)?|eval(?:uation|uating)?|test(?:ing)?|inference|sanity|checkpoint(?:s|ing)?|sav(?:e|ed|ing)"
    r"|load(?:ed|ing)?|restor(?:ed|ing)|resum(?:ed|ing)|download\w*|upload\w*|export\w*|compil(?:ed|ing|ation)"
    r"|finished|completed)\b",
    re.I,
)
# Names of fields, in small letters with "_" between words; what stands before the last "/" says where they belong.
STEP_KEYS = re.compile(
    r"(?:.*/)?_?(?:(?:global|train(?:ing)?|opt(?:imizer)?)_)?"
    r"(?:steps?|iter(?:ation)?s?|it|batch_idx|updates?|iter_num|num_updates)\Z"
)
STEP_WORDS = r"(?:step|iter(?:ation)?|batch|update)"
TIME_KEYS = re.compile(
    rf"(?:.*/)?(?:train(?:ing)?_)?(?:{STEP_WORDS}_(?:time|duration|latency|wall)|(?:time|seconds|secs?)_per_{STEP_WORDS}"
    rf"|per_{STEP_WORDS}_time|{STEP_WORDS}_timing|dt|step_wall|wall)\Z|(?:.*/)?(?:timing|times?|perf)/{STEP_WORDS}\Z"
)
TIME_FIRST = re.compile(rf"(?:.*/)?({UNIT})_per_{STEP_WORDS}\Z|(?:timing|time)_({UNIT})/{STEP_WORDS}\Z")
UNIT_OF_KEY = re.compile(rf"(.{{1,60}}?)[_/(\[]{{1,2}}(?:in_)?({UNIT})[)\]]?\Z")
RATE_KEYS = re.compile(r"(?:.*/)?(?:it|iters?|iterations|steps)(?:_per_|/)(?:s|sec|second)\Z|(?:.*/)?its_per_s\Z")
CLOCK_KEYS = re.compile(
    r"(?:.*/)?_?(?:wall_time|timestamp|time_?stamp|unix_time|runtime|elapsed(?:_time)?|time_elapsed|relative_time|time)"
    rf"(?:[_(\[]{{1,2}}{UNIT}[)\]]?)?\Z"
)
OTHER_RECORD = re.compile(r"(?:eval|test|val|validation)(?:_|/)|train_runtime\Z")
BETWEEN = re.compile(r"[\s.-]+")


@lru_cache(maxsize=1 << 12, typed=True)  # records repeat the same names
def field_name(name: object) -> str:
    """A name of a field as the patterns of names expect it."""
    return BETWEEN.sub("_", str(name).strip().lower())


def times_steps(names: Iterable[str]) -> bool:
    """Whether records with these names state a step and when it was, or how long it took."""
    low = [field_name(name) for name in names]
    timed = any(_unit_of(name) is not None or RATE_KEYS.match(name) or CLOCK_KEYS.match(name) for name in low)
    return timed and any(STEP_KEYS.match(name) for name in low)


@lru_cache(maxsize=1 << 12)
def _unit_of(name: str) -> str | None:
    """The unit of a field that is the time of a step; "" where its name has none, None where it is another field."""
    if first := TIME_FIRST.match(name):
        return first[1] or first[2]
    if TIME_KEYS.match(name):
        return ""
    unit = UNIT_OF_KEY.match(name)
    return unit[2] if unit and TIME_KEYS.match(unit[1]) else None


def of_mapping(values: Mapping[str, object], grammar: str) -> StepLine | None:
    """The figures of one record with names: a JSON line, a Python dictionary, a row of CSV."""
    low = {field_name(name): value for name, value in values.items()}
    if any(OTHER_RECORD.match(name) for name in low):
        return None
    step = next(
        (at for name, value in low.items() if STEP_KEYS.match(name) and (at := _whole_of(value)) is not None), None
    )
    if step is None:
        return None
    line = StepLine(grammar, step, epoch=_whole_of(low.get("epoch")))
    figures = {name: figure for name, value in low.items() if (figure := _number_of(value)) is not None and figure > 0}
    times = [(unit, figure) for name, figure in figures.items() if (unit := _unit_of(name)) is not None]
    if stated := next((each for each in times if each[0]), None):
        return replace(line, wall_ms=in_ms(str(stated[1]), stated[0]))
    if (rate := next((figures[name] for name in figures if RATE_KEYS.match(name)), None)) is not None:
        return replace(line, wall_ms=1e3 / rate)
    times += [("", figures[name]) for name in BARE_WALL if figures.get(name, SINCE_1970_S) < SINCE_1970_S]
    if times:
        return replace(line, bare_time=times[0][1])
    return replace(line, clock_s=_clock_of(figures))


def _clock_of(figures: Mapping[str, float]) -> float | None:
    """Seconds of a clock that runs on from record to record, such as ``_timestamp`` or TensorBoard's ``Wall time``."""
    for name, figure in figures.items():
        if CLOCK_KEYS.match(name):
            unit = UNIT_OF_KEY.match(name)
            scale = TO_MS[unit[2]] / 1e3 if unit else 1e-3 if figure >= MS_SINCE_1970 else 1.0
            return figure * scale
    return None


def _number_of(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    return number(str(value))


def _whole_of(value: object) -> int | None:
    figure = _number_of(value)
    return int(figure) if figure is not None and figure >= 0 and figure == int(figure) else None


def record_line(text: str) -> StepLine | None:
    """A JSON object or a Python dictionary on a line of its own, as HF Trainer and many scripts print them."""
    start = text.find("{")
    body = text[start : text.rfind("}") + 1]
    if text[:start].strip() or not body or len(body) > LONGEST_RECORD:
        return generic_line(text)
    if body.startswith('{"'):
        try:
            values = msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError):
            return None
        return of_mapping(values, "JSON lines") if isinstance(values, dict) else None
    if body.count("{") > 1 or body.count("(") > 1 or body.count("[") > 1:
        return None
    try:
        values = ast.literal_eval(body)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return of_mapping(values, "dictionary lines") if isinstance(values, dict) else None


GAP = r"\s{0,9}"  # bounded: two unbounded ones side by side take time beyond the length of a line
STEP_WORD = r"(?:global[_ ]step|train[_ ]?step|opt[_ ]?step|step|iteration|iter|it|batch)s?"
STEP = re.compile(rf"(?<![A-Za-z_/]){STEP_WORD}['\"]?{GAP}[:=#]?{GAP}\[?{GAP}(\d{{1,15}})(?![\d.]*[A-Za-z%])", re.I)
STEP_FIRST = re.compile(rf"{GAP}\[?{GAP}(\d{{1,15}})(?:{GAP}/{GAP}\d{{1,15}})?{GAP}\]\s")
EPOCH = re.compile(r"(?<![A-Za-z_])epoch['\"]?\s{0,9}[:=]?\s{0,9}\[?\s{0,9}(\d{1,9})(?![\d.]*[A-Za-z%])", re.I)
PER_STEP = re.compile(rf"({NUMBER}){GAP}({UNIT}){GAP}/{GAP}(?:iteration|iter|it|step|batch)\b", re.I)
STEPS_PER = re.compile(
    rf"({NUMBER}){GAP}(?:iterations?|iters?|it|steps?|batch(?:es)?){GAP}/{GAP}(?:seconds?|sec|s)\b", re.I
)
OWN_TIME = (
    r"(?:(?:train[_ ])?step[_ ]?time|iter(?:ation)?[_ ]?time|batch[_ ]time|step[_ ]duration|per[_ ]step[_ ]time"
    r"|time[_ /]per[_ /](?:step|iter(?:ation)?|batch)|sec(?:onds)?[_ /]per[_ /]step|dt)"
)
KEYED = re.compile(
    rf"(?<![A-Za-z_]){OWN_TIME}(?:[_ ]?[(\[]?({UNIT})[)\]]?)?['\"]?{GAP}[:=]?"
    rf"{GAP}({NUMBER}){GAP}({UNIT})?(?![A-Za-z/])",
    re.I,
)
RUNNING = re.compile(
    rf"(?<![A-Za-z_/])(?:elapsed(?:[_ ]time)?|time|took|total(?:[_ ]time)?)(?:[_ ]?[(\[]?({UNIT})[)\]]?)?['\"]?"
    rf"{GAP}[:=]?{GAP}({NUMBER}){GAP}({UNIT})?(?![A-Za-z/:])",
    re.I,
)
LAST = re.compile(rf"\s({NUMBER})\s?(ms|s){GAP}\Z")
SAMPLES_RATE = re.compile(
    rf"({NUMBER}){GAP}(?:samples?|imgs?|images?|utt|sequences?|seqs?|examples?){GAP}/{GAP}s(?:ec)?\b", re.I
)
TOKENS_RATE = re.compile(rf"(?:tok(?:en)?s?/s(?:ec)?|tgs|tps|wps)['\"]?{GAP}[:=]{GAP}({NUMBER})", re.I)


def generic_line(text: str) -> StepLine | None:
    """Any line with a number of a step and its time, its rate or its speed; lines of other work are left out."""
    found = STEP.search(text) or STEP_FIRST.match(text)
    if found is None or OTHER_WORK.search(text):
        return None
    epoch, rate, tokens = EPOCH.search(text), SAMPLES_RATE.search(text), TOKENS_RATE.search(text)
    line = StepLine(
        "step lines",
        int(found[1]),
        epoch=int(epoch[1]) if epoch else None,
        samples_per_s=number(rate[1]) if rate else None,
        tokens_per_s=number(tokens[1]) if tokens else None,
    )
    if own := KEYED.search(text):
        unit = own[3] or own[1]
        return replace(line, wall_ms=in_ms(own[2], unit)) if unit else replace(line, bare_time=number(own[2]))
    if per := PER_STEP.search(text):
        return replace(line, wall_ms=in_ms(per[1], per[2]))
    if per := STEPS_PER.search(text):
        speed = number(per[1])
        return replace(line, wall_ms=1e3 / speed if speed else None)
    if (running := RUNNING.search(text)) and (running[3] or running[1]):
        return replace(line, wall_ms=in_ms(running[2], running[3] or running[1]), running=True)
    if last := LAST.search(text):
        return replace(line, wall_ms=in_ms(last[1], last[2]), running=True)
    return line
