"""Lines that report a training step: those of known frameworks first, then any that names a step and a time.

A grammar answers one line of text with its figures, or None. Times need a unit: stated next to the number, in the name
of the field, or by the framework that prints it. A number without one is kept as ``bare_time`` and judged with others.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import msgspec

from tools.sources.job_log.numbers import NUMBER, UNIT, in_ms, number, whole

LONGEST = 8192  # characters of a step line; longer ones are other text
# Words of lines that speak of other work at a step: evaluating, saving, loading, compiling.
OTHER_WORK = re.compile(
    r"\b(?:valid(?:ation)?|eval(?:uation|uating)?|test(?:ing)?|inference|sanity|checkpoint(?:s|ing)?|sav(?:e|ed|ing)"
    r"|load(?:ed|ing)?|restor(?:ed|ing)|resum(?:ed|ing)|download\w*|upload\w*|export\w*|compil(?:ed|ing|ation)"
    r"|finished|completed)\b",
    re.I,
)
MEGATRON_STEP = re.compile(r"iteration\s+(\d+)\s*/\s*(\d+)")
MEGATRON_FIELD = re.compile(
    r"(elapsed time per iteration \((?:ms|s)\)|global batch size|loss scale|number of skipped iterations"
    r"|throughput per GPU \(TFLOP/s/GPU\)|tokens per gpu per second \(tgs\)): *([^| ]+)"
)


@dataclass(frozen=True, slots=True)
class StepLine:
    """The figures of one line; None where it does not hold them. ``mean``: the time is one over several steps."""

    grammar: str
    step: int
    wall_ms: float | None = None
    mean: bool = False
    running: bool = False  # a clock that may run from the start of the job: judged over all lines
    bare_time: float | None = None
    epoch: int | None = None
    samples: float | None = None
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    tflops: float | None = None
    loss_scale: float | None = None
    skipped: float | None = None


def step_line(text: str) -> StepLine | None:
    """The figures of a line that reports a training step; None where it is another line."""
    if len(text) > LONGEST:
        return None
    for marks, grammar in GRAMMARS:
        if any(mark in text for mark in marks):
            found = grammar(text)
            return None if found is not None and not found.step < 1 << 53 else found
    return None


def _megatron(text: str) -> StepLine | None:
    """Megatron-LM and MindSpeed: ``iteration 10/ 1000 | elapsed time per iteration (ms): 19932.4 | ...``."""
    found = MEGATRON_STEP.search(text)
    if found is None:
        return None
    fields = dict(MEGATRON_FIELD.findall(text, found.end()))  # which are there differs by version and flags
    ms, seconds = (fields.get(f"elapsed time per iteration ({unit})", "") for unit in ("ms", "s"))
    return StepLine(
        "Megatron-LM",
        int(found[1]),
        in_ms(ms, "ms") if ms else in_ms(seconds, "s"),
        mean=True,
        samples=_of(fields, "global batch size"),
        tokens_per_s=_of(fields, "tokens per gpu per second (tgs)"),
        tflops=_of(fields, "throughput per GPU (TFLOP/s/GPU)"),
        loss_scale=_of(fields, "loss scale"),
        skipped=_of(fields, "number of skipped iterations"),
    )


def _of(fields: Mapping[str, str], name: str) -> float | None:
    return number(fields[name]) if name in fields else None


NEMO_TIME = re.compile(rf"train_step_timing in s[=:] ?({NUMBER})")
NEMO_STEP = re.compile(rf"(?<![a-z_])global_step[=:] ?({NUMBER})")


def _nemo(text: str) -> StepLine | None:
    """NeMo: ``... global_step: 1 | ... train_step_timing in s: 2.505``, in its bar with equals signs."""
    step, time = NEMO_STEP.search(text), NEMO_TIME.search(text)
    if step is None or time is None or (at := whole(step[1])) is None:
        return None
    return StepLine("NeMo", at, in_ms(time[1], "s"))


MINDFORMERS = re.compile(rf"step:\[\s*(\d+)/\s*\d+\].*?per_step_time:\s*({NUMBER})\s*ms")
MINDFORMERS_EPOCH = re.compile(r"Epoch:\[\s*(\d+)/")
MINDFORMERS_SCALE = re.compile(rf"loss_scale:\s*({NUMBER})")
MINDFORMERS_OVERFLOW = re.compile(r"overflow cond:\s*(True|False)")


def _mindformers(text: str) -> StepLine | None:
    """MindFormers: ``{ Epoch:[1/2], step:[1/19], loss: 10.6, per_step_time: 1752ms, overflow cond: False, ...``."""
    found = MINDFORMERS.search(text)
    if found is None:
        return None
    epoch, scale, over = (each.search(text) for each in (MINDFORMERS_EPOCH, MINDFORMERS_SCALE, MINDFORMERS_OVERFLOW))
    return StepLine(
        "MindFormers",
        int(found[1]),
        in_ms(found[2], "ms"),
        mean=True,
        epoch=int(epoch[1]) if epoch else None,
        loss_scale=number(scale[1]) if scale else None,
        skipped=float(over[1] == "True") if over else None,
    )


NANOGPT = re.compile(rf"\biter (\d+): loss .*?, time ({NUMBER})ms")
NANOCHAT = re.compile(rf"\bstep (\d+)/\d+ .*?\bdt: ({NUMBER})ms(?:.*?\btok/sec: ({NUMBER}))?")
TITAN = re.compile(r"\bstep:\s*(\d+)\s+loss:")
TITAN_RATE = re.compile(rf"\b(?:wps|tps): ({NUMBER})")
TITAN_TFLOPS = re.compile(rf"\btflops: ({NUMBER})")
DEEPSPEED_STEP = re.compile(r"\[Rank \d+\] step=(\d+), skipped=(\d+)")
DEEPSPEED_RATE = re.compile(rf"\bglobal_step=(\d+), .*?CurrSamplesPerSec=({NUMBER})")


def _nanogpt(text: str) -> StepLine | None:
    if found := NANOGPT.search(text):
        return StepLine("nanoGPT", int(found[1]), in_ms(found[2], "ms"))
    return _generic(text)


def _nanochat(text: str) -> StepLine | None:
    if found := NANOCHAT.search(text):
        tokens = number(found[3]) if found[3] else None
        return StepLine("nanochat", int(found[1]), in_ms(found[2], "ms"), tokens_per_s=tokens)
    return _generic(text)


def _titan(text: str) -> StepLine | None:
    """torchtitan: ``step: 10  loss: 12.1951  memory: 81.67GiB(85.93%)  tps: 111,770  mfu: 22.68%``, no time."""
    found = TITAN.search(text)
    if found is None:
        return _generic(text)
    rate, tflops = TITAN_RATE.search(text), TITAN_TFLOPS.search(text)
    return StepLine(
        "torchtitan",
        int(found[1]),
        tokens_per_s=number(rate[1]) if rate else None,
        tflops=number(tflops[1]) if tflops else None,
    )


def _deepspeed(text: str) -> StepLine | None:
    """DeepSpeed: ``[Rank 0] step=25, skipped=5, ...`` and ``... global_step=10, ... CurrSamplesPerSec=6.3``."""
    if found := DEEPSPEED_RATE.search(text):
        return StepLine("DeepSpeed rates", int(found[1]), samples_per_s=number(found[2]))
    if found := DEEPSPEED_STEP.search(text):
        return StepLine("DeepSpeed", int(found[1]), skipped=float(found[2]))
    return None


DETECTRON = re.compile(rf"\btime: ({NUMBER})\s*s?,?\s+(?:last_time: {NUMBER}\s+)?data_time: {NUMBER}")
DETECTRON_STEP = re.compile(r"\biter: (\d+)|\bEpoch(?:\(train\))?\s*\[(\d+)\]\[\s*(\d+)/")
IMAGENET = re.compile(rf"\bEpoch: \[(\d+)\]\[\s*(\d+)/\d+\]\s+Time\s+({NUMBER}) \(\s*{NUMBER}\)")


def _detectron(text: str) -> StepLine | None:
    """Detectron2 ``iter: 19  total_loss: 1.2  time: 0.2134  data_time: 0.01`` and mmcv ``Epoch [1][50/100] time: ...``,
    seconds over the last iterations."""
    time, step = DETECTRON.search(text), DETECTRON_STEP.search(text)
    if time is None or step is None:
        return _generic(text)
    epoch = int(step[2]) if step[2] else None
    return StepLine("Detectron2", int(step[1] or step[3]), in_ms(time[1], "s"), mean=True, epoch=epoch)


def _imagenet(text: str) -> StepLine | None:
    """PyTorch's ImageNet example: ``Epoch: [0][  10/5005]  Time  0.512 (  1.20)  Data  0.01 ( 0.30)``, seconds."""
    found = IMAGENET.search(text)
    if found is None:
        return _generic(text)
    return StepLine("ImageNet example", int(found[2]), in_ms(found[3], "s"), epoch=int(found[1]))


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
UNIT_OF_KEY = re.compile(rf"^(.*?)[_ /(\[]+(?:in )?({UNIT})[)\]]?$", re.I)
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


def _record(text: str) -> StepLine | None:
    """A JSON object or a Python dictionary on a line of its own, as HF Trainer and many scripts print them."""
    start = text.find("{")
    body = text[start : text.rfind("}") + 1]
    if text[:start].strip() or not body or len(body) > LONGEST:
        return _generic(text) if "per_step_time" not in text else _mindformers(text)
    if body.startswith('{"'):
        try:
            values = msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError):
            return None
        return of_mapping(values, "JSON lines") if isinstance(values, dict) else None
    if body.count("{") > 1 or body.count("(") > 1 or body.count("[") > 1:
        return _mindformers(text)
    try:
        values = ast.literal_eval(body)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return _mindformers(text)
    return of_mapping(values, "dictionary lines") if isinstance(values, dict) else None


STEP_WORD = r"(?:global[_ ]step|train[_ ]?step|opt[_ ]?step|step|iteration|iter|it|batch)s?"
STEP = re.compile(rf"(?<![A-Za-z_/]){STEP_WORD}['\"]?\s*[:=#]?\s*\[?\s*(\d{{1,15}})(?![\d.]*[A-Za-z%])", re.I)
STEP_FIRST = re.compile(r"\s*\[?\s*(\d{1,15})(?:\s*/\s*\d{1,15})?\s*\]\s")
EPOCH = re.compile(r"(?<![A-Za-z_])epoch['\"]?\s*[:=]?\s*\[?\s*(\d{1,9})(?![\d.]*[A-Za-z%])", re.I)
PER_STEP = re.compile(rf"({NUMBER})\s*({UNIT})\s*/\s*(?:iteration|iter|it|step|batch)\b", re.I)
STEPS_PER = re.compile(rf"({NUMBER})\s*(?:iterations?|iters?|it|steps?|batch(?:es)?)\s*/\s*(?:seconds?|sec|s)\b", re.I)
OWN_TIME = (
    r"(?:(?:train[_ ])?step[_ ]?time|iter(?:ation)?[_ ]?time|batch[_ ]time|step[_ ]duration"
    r"|time[_ /]per[_ /](?:step|iter(?:ation)?|batch)|sec(?:onds)?[_ /]per[_ /]step|dt)"
)
KEYED = re.compile(
    rf"(?<![A-Za-z_]){OWN_TIME}(?:[_ ]?[(\[]?({UNIT})[)\]]?)?['\"]?\s*[:=]?\s*({NUMBER})\s*({UNIT})?(?![A-Za-z/])", re.I
)
RUNNING = re.compile(
    rf"(?<![A-Za-z_/])(?:elapsed(?:[_ ]time)?|time|took|total(?:[_ ]time)?)(?:[_ ]?[(\[]?({UNIT})[)\]]?)?['\"]?\s*[:=]?"
    rf"\s*({NUMBER})\s*({UNIT})?(?![A-Za-z/:])",
    re.I,
)
LAST = re.compile(rf"\s({NUMBER})\s?(ms|s)\s*\Z")
SAMPLES_RATE = re.compile(
    rf"({NUMBER})\s*(?:samples?|imgs?|images?|utt|sequences?|seqs?|examples?)\s*/\s*s(?:ec)?\b", re.I
)
TOKENS_RATE = re.compile(rf"(?:tok(?:en)?s?/s(?:ec)?|tgs|tps|wps)['\"]?\s*[:=]\s*({NUMBER})", re.I)


def _generic(text: str) -> StepLine | None:
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


GRAMMARS: tuple[tuple[tuple[str, ...], Callable[[str], StepLine | None]], ...] = (
    (("elapsed time per iteration",), _megatron),
    (("train_step_timing in s",), _nemo),
    (("per_step_time:",), _mindformers),
    (("SamplesPerSec", "skipped="), _deepspeed),
    (("{",), _record),
    (("data_time:",), _detectron),
    (("Epoch: [",), _imagenet),
    (("dt: ",), _nanochat),
    (("iter ",), _nanogpt),
    (("step:",), _titan),
    (("iter", "Iter", "step", "Step", "STEP", "it/s", "s/it", "/it", "oss"), _generic),
)
