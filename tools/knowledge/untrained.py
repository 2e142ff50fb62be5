"""The words for a run whose traces hold no training step: of inference, an evaluation, or a part of a step."""

from __future__ import annotations

import re
from dataclasses import replace

from tools.knowledge.taxonomy import Optimization

# Changes of a backward pass, an optimizer or the batches of a training.
OF_TRAINING = re.compile(
    r"backward|gradient|optimi[sz]er|torch\.optim|\bDDP\b|DistributedDataParallel|bucket_cap|\bFSDP|micro-batch|no_sync|epoch"
    r"|sampler|accumulat",
    re.I,
)
CLAUSES = re.compile(r"; (?![^`]*`(?:[^`]*`[^`]*`)*[^`]*\Z)")  # between clauses, not inside of code
WORDS = (
    ("while training goes on", "meanwhile"),
    ("training steps", "steps"),
    ("training step", "step"),
    ("training loop", "loop"),
    ("training script", "program"),
    ("training threads", "main threads"),
    ("training thread", "main thread"),
    ("training process", "process"),
    ("Training", "The program"),
    ("the training", "the program"),
    ("The training", "The program"),
    ("training", "the program"),
)


def without_training(text: str) -> str:
    """The text with the words of a program that does not train."""
    for said, own in WORDS:
        text = text.replace(said, own)
    return text


def fitting(change: Optimization) -> Optimization | None:
    """The change without the clauses that are about training; None where it is about training as a whole."""
    how = _clauses(change.how)
    if OF_TRAINING.search(change.optimization) or not how:
        return None
    return replace(
        change,
        optimization=without_training(change.optimization),
        how=how,
        risk=_clauses(change.risk),
        verify=_clauses(change.verify) or "the same work takes less time in a new trace",
    )


def _clauses(text: str) -> str:
    kept = "; ".join(each for each in CLAUSES.split(text) if not OF_TRAINING.search(each))
    return without_training(kept.removeprefix("else "))
