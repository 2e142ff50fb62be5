"""Times of whole evaluations, where the line that states one names the evaluation."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from tools.run.recorded.job_log import EvaluationTime, InferenceTime
from tools.sources.job_log.numbers import NUMBER, UNIT, clock_s, in_ms

# "[Timing] final eval finished (Took 322.18s)", "Validation took 41.5 s"; no other words between, so that the time
# behind a loss of the validation is none of it.
TOOK = re.compile(
    r"(?<![A-Za-z_-])(?:eval(?:uation)?|validation)(?: (?:epoch|run|loop|pass|finished|done|completed))?"
    rf"(?:,? \(?(?:took|finished in|completed in|done in)|\s?in):? ({NUMBER})\s?({UNIT})(?![\w/])",
    re.I,
)
# Detectron2 (evaluation/evaluator.py: inference_on_dataset): of its batches but the first five; what comes behind it,
# such as writing predictions and computing metrics, is not in it. Both ends of the whole have other lines.
INFERENCE = re.compile(
    rf"\bTotal inference time: ((?:\d{{1,4}} days?, )?\d{{1,4}}:\d\d:\d\d)(\.\d{{1,9}})?"
    rf" \({NUMBER} s / (?:iter|img) per device"
)
BEGUN = re.compile(r"\bStart inference on \d{1,12} (?:batches|images|samples)")
RESULTS = re.compile(r"\bEvaluation results for .{1,200} in csv format:")
# "eval_time:10663ms", "val_time: 3.2 s"; 'eval_runtime' of HF Trainer's records is in seconds. Not behind the place of
# a batch, of which the time may be: "[20/242] eval_time: 12 ms".
NAMED = re.compile(
    rf"(?<![\w/.-])['\"]?(?:eval(?:uation)?|val(?:idation)?)_(?:run)?time['\"]?\s*[:=]\s*({NUMBER})\s?({UNIT})(?![\w/])",
    re.I,
)
RUNTIME = re.compile(rf"(?<![\w/.-])['\"]eval_runtime['\"]: ['\"]?({NUMBER})['\"]?[,}}]")
# DETR's MetricLogger at the end of an evaluation (torchvision, DINO, MAE): "Test: Total time: 0:00:14 (0.18 s / it)".
TOTAL = re.compile(
    rf"\b(?:Test|Eval|Val): {{0,2}}Total time: ((?:\d{{1,4}} days?, )?\d{{1,4}}:\d\d:\d\d) \({NUMBER} s / it\)"
)
# MindCV: "Validation Top_1_Accuracy: 77.4720%, Top_5_Accuracy: 93.6040%, time: 28.025947s".
OF_METRICS = re.compile(rf"\bValidation (?:\w{{1,40}}: {NUMBER}%?, ){{1,9}}time: ({NUMBER})s\s*\Z")
# PaddleVideo: the sum over all batches of the validation.
SUMMED = re.compile(rf"\bEND epoch:\d{{1,9}}\s{{1,9}}val\b.{{0,999}}?\bbatch_cost_sum: ({NUMBER}) sec\b")
MOST_INFERENCES = 1 << 16
OF_BATCHES = re.compile(r"\[\s*\d+\s*/\s*\d+\]|\b(?:batch|iter|iteration)\b", re.I)
NOT_WHOLE = re.compile(r"\b(?:avg|average|mean|expected|estimated|remaining|eta)\b|/(?:step|it|iter|batch)", re.I)
# Knover (scripts/train.py: evaluate): a line with the metrics, and behind it the seconds of the whole evaluation.
EVALUATED = re.compile(r"\A\[Evaluation\]\[\d{1,15}\]")
TIME_COST = re.compile(rf"\A\ttime cost: ({NUMBER})\s*\Z")
MARKS = ("batch_cost_sum", "_time", "_runtime", "took ", "Took ", " in ", "took: ", "Total time: ", "Validation ")


def evaluation_s(text: str) -> float | None:
    """The seconds of a whole evaluation that the line states; None where it states none."""
    if not any(mark in text for mark in MARKS):
        return None
    if found := TOTAL.search(text):
        return clock_s(found[1])
    if found := SUMMED.search(text) or OF_METRICS.search(text):
        return float(found[1])
    if found := RUNTIME.search(text):
        return float(found[1])
    found = TOOK.search(text) or (None if OF_BATCHES.search(text) else NAMED.search(text))
    if found is None or NOT_WHOLE.search(text):
        return None
    wall_ms = in_ms(found[1], found[2])
    return None if wall_ms is None else wall_ms / 1e3


def inference_s(text: str) -> float | None:
    """The seconds of the inference of an evaluation that the line states; None where it states none."""
    if "Total inference time" not in text or not (found := INFERENCE.search(text)):
        return None
    whole_s = clock_s(found[1])
    return None if whole_s is None else whole_s + float(found[2] or 0)


@dataclass
class Inferences:
    """The inference of each evaluation as lines state it, with the whole evaluation by the times of its lines."""

    found: list[InferenceTime] = field(default_factory=list)
    _begun_s: float | None = None

    def take(self, line: int, file: int, text: str, at_s: Callable[[], float | None]) -> bool:
        """Whether the line, written at ``at_s`` of the log's clock, is the begin, the inference or the end of one."""
        if "nference" not in text and "in csv format" not in text:
            return False
        if BEGUN.search(text):
            self._begun_s = at_s()
        elif (seconds := inference_s(text)) is not None:
            if len(self.found) < MOST_INFERENCES:
                self.found.append(InferenceTime(str(seconds), line, file))
        elif RESULTS.search(text) and self.found and self.found[-1].whole_s is None:
            ended_s = at_s()
            if self._begun_s is not None and ended_s is not None and ended_s >= self._begun_s:
                self.found[-1] = replace(self.found[-1], whole_s=ended_s - self._begun_s, end_line=line)
            self._begun_s = None
        else:
            return False
        return True


def begins_inference(text: str) -> bool:
    """Whether the line begins the inference of an evaluation, which may not end in the text."""
    return "tart inference" in text and BEGUN.search(text) is not None


def names_evaluation(text: str) -> bool:
    """Whether the line ends an evaluation whose time the next line states."""
    return EVALUATED.match(text) is not None


def time_cost_s(text: str) -> float | None:
    """The seconds that such a next line states; None of another line."""
    found = TIME_COST.match(text)
    wall_ms = in_ms(found[1], "s") if found else None
    return None if wall_ms is None else wall_ms / 1e3


WHAT = r"(?:model )?(?:evaluation|validation)"
BEGIN = re.compile(rf"\b(?:start(?:ing|ed)?|begin(?:ning)?|began|running) (?:the )?{WHAT}\b", re.I)
END = re.compile(
    rf"\b(?:finish(?:ed|ing)?|completed?|ended|end of|done with|overall) (?:the )?{WHAT}\b"
    rf"|\b{WHAT} (?:is |has )?(?:finished|completed?|ended|done)\b",
    re.I,
)
BRACKETS = ("valuation", "alidation", "ALIDATION", "VALUATION")
OF_ESTIMATOR = re.compile(r" at (\d{4}-\d\d-\d\d)[-T ](\d\d:\d\d:\d\d)")  # of TensorFlow's estimators
LONGEST_S = 86_400.0  # between the two lines: more is of two starts


class EvaluationBrackets:
    """Evaluations of which one line says that they begin and a later one that they end, both with their time."""

    def __init__(self, file: int) -> None:
        self.file = file
        self._begun: tuple[int, float, bool] | None = None  # line, seconds, and whether the text itself states them

    def take(self, line: int, text: str, at_s: float | None) -> EvaluationTime | None:
        """Read a line written at ``at_s`` of the log's clock; the evaluation that it ends."""
        if not any(mark in text for mark in BRACKETS):
            return None
        ends, begins = END.search(text) is not None, BEGIN.search(text) is not None
        if ends == begins:
            return None
        own = _own_time(text)
        known = at_s if own is None else own
        if known is None:
            return None
        if begins:
            self._begun = (line, known, own is not None)
            return None
        begun, self._begun = self._begun, None
        if begun is None or begun[2] != (own is not None) or not 0.0 < known - begun[1] <= LONGEST_S:
            return None
        return EvaluationTime(str(round(known - begun[1], 6)), line, self.file, begun[0])

    def stepped(self) -> None:
        """A training step lies between: what begins before it has no end here."""
        self._begun = None


def _own_time(text: str) -> float | None:
    """Seconds that the text of TensorFlow's estimators states."""
    found = OF_ESTIMATOR.search(text)
    if found is None:
        return None
    try:
        return datetime.fromisoformat(f"{found[1]} {found[2]}").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
