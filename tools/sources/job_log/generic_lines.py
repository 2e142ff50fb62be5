"""Lines of any program that name a step and its time: free text, and records with names (JSON, dictionaries, CSV).

A time needs a unit: next to the number or in the name of the field. One without is kept as ``bare_time``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import replace

import msgspec

from tools.sources.job_log.numbers import NUMBER, UNIT, in_ms, number
from tools.sources.job_log.step_figures import StepLine

LONGEST_RECORD = 2048  # characters
# Words of lines that speak of other work at a step: evaluating, saving, loading, compiling.
OTHER_WORK = re.compile(
    r"\b(?:valid(?:ation)?|eval(?:uation|uating)?|test(?:ing)?|inference|sanity|checkpoint(?:s|ing)?|sav(?:e|ed|ing)"
    r"|load(?:ed|ing)?|restor(?:ed|ing)|resum(?:ed|ing)|download\w*|upload\w*|export\w*|compil(?:ed|ing|ation)"
    r"|finished|completed)\b",
    re.I,
)
STEP_KEYS = ("global_step", "step", "steps", "iteration", "iter", "it", "batch_idx", "trainer/global_step")
TIME_KEYS = (
    *(
        "step_time",
        "iter_time",
        "iteration_time",
        "time_per_step",
        "time_per_iteration",
        "time_per_iter",
        "per_step_time",
    ),
    *(
        "train_step_time",
        "step_duration",
        "train_step_timing in s",
        "batch_time",
        "dt",
        "step_wall",
        "wall",
        "wall_time",
    ),
)
UNIT_OF_KEY = re.compile(rf"(.{{1,40}}?)[_ /(\[]{{1,2}}(?:in )?({UNIT})[)\]]?\Z", re.I)
RATE_KEYS = ("it/s", "iter/s", "iterations_per_second", "steps_per_second", "steps/s", "its_per_s", "it_per_s")
TRAIN_RUNTIME = "train_runtime"


def of_mapping(values: Mapping[str, object], grammar: str) -> StepLine | None:
    """The figures of one record with names: a JSON line, a Python dictionary, a row of CSV."""
    low = {str(name).strip().lower(): value for name, value in values.items()}
    if TRAIN_RUNTIME in low or any(name.startswith(("eval_", "test_", "val_")) for name in low):
        return None
    step = next((at for name in STEP_KEYS if (at := _whole_of(low.get(name))) is not None), None)
    if step is None:
        return None
    line = StepLine(grammar, step, epoch=_whole_of(low.get("epoch")))
    for name, value in low.items():
        figure = _number_of(value)
        if figure is None or figure <= 0:
            continue
        unit = UNIT_OF_KEY.match(name)
        if unit and unit[1] in TIME_KEYS:
            return replace(line, wall_ms=in_ms(str(figure), unit[2]))
        if name in RATE_KEYS:
            return replace(line, wall_ms=1e3 / figure)
    bare = next((figure for name in TIME_KEYS if (figure := _number_of(low.get(name))) is not None), None)
    return replace(line, bare_time=bare if bare is not None and bare > 0 else None)


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
