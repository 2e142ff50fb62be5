"""Step lines of translation trainers, benchmarks and speed runs: fairseq, tf_cnn_benchmarks, llm.c, modded-nanogpt."""

from __future__ import annotations

import re

from tools.sources.job_log.grammars.generic_lines import generic_line
from tools.sources.job_log.grammars.step_figures import UNNUMBERED, StepLine
from tools.sources.job_log.numbers import NUMBER, in_ms, number, whole


def _figure(name: str, before: str = r"(?<![A-Za-z_])") -> re.Pattern[str]:
    """A figure as fairseq writes it: ``ups=0.5`` in text, ``"ups": "0.5"`` in JSON."""
    return re.compile(rf'{before}"?{name}(?:=|": "?)({NUMBER})')


UPDATES, UPS, BATCH, WALL = (_figure(name) for name in ("num_updates", "ups", "bsz", "wall"))
WORDS_PER_S, WORDS_PER_BATCH = (_figure(name) for name in ("wps", "wpb"))
EPOCH = re.compile(r"\bepoch (\d{1,9}):|\"epoch\": (\d{1,9})\b")
WHOLE_SECOND = 1.0
INTERVALS = "train_inner"  # what fairseq 0.10 and later write before figures since the line before
LEAST_UPS = 0.25  # two digits of fewer updates per second are not exact to 2 %
EXACT_UPS = 1.0  # of so many they are exact to 0.5 %
LEAST_WPS = 100  # whole numbers: fewer words per second are not exact to 0.5 %


def fairseq(text: str) -> StepLine | None:
    """fairseq: ``| epoch 001:  100 / 12603 loss=14.4, .. ups=0, .. num_updates=98, .. wall=868, train_wall=101``:
    ``wall`` is the time since the start in seconds; later versions write ``train_inner`` lines, whose ``ups`` and
    ``wps`` (updates and words per second) and ``wpb`` (words of an update) are of those since the line before. As JSON:
    ``[train_inner][INFO] - {"epoch": 1, .. "ups": "0.5", .. "num_updates": "200", .. "wall": "425"}``."""
    step, wall = UPDATES.search(text), WALL.search(text)
    at = None if step is None else whole(step[1])
    if step is None or at is None or "valid" in text[: step.start()]:
        return generic_line(text)
    epoch, batch = EPOCH.search(text), BATCH.search(text)
    wall_ms, derived = _of_update(text) if INTERVALS in text else (None, False)
    return StepLine(
        "fairseq",
        at,
        wall_ms,
        of="mean",
        epoch=int(epoch[1] or epoch[2]) if epoch else None,
        samples=number(batch[1]) if batch else None,
        clock_s=number(wall[1]) if wall else None,
        clock_step_s=WHOLE_SECOND,
        derived=derived,
    )


def _of_update(text: str) -> tuple[float | None, bool]:
    """The ms of an update by the updates per second, or where these have too few digits by the words of one over those
    per second (True); None where both are too coarse."""
    per_s, words_per_s, words = (
        number(found[1]) if (found := each.search(text)) else None for each in (UPS, WORDS_PER_S, WORDS_PER_BATCH)
    )
    if words and words > 0 and words_per_s and words_per_s >= LEAST_WPS and (per_s or 0.0) < EXACT_UPS:
        return 1e3 * words / words_per_s, True
    return (1e3 / per_s if per_s and per_s >= LEAST_UPS else None), False


WORDS_LINE = re.compile(
    rf"\bepoch (\d{{1,9}}):\s{{1,9}}(\d{{1,15}}) / (\d{{1,15}}) loss=.{{0,200}}?"
    rf"\bwps=({NUMBER}), wpb=({NUMBER}), bsz=({NUMBER})"
)


def fairseq_words(text: str) -> StepLine | None:
    """fairseq of 2017: ``| epoch 001:   1000 / 37483 loss=9.68 (10.49), wps=4632, wpb=3514, bsz=126, ..``: words per
    second since the epoch's second mini-batch and words per mini-batch since its first (train.py: TimeMeter,
    AverageMeter): a step takes ``wpb / wps`` on average since the epoch began."""
    found = WORDS_LINE.search(text)
    if found is None:
        return generic_line(text)
    per_s, words = number(found[4]), number(found[5])
    exact = per_s is not None and per_s >= LEAST_WPS and words is not None and words > 0
    wall_ms = 1e3 * words / per_s if exact and words and per_s else None
    return StepLine(
        "fairseq words",
        int(found[2]),
        wall_ms,
        of="mean",
        epoch=int(found[1]),
        of_epoch=int(found[3]),
        samples=number(found[6]),
        tokens_per_s=per_s,
        average="epoch",
        rounding_ms=wall_ms * (0.5 / per_s + 0.5 / words) if wall_ms and per_s and words else 0.0,
        derived=True,
    )


IMAGES = re.compile(rf"\A\s*(\d{{1,15}})\s+images/sec: ({NUMBER}) \+/- {NUMBER} \(jitter = {NUMBER}\)")


def cnn_benchmarks(text: str) -> StepLine | None:
    """tf_cnn_benchmarks: ``70  images/sec: 152.2 +/- 0.3 (jitter = 2.3)  2.101``: images per second of a process, the
    mean since its warm-up."""
    found = IMAGES.match(text)
    if found is None:
        return generic_line(text)
    return StepLine("tf_cnn_benchmarks", int(found[1]), of="running", samples_per_s=number(found[2]), unit="images/s")


LLM_C = re.compile(
    rf"\bstep\s+(\d{{1,15}})/\d{{1,15}} \|.{{0,300}}?\| ({NUMBER}) ms \|.{{0,60}}? MFU \| ({NUMBER}) tok/s"
)


def llm_c(text: str) -> StepLine | None:
    """llm.c: ``step   61/74 | loss 3.2 (+nanz)| .. | lr 3.00e-04 | 44.57 ms | 40.1% bf16 MFU | 91886 tok/s``:
    the time of that step, and tokens per second smoothed over the last ones."""
    found = LLM_C.search(text)
    if found is None:
        return generic_line(text)
    return StepLine("llm.c", int(found[1]), in_ms(found[2], "ms"), tokens_per_s=number(found[3]))


SPEED_RUN = re.compile(
    rf"\bstep:(\d{{1,15}})/\d{{1,15}} .{{0,200}}?\btrain_time:({NUMBER})(ms|s) step_avg:({NUMBER})ms"
)


def speed_run(text: str) -> StepLine | None:
    """modded-nanogpt: ``step:12/1480 train_time:498ms step_avg:41.50ms``: the time since the start without validation;
    lines of validation repeat a step."""
    found = SPEED_RUN.search(text)
    passed_ms = in_ms(found[2], found[3]) if found else None
    if found is None or passed_ms is None or "val_loss" in found[0]:
        return None if found else generic_line(text)
    resolution_s = 1e-3 if found[3] == "ms" else WHOLE_SECOND
    return StepLine("modded-nanogpt", int(found[1]), clock_s=passed_ms / 1e3, clock_step_s=resolution_s)


CHAT = re.compile(
    rf"\bE2E latency=({NUMBER})s \|Gather latency={NUMBER}s .{{0,200}}?\bTraining time={NUMBER}s"
    rf"(?:.{{0,80}}?\bCurSamplesPerSec=({NUMBER}))?"
)


def deepspeed_chat(text: str) -> StepLine | None:
    """DeepSpeed-Chat: ``|E2E latency=3.73s |Gather latency=0.00s (0.00%) |Generate time=2.78s (74.61%) |Training
    time=0.74s (19.84%) |Others=0.21 (5.55%)|CurSamplesPerSec=17.17``: one iteration of generating and training."""
    found = CHAT.search(text)
    if found is None:
        return generic_line(text)
    rate = number(found[2]) if found[2] else None
    return StepLine("DeepSpeed-Chat", UNNUMBERED, in_ms(found[1], "s"), samples_per_s=rate)
