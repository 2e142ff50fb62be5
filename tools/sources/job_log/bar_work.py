"""What a progress bar without a name counts, by what is printed behind it: training steps or those of an evaluation."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tools.sources.job_log.side_work import evaluates

BEHIND_LINES = 3  # from the last update to the line that says what it was of
VALUES = (
    r"[ _-](?:\w{1,12}[ _-])?(?:loss|acc(?:uracy)?|err(?:or)?|f1|auc|m?iou|m?ap|ppl|perplexity|bleu|mse|mae|rmse|psnr"
    r"|score|metrics?|results?)(?![A-Za-z])"
)
OF_EVALUATION = re.compile(rf"(?<![A-Za-z])(?:val(?:id(?:ation)?)?|eval(?:uation)?|test(?:ing)?|dev){VALUES}", re.I)
OF_TRAINING = re.compile(rf"(?<![A-Za-z])train(?:ing)?{VALUES}|'train_runtime'", re.I)
# "Validation data size: 155", "len(val_loader) = 155".
EVALUATED_SIZE = re.compile(
    r"(?<![A-Za-z])(?:val(?:id(?:ation)?)?|eval(?:uation)?|test)[ _-](?:data|set|dataset|loader|dataloader|batches)"
    r"(?: size| length|\))?\s?[:=]\s{0,3}(\d{1,9})(?![\d.])",
    re.I,
)
HEADING = re.compile(r"\W{0,9}epoch\W{0,4}\d{1,9}(?:\W{0,3}(?:/|of)\W{0,3}\d{1,9})?\W{0,9}\Z", re.I)
LOSS = re.compile(r"(?<![A-Za-z])loss(?![A-Za-z])", re.I)
RUNS_TRAINING = "unning training"  # of HF Trainer
RATE_DIGITS = 0.005  # a rate is shown with two digits behind the point in the unit in which it is above 1
AGREES_S = 0.5  # a clock of whole seconds is cut: the middle of what it may be


@dataclass(frozen=True)
class Said:
    """What a text says a bar was of."""

    training: bool = False
    evaluation: bool = False


def work_of(text: str) -> Said:
    """A text that names both says nothing."""
    evaluation = OF_EVALUATION.search(text) is not None or evaluates(text)
    training = OF_TRAINING.search(text) is not None or (not evaluation and LOSS.search(text) is not None)
    return Said() if training and evaluation else Said(training, evaluation)


def whole_s(done: int, elapsed_s: float, step_ms: float, exact: bool) -> float | None:
    """How long a finished bar took: its clock, or, where that is cut to whole seconds and short, its mean rate, if both
    agree."""
    if exact:
        return elapsed_s
    by_rate_s = done * step_ms / 1e3
    if step_ms > 0 and abs(by_rate_s - elapsed_s - AGREES_S) <= AGREES_S + RATE_DIGITS * by_rate_s:
        return by_rate_s
    return elapsed_s if elapsed_s >= LONG_S else None


LONG_S = 20.0  # whole seconds are exact to 5 % of it
