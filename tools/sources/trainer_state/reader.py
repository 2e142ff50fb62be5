"""The summary of a training in ``trainer_state.json`` of Hugging Face Trainer, next to its checkpoints.

Its records hold losses by step and no times, but for the last one, of the whole training, and those of evaluations
(transformers, trainer_utils.speed_metrics): ``train_runtime`` and ``eval_runtime`` in seconds, rates per second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from tools.errors import InputError
from tools.run.recorded.job_log import Cited, EvaluationTime, JobLog
from tools.sources.decompress import Expansion
from tools.sources.options import MIB, Limits
from tools.sources.tracked_steps import tracked_log

LIMITS = Limits(expanded_bytes=256 * MIB, expand_s=60.0)
OF_TRAINING = ("train_runtime", "train_samples_per_second", "train_steps_per_second")
STEPS, EVALUATION = "trained_steps", "eval_runtime"
LARGEST = 1e12


class _State(msgspec.Struct):
    global_step: int
    log_history: list[dict[str, object]]


def read_state(path: Path) -> JobLog:
    """What the file states of the whole training, cited by the place of the record in ``log_history``.

    ``InputError`` where it is no such file, or holds no summary, as before the training has ended.
    """
    data = b"".join(Expansion(path, LIMITS))
    try:
        state = msgspec.json.decode(data, type=_State)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: is no whole trainer_state.json ({error}); copy it again") from error
    found: dict[str, Cited] = {}
    evaluations: list[EvaluationTime] = []
    for place, record in enumerate(state.log_history, start=1):
        for name in OF_TRAINING:
            if (value := _number(record, name)) is not None:
                found[name] = Cited(str(value), place)
        if (took_s := _number(record, EVALUATION)) is not None:
            evaluations.append(EvaluationTime(str(took_s), place))
    if "train_runtime" not in found:
        raise InputError(
            f"{path}: holds no summary of the training, which Trainer writes at its end, and its other records "
            "state no times; give the job's output or its TensorBoard events"
        )
    line = found["train_runtime"].line
    found[STEPS] = Cited(str(state.global_step), line)
    if evaluations:
        found[EVALUATION] = Cited(str(round(sum(float(each.value) for each in evaluations), 6)), line)
    return replace(tracked_log(path.name, None, summary=found), evaluation_times=tuple(evaluations))


def _number(record: Mapping[str, object], name: str) -> float | None:
    value = record.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and 0.0 < value < LARGEST else None
