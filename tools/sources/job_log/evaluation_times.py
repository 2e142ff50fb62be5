"""Times of whole evaluations, where the line that states one names the evaluation."""

from __future__ import annotations

import re

from tools.sources.job_log.numbers import NUMBER, UNIT, clock_s, in_ms

# "[Timing] final eval finished (Took 322.18s)", "Validation took 41.5 s"; no other words between, so that the time
# behind a loss of the validation is none of it.
TOOK = re.compile(
    r"(?<![A-Za-z_-])(?:eval(?:uation)?|validation)(?: (?:epoch|run|loop|pass|finished|done|completed))?"
    rf"(?:,? \(?(?:took|finished in|completed in|done in)|\s?in):? ({NUMBER})\s?({UNIT})(?![\w/])",
    re.I,
)
# Detectron2 (evaluation/evaluator.py: inference_on_dataset), after each evaluation, of its batches but the first five.
INFERENCE = re.compile(
    rf"\bTotal inference time: ((?:\d{{1,4}} days?, )?\d{{1,4}}:\d\d:\d\d)(\.\d{{1,9}})?"
    rf" \({NUMBER} s / (?:iter|img) per device"
)
# "eval_time:10663ms", "val_time: 3.2 s"; 'eval_runtime' of HF Trainer's records is in seconds. Not behind the place of
# a batch, of which the time may be: "[20/242] eval_time: 12 ms".
NAMED = re.compile(
    rf"(?<![\w/.-])['\"]?(?:eval(?:uation)?|val(?:idation)?)_(?:run)?time['\"]?\s*[:=]\s*({NUMBER})\s?({UNIT})(?![\w/])",
    re.I,
)
RUNTIME = re.compile(rf"(?<![\w/.-])['\"]eval_runtime['\"]: ['\"]?({NUMBER})['\"]?[,}}]")
OF_BATCHES = re.compile(r"\[\s*\d+\s*/\s*\d+\]|\b(?:batch|iter|iteration)\b", re.I)
NOT_WHOLE = re.compile(r"\b(?:avg|average|mean|expected|estimated|remaining|eta)\b|/(?:step|it|iter|batch)", re.I)
# Knover (scripts/train.py: evaluate): a line with the metrics, and behind it the seconds of the whole evaluation.
EVALUATED = re.compile(r"\A\[Evaluation\]\[\d{1,15}\]")
TIME_COST = re.compile(rf"\A\ttime cost: ({NUMBER})\s*\Z")
MARKS = ("_time", "_runtime", "took ", "Took ", " in ", "took: ", "Total inference time")


def evaluation_s(text: str) -> float | None:
    """The seconds of a whole evaluation that the line states; None where it states none."""
    if not any(mark in text for mark in MARKS):
        return None
    if found := INFERENCE.search(text):
        whole_s = clock_s(found[1])
        return None if whole_s is None else whole_s + float(found[2] or 0)
    if found := RUNTIME.search(text):
        return float(found[1])
    found = TOOK.search(text) or (None if OF_BATCHES.search(text) else NAMED.search(text))
    if found is None or NOT_WHOLE.search(text):
        return None
    wall_ms = in_ms(found[1], found[2])
    return None if wall_ms is None else wall_ms / 1e3


def names_evaluation(text: str) -> bool:
    """Whether the line ends an evaluation whose time the next line states."""
    return EVALUATED.match(text) is not None


def time_cost_s(text: str) -> float | None:
    """The seconds that such a next line states; None of another line."""
    found = TIME_COST.match(text)
    wall_ms = in_ms(found[1], "s") if found else None
    return None if wall_ms is None else wall_ms / 1e3
