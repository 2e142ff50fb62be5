"""Lines of any program that name a step and its time: free text, and records with names (JSON, dictionaries, CSV).

A time needs a unit: next to the number or in the name of the field. One without is kept as ``bare_time``.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import islice

import msgspec

from tools.sources.job_log.grammars.part_names import of_part
from tools.sources.job_log.grammars.step_figures import UNNUMBERED, StepLine, steps_behind
from tools.sources.job_log.numbers import NUMBER, TO_MS, UNIT, in_ms, number

GENERIC_LINES, JSON_LINES, DICTIONARY_LINES = "step lines", "JSON lines", "dictionary lines"
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
# What is counted per second next to tokens; of a whole step, so that the time of a step is proportional to one over it.
COUNTED = (
    r"tok(?:en)?s?|samples?|im(?:a)?ge?s?|utt(?:erance)?s?|seq(?:uence)?s?|examples?|rows?|records?|items?|sentences?"
    r"|frames?|graphs?|docs?|clips?"
)
EACH = "gpu|npu|device|rank|card|chip|worker"
OF_EACH = re.compile(rf"(?:per|/)[ _]?(?:{EACH})|device/", re.I)  # a throughput of one device, not of the whole job
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
RATE_OF_FIELD = re.compile(rf"(?:.*/)?(?:train_)?({COUNTED})(?:_per_|/)s(?:ec(?:ond)?)?(?:(?:_per_|/)(?:{EACH}))?\Z")
BATCH_KEYS = re.compile(r"(?:.*/)?(?:global|total|effective)_batch(?:_size)?\Z|(?:.*/)?samples_per_(?:step|batch)\Z")
TOKEN_BATCH_KEYS = re.compile(
    r"(?:.*/)?(?:tokens_per_(?:global_)?(?:step|batch|update)|(?:global|total)_batch_tokens)\Z"
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
    known = (RATE_KEYS, CLOCK_KEYS, RATE_OF_FIELD)
    timed = any(_unit_of(name) is not None or any(each.match(name) for each in known) for name in low)
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
    if {"time", "data_time"} <= low.keys():
        return _of_mm(low)
    if any(OTHER_RECORD.match(name) for name in low):
        return None
    step = next(
        (at for name, value in low.items() if STEP_KEYS.match(name) and (at := _whole_of(value)) is not None), None
    )
    if step is None:
        return _of_its_time(low, grammar)
    epoch = _whole_of(low.get("epoch"))
    figures = {name: figure for name, value in low.items() if (figure := _number_of(value)) is not None and figure > 0}
    line = _with_rate(StepLine(grammar, step, of="unstated", epoch=epoch), figures)
    times = [(unit, figure) for name, figure in figures.items() if (unit := _unit_of(name)) is not None]
    if stated := next((each for each in times if each[0]), None):
        return replace(line, wall_ms=in_ms(str(stated[1]), stated[0]), derived=False)
    if (rate := next((figures[name] for name in figures if RATE_KEYS.match(name)), None)) is not None:
        return replace(line, wall_ms=1e3 / rate, derived=False)
    times += [("", figures[name]) for name in BARE_WALL if figures.get(name, SINCE_1970_S) < SINCE_1970_S]
    if times:
        return replace(line, bare_time=times[0][1])
    return line if line.derived else replace(line, clock_s=_clock_of(figures))


# Of a Trainer that logs the time of each step by itself, as it names those of the whole training (in seconds).
STEP_RUNTIME = "train_step_runtime"


def _of_its_time(low: Mapping[str, object], grammar: str) -> StepLine | None:
    """The step of a record without a number that states its time in seconds; None where it states none."""
    seconds = _number_of(low.get(STEP_RUNTIME))
    if seconds is None or not seconds > 0:
        return None
    return StepLine(grammar, UNNUMBERED, 1e3 * seconds, of="step", epoch=_whole_of(low.get("epoch")))


def _of_mm(low: Mapping[str, object]) -> StepLine | None:
    """A record of MMEngine (``vis_data``), of Detectron2 (``iteration``) or, with a mode, of MMCV: seconds, of the last
    iterations; those of an evaluation have another mode, or no learning rate."""
    mode, step = low.get("mode"), _whole_of(low.get("iter", low.get("iteration", low.get("step"))))
    if step is None or mode not in (None, "train") or not any("lr" in name for name in low):
        return None
    wall, wait = (_number_of(low[name]) for name in ("time", "data_time"))
    return StepLine(
        "MMCV" if mode else "Detectron2" if "iteration" in low else "MMEngine",
        step,
        None if wall is None or wall <= 0 else 1e3 * wall,
        of="mean",
        epoch=_whole_of(low.get("epoch")) if mode else None,  # MMEngine counts on over epochs
        data_wait_ms=None if wait is None or wait < 0 else 1e3 * wait,
        average="" if mode else "window",
    )


def _with_rate(line: StepLine, figures: Mapping[str, float]) -> StepLine:
    """The line with its throughput, and with the time of a step where the record states what a step holds as well."""
    for name, per_s in figures.items():
        if found := RATE_OF_FIELD.match(name):
            keys = TOKEN_BATCH_KEYS if _tokens(found[1]) else BATCH_KEYS
            batch = next((figures[each] for each in figures if keys.match(each) and not OF_EACH.search(name)), None)
            return _at_rate(line, found[1], per_s, batch)
    return line


def _at_rate(line: StepLine, counted: str, per_s: float, batch: float | None) -> StepLine:
    """The line with what it counts per second; its time where ``batch``, what a step holds of it, is known."""
    rated = replace(line, tokens_per_s=per_s) if _tokens(counted) else replace(line, samples_per_s=per_s)
    rated = replace(rated, unit="" if _tokens(counted) else f"{counted.lower()}/s")
    if not batch or not per_s > 0:
        return rated
    return replace(rated, wall_ms=1e3 * batch / per_s, derived=True)


def _tokens(counted: str) -> bool:
    return counted.lower().startswith("tok")


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


# ms-swift states the mean since the start; of a resumed training its first line is the place from which on it is known.
SWIFT_STEP = re.compile(r"global_step/max_steps['\"]: ['\"](\d{1,15})/")
SWIFT_SPEED = re.compile(rf"train_speed\((s/it|iter/s)\)['\"]: ['\"]?({NUMBER})")


DETECTRON = "json_stats: "


def _detectron(body: str) -> StepLine | None:
    """Detectron: ``json_stats: {"iter": 660, .. "mb_qsize": 0, .. "time": 1.884333}``: seconds, the mean since the
    start."""
    try:
        values = msgspec.json.decode(body.strip())
    except (msgspec.DecodeError, RecursionError):
        return None
    at, seconds = (
        (_number_of(values.get(name)) for name in ("iter", "time")) if isinstance(values, dict) else (None,) * 2
    )
    if at is None or at < 0 or seconds is None or not seconds > 0:
        return None
    return StepLine("Detectron", int(at), 1e3 * seconds, of="running", average="start", rounding_ms=5e-4)


def record_line(text: str) -> StepLine | None:
    """A JSON object or a Python dictionary on a line of its own, as HF Trainer and many scripts print them."""
    if text.startswith(DETECTRON) and (stats := _detectron(text.removeprefix(DETECTRON))) is not None:
        return stats
    start = text.find("{")
    body = text[start : text.rfind("}") + 1]
    if text[:start].strip() or not body or len(body) > LONGEST_RECORD:
        return generic_line(text)
    if "train_speed(" in body and (swift := SWIFT_STEP.search(body)) and (speed := SWIFT_SPEED.search(body)):
        ms = in_ms(speed[2], "s") if speed[1] == "s/it" else 1e3 / (number(speed[2]) or math.inf) or None
        return StepLine("ms-swift", int(swift[1]), ms, of="mean", average="epoch")
    if body.startswith('{"'):
        try:
            values = msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError):
            return None
        return of_mapping(values, JSON_LINES) if isinstance(values, dict) else None
    if body.count("{") > 1 or body.count("(") > 1 or body.count("[") > 1:
        return None
    try:
        values = ast.literal_eval(body)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return of_mapping(values, DICTIONARY_LINES) if isinstance(values, dict) else None


GAP = r"\s{0,9}"  # bounded: two unbounded ones side by side take time beyond the length of a line
STEP_WORD = r"(?:global[_ ]step|train[_ ]?step|opt[_ ]?step|step|iteration|iter|it|batch)s?"
STEP = re.compile(
    rf"(?<![A-Za-z_/]){STEP_WORD}['\"]?{GAP}[:=#]?{GAP}\[?{GAP}(\d{{1,15}})(?![\d.]*(?:[A-Za-z%]|,\d{{3}}(?!\d)))", re.I
)
# "Total Iterations 20000", "Total optimization steps = 500", "max steps: 500"; in the plural "warmup steps: 100".
OF_TOTAL = re.compile(
    r"(?<![A-Za-z])(?:(?:total|max(?:imum)?|num(?:ber)?(?:[ _]of)?)"
    r"(?:[ _-](?:train(?:ing)?|optimization|warm[-_ ]?up))?"
    r"|(?P<some>every|accumulation|optimi[sz]ation|warm[-_ ]?up|remaining|planned|target))[ _-]\Z",
    re.I,
)
PLURAL = re.compile(r"[A-Za-z_ ]+s(?![A-Za-z])")
TOTAL_CHARS = 40  # the longest of these and what stands between
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
    rf"{GAP}[:=]?{GAP}({NUMBER}){GAP}\(?({UNIT})?(?![A-Za-z/:])",
    re.I,
)
DURATION = re.compile(rf"(?<![\w.]){NUMBER}\s?(?:ms|us|s|sec|seconds)(?![\w/])")
SINCE_START = ("elapsed", "total")  # next to another time they are of more than a step, or of the same one
LAST = re.compile(rf"\s({NUMBER})\s?(ms|s){GAP}\Z")
PER_SECOND = rf"{GAP}(?:/|_?per_?|[ ]per[ ]){GAP}s(?:ec(?:ond)?s?)?(?![A-Za-z])"
RATE = rf"(?<![A-Za-z_])({COUNTED}){PER_SECOND}"
RATE_FIRST = re.compile(
    rf"({NUMBER}){GAP}([kM])?{GAP}{RATE}(?!['\"]?{GAP}[:=]{GAP}[\d.])", re.I
)  # not the figure before a name
RATE_NAMED = re.compile(rf"{RATE}['\"]?{GAP}[:=]{GAP}({NUMBER}){GAP}([kM](?![A-Za-z]))?", re.I)
TOKENS_RATE = re.compile(rf"(?<![A-Za-z_])(?:tgs|tps|wps)['\"]?{GAP}[:=]{GAP}({NUMBER})", re.I)
THOUSANDS = {"": 1.0, "k": 1e3, "m": 1e6}
BATCH = re.compile(
    rf"(?<![A-Za-z_])(?:global|total|effective)[ _-]?batch(?:[ _-]?size)?['\"]?{GAP}[:=]?{GAP}({NUMBER})(?![A-Za-z/])",
    re.I,
)


def generic_line(text: str) -> StepLine | None:
    """Any line with a number of a step and its time, its rate or its speed; lines of other work are left out."""
    found = next((each for each in STEP.finditer(text) if not _of_total(text, each)), None) or STEP_FIRST.match(text)
    if found is None or OTHER_WORK.search(text):
        return None
    epoch = EPOCH.search(text)
    line = StepLine(
        GENERIC_LINES,
        int(found[1]),
        of="unstated",
        epoch=int(epoch[1]) if epoch else None,
        of_epoch=steps_behind(found),
    )
    line = _rated(line, text)
    timed = _timed(line, text)
    return timed if timed.wall_ms == line.wall_ms else replace(timed, derived=False)


def _of_total(text: str, found: re.Match[str]) -> bool:
    """Whether it is how many steps there are, or after how many something is done."""
    before = OF_TOTAL.search(text, max(found.start() - TOTAL_CHARS, 0), found.start())
    return before is not None and (before["some"] is None or PLURAL.match(found[0]) is not None)


def _rated(line: StepLine, text: str) -> StepLine:
    """The line with the throughput that its text states."""
    if first := RATE_FIRST.search(text):
        value, scale, counted = first.groups()
    elif named := RATE_NAMED.search(text):
        counted, value, scale = named.groups()
    elif tokens := TOKENS_RATE.search(text):
        return replace(line, tokens_per_s=number(tokens[1]))
    else:
        return line
    per_s, batch = number(value), None if _tokens(counted) or OF_EACH.search(text) else BATCH.search(text)
    if per_s is None or per_s <= 0:
        return line
    return _at_rate(line, counted, per_s * THOUSANDS[(scale or "").lower()], number(batch[1]) if batch else None)


def _timed(line: StepLine, text: str) -> StepLine:
    """The line with the time that its text states of the step."""
    if own := _of_step(KEYED, text):
        unit = own[3] or own[1]
        return replace(line, wall_ms=in_ms(own[2], unit)) if unit else replace(line, bare_time=number(own[2]))
    if per := _of_step(PER_STEP, text):
        return replace(line, wall_ms=in_ms(per[1], per[2]))
    if per := STEPS_PER.search(text):
        speed = number(per[1])
        return replace(line, wall_ms=1e3 / speed if speed else None)
    return _unnamed(line, text)


def _of_step(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The first time of this form that is not of a part of the step."""
    return next((found for found in pattern.finditer(text) if not of_part(text, found)), None)


def _unnamed(line: StepLine, text: str) -> StepLine:
    """The line with its one time that is not named after a part; with none of several, or of parts alone."""
    keyed = [found for found in RUNNING.finditer(text) if found[3] or found[1]]
    own = [found for found in keyed if not of_part(text, found)]
    own = [found for found in own if not found[0].lower().startswith(SINCE_START)] or own
    named = {found.start(2) for found in keyed}
    others = (found for found in DURATION.finditer(text) if found.start() not in named)
    bare = list(islice((found.start() for found in others if not of_part(text, found)), 2))
    if len(own) == 1 and not bare:
        return replace(line, wall_ms=in_ms(own[0][2], own[0][3] or own[0][1]), running=True)
    last = LAST.search(text)
    if last is not None and not own and bare == [last.start(1)]:
        return replace(line, wall_ms=in_ms(last[1], last[2]), running=True)
    return replace(line, ambiguous=bool(keyed or last))


FREE = re.compile(rf"\W{{0,4}}it['\"]?{GAP}[:=#]?{GAP}\[?{GAP}\d{{1,15}}(?![\d.]*[A-Za-z%])", re.I)
FREE_MARKS = ("took ", "time=", "dt ", "dt=")
FREE_LINES = "lines of iterations"


def free_line(text: str) -> StepLine | None:
    """Any program's line that begins with ``it`` and a number, and states one time: ``[it 5/80] nll=2.4 took 45 ms``.

    Several such lines with rising numbers make a job's output, one is none.
    """
    if not FREE.match(text) or (found := generic_line(text)) is None:
        return None
    return replace(found, grammar=FREE_LINES)
