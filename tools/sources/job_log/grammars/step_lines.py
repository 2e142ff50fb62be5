"""Every grammar of step lines, with the marks by which a line is given to it: known frameworks first."""

from __future__ import annotations

from collections.abc import Callable

from tools.sources.job_log.grammars import (
    framework_lines,
    generic_lines,
    keras_lines,
    library_lines,
    meter_lines,
    speed_lines,
)
from tools.sources.job_log.grammars.stated_mfu import with_mfu
from tools.sources.job_log.grammars.step_figures import StepLine

LONGEST = 2048  # characters of a step line; longer ones are other text, but for a grammar that names all its metrics
VERL = "timing_s/step:"
Grammar = Callable[[str], StepLine | None]

GRAMMARS: tuple[tuple[tuple[str, ...], Grammar], ...] = (
    (("elapsed time per iteration", "elapsed_time_per_iteration"), framework_lines.megatron),
    (("train_step_timing in s",), framework_lines.nemo),
    (("per_step_time:",), framework_lines.mindformers),
    (("E2E latency=",), speed_lines.deepspeed_chat),
    (("SamplesPerSec", "skipped="), framework_lines.deepspeed),
    (("num_updates=", '"num_updates": '), speed_lines.fairseq),
    (("] progress: ",), library_lines.knover),
    ((", wpb=",), speed_lines.fairseq_words),
    (("images/sec: ",), speed_lines.cnn_benchmarks),
    ((" MFU | ",), speed_lines.llm_c),
    (("train_time:",), speed_lines.speed_run),
    (("[Train ",), library_lines.counted),
    (("{",), generic_lines.record_line),
    (("batch_cost:", "batch_cost="), library_lines.paddle),
    (("completed step:",), library_lines.maxtext),
    (("per step time:",), library_lines.mindspore),
    (("], batch: [",), library_lines.mindcv),
    (("data_time:",), library_lines.parts),
    (("iter time (s):",), library_lines.deepspeed_pipeline),
    (("time(s):", "num_updates:"), library_lines.mmf),
    ((" sec)", "TimeHistory:"), library_lines.tensorflow),
    (("raining iter ",), library_lines.niftynet),
    (("Speed: ",), library_lines.mxnet),
    (("s/step",), keras_lines.keras),
    (("Data (t): ",), meter_lines.open_clip),
    ((")s/itr",), meter_lines.pose_trainer),
    (("Epoch: [", "Epoch [", "Epoch:[", "Train: ", "TRAIN: ", "TRAIN ["), meter_lines.imagenet),
    (("  data: ",), meter_lines.metric_logger),
    (("dt: ",), framework_lines.nanochat),
    (("iter ",), framework_lines.nanogpt),
    (("step:",), framework_lines.titan),
    (("iter", "Iter", "step", "Step", "STEP", "it/s", "s/it", "/it", "oss"), generic_lines.generic_line),
    (generic_lines.FREE_MARKS, generic_lines.free_line),
)
BY_MARK = tuple((mark, grammar) for marks, grammar in GRAMMARS for mark in marks)


def step_line(text: str) -> StepLine | None:
    """The figures of a line that reports a training step; None where it is another line."""
    if VERL in text:
        return framework_lines.verl(text)
    if len(text) > LONGEST:
        return None
    for mark, grammar in BY_MARK:
        if mark in text:
            found = grammar(text)
            return None if found is None or not found.step < 1 << 53 else with_mfu(found, text)
    return None
