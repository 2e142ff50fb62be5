"""Lines that known frameworks print for a training step; what their line looks like stands at each grammar.

A grammar answers one line of text with its figures. Where the line is not the framework's, any program's grammar is
tried, since marks such as ``iter`` are common.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tools.sources.job_log.grammars.generic_lines import generic_line
from tools.sources.job_log.grammars.step_figures import StepLine, steps_behind
from tools.sources.job_log.numbers import NUMBER, in_ms, number, whole

MEGATRON_STEP = re.compile(r"iteration(?:=|\s)\s*(\d+)\s*/\s*(\d+)")
MEGATRON_FIELD = re.compile(
    r"(elapsed[ _]time[ _]per[ _]iteration[ _]\(?(?:ms|s)\)?|global[ _]batch[ _]size|loss[ _]scale"
    r"|number[ _]of[ _]skipped[ _]iterations|throughput per GPU \(TFLOP/s/GPU\)"
    r"|tokens[ _]per[ _]gpu[ _]per[ _]second[ _]\(?tgs\)?)[:=] *([^| ]+)"
)
WORDS = re.compile(r"[A-Za-z]+")


def megatron(text: str) -> StepLine | None:
    """Megatron-LM and MindSpeed: ``iteration 10/ 1000 | elapsed time per iteration (ms): 19932.4 | ...``; some forks
    write ``iteration= 10/ 1000 | elapsed_time_per_iteration_ms=19932.4``."""
    found = MEGATRON_STEP.search(text)
    if found is None:
        return None
    found_fields = MEGATRON_FIELD.findall(text, found.end())  # which are there differs by version and flags
    fields = {" ".join(WORDS.findall(name)): value for name, value in found_fields}
    ms, seconds = (fields.get(f"elapsed time per iteration {unit}", "") for unit in ("ms", "s"))
    return StepLine(
        "Megatron-LM",
        int(found[1]),
        in_ms(ms, "ms") if ms else in_ms(seconds, "s"),
        of="mean",
        samples=_of(fields, "global batch size"),
        tokens_per_s=_of(fields, "tokens per gpu per second tgs"),
        tflops=_of(fields, "throughput per GPU TFLOP s GPU"),
        loss_scale=_of(fields, "loss scale"),
        skipped=_of(fields, "number of skipped iterations"),
    )


def _of(fields: Mapping[str, str], name: str) -> float | None:
    return number(fields[name]) if name in fields else None


NEMO_TIME = re.compile(rf"train_step_timing in s[=:] ?({NUMBER})")
NEMO_STEP = re.compile(rf"(?<![a-z_])global_step[=:] ?({NUMBER})")


def nemo(text: str) -> StepLine | None:
    """NeMo: ``... global_step: 1 | ... train_step_timing in s: 2.505``, in its bar with equals signs."""
    step, time = NEMO_STEP.search(text), NEMO_TIME.search(text)
    if step is None or time is None or (at := whole(step[1])) is None:
        return None
    return StepLine("NeMo", at, in_ms(time[1], "s"))


VERL_STEP = re.compile(r"\bstep:(\d{1,15}) - ")
VERL_TIME = re.compile(rf" timing_s/step:({NUMBER})")
VERL_RATE = re.compile(rf" perf/throughput:({NUMBER})")


def verl(text: str) -> StepLine | None:
    """verl: ``step:1 - actor/entropy:0.4 - timing_s/gen:20.1 - ... - timing_s/step:36.7 - ...``, all in one line."""
    step, time, rate = (each.search(text) for each in (VERL_STEP, VERL_TIME, VERL_RATE))
    if step is None or time is None:
        return None
    return StepLine("verl", int(step[1]), in_ms(time[1], "s"), tokens_per_s=number(rate[1]) if rate else None)


MINDFORMERS = re.compile(rf"step:\[\s*(\d+)/\s*\d+\].*?per_step_time:\s*({NUMBER})\s*ms")
MINDFORMERS_EPOCH = re.compile(r"Epoch:\[\s*(\d+)/")
MINDFORMERS_SCALE = re.compile(rf"loss_scale:\s*({NUMBER})")
MINDFORMERS_OVERFLOW = re.compile(r"overflow cond:\s*(True|False)")


def mindformers(text: str) -> StepLine | None:
    """MindFormers: ``{ Epoch:[1/2], step:[1/19], loss: 10.6, per_step_time: 1752ms, overflow cond: False, ...``."""
    found = MINDFORMERS.search(text)
    if found is None:
        return generic_line(text)
    epoch, scale, over = (each.search(text) for each in (MINDFORMERS_EPOCH, MINDFORMERS_SCALE, MINDFORMERS_OVERFLOW))
    return StepLine(
        "MindFormers",
        int(found[1]),
        in_ms(found[2], "ms"),
        of="window",
        epoch=int(epoch[1]) if epoch else None,
        of_epoch=steps_behind(found),
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


# Old ones: the epoch and the micro-batches that were timed in it, and a mean since the first ones.
DEEPSPEED_MEAN = re.compile(rf"(?<![\w/.])(\d{{1,9}})/(\d{{1,15}}), SamplesPerSec=({NUMBER})")


def nanogpt(text: str) -> StepLine | None:
    """nanoGPT: ``iter 340: loss 5.4983, time 33785.52ms, mfu 0.96%``, of that iteration alone."""
    if found := NANOGPT.search(text):
        return StepLine("nanoGPT", int(found[1]), in_ms(found[2], "ms"))
    return generic_line(text)


def nanochat(text: str) -> StepLine | None:
    """nanochat: ``step 00004/21400 (0.02%) | loss: .. | dt: 989.44ms | tok/sec: 529,882 | mfu: 74.13``."""
    if found := NANOCHAT.search(text):
        tokens = number(found[3]) if found[3] else None
        return StepLine("nanochat", int(found[1]), in_ms(found[2], "ms"), tokens_per_s=tokens)
    return generic_line(text)


def titan(text: str) -> StepLine | None:
    """torchtitan: ``step: 10  loss: 12.1951  memory: 81.67GiB(85.93%)  tps: 111,770  mfu: 22.68%``, no time."""
    found, rate, tflops = (each.search(text) for each in (TITAN, TITAN_RATE, TITAN_TFLOPS))
    if found is None or rate is None:
        return generic_line(text)
    return StepLine(
        "torchtitan",
        int(found[1]),
        tokens_per_s=number(rate[1]),
        tflops=number(tflops[1]) if tflops else None,
    )


def deepspeed(text: str) -> StepLine | None:
    """DeepSpeed: ``[Rank 0] step=25, skipped=5`` (since step 0), and ``global_step=10, ... CurrSamplesPerSec=6.3``; the
    first versions ``0/25, SamplesPerSec=6.3``: epoch and micro-batch, and the mean since the start
    (utils/timer.py: ThroughputTimer)."""
    if found := DEEPSPEED_MEAN.search(text):
        return StepLine(
            "DeepSpeed rates", int(found[2]), of="running", epoch=int(found[1]), samples_per_s=number(found[3])
        )
    if found := DEEPSPEED_RATE.search(text):
        return StepLine("DeepSpeed", int(found[1]), samples_per_s=number(found[2]))
    if found := DEEPSPEED_STEP.search(text):
        return StepLine("DeepSpeed", int(found[1]), skipped_so_far=float(found[2]))
    return None
