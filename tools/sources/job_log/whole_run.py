"""What lines state of the whole training: how long it took, how long it still takes, and how many steps it has."""

from __future__ import annotations

import re
from itertools import pairwise

from tools.run.recorded.job_log import OfWholeRun, WholeRunKind
from tools.sources.job_log.numbers import NUMBER, TO_MS, clock_s, number
from tools.sources.job_log.peak_memory import COMMENTS

CLOCK = r"(?:\d{1,4} days?,? )?\d{1,4}:\d\d(?::\d\d)?(?:\.\d{1,9})?(?![\d:])"
UNIT = r"hours?|hrs?|h|minutes|mins?|m|seconds?|secs?|s|ms"
AMOUNT = rf"(?:(?P<clock>{CLOCK})|(?P<value>{NUMBER})\s?(?P<unit>{UNIT})(?![A-Za-z/]))"
TO_S = {
    **{name: ms / 1e3 for name, ms in TO_MS.items()},
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("m", "minute"), 60.0),
}
# "Total training time: 4:49:16.7 (0.8678s / it)" (Detectron2, maskrcnn-benchmark), "Training time 21:59:39" (DETR, MAE,
# DINO, torchvision), "done training in 5281.4 seconds" (fairseq), "300 epochs completed in 1.234 hours." (YOLOv5).
TOOK = re.compile(
    r"(?<![A-Za-z])(?:(?:(?:total|overall)[ _])?train(?:ing)?[ _]time(?:[ _]\w{1,7})?|done training in"
    r"|epochs completed in|training (?:completed|finished|done|took)(?: in| after)?"
    rf"|train(?:ing)? (?:completed|finished|done),? \(?took):?\s{{1,9}}{AMOUNT}",
    re.I,
)
TOOK_MARKS = ("raining", "rain_time", "epochs completed in", "rain time", "(Took ", "took ")
OF_TIMER = "train "  # "[Timing] train finished (Took 1160.43s)": where there are several, they may be of parts
OF_A_PART = re.compile(
    r"\b(?:epoch|step|iter|iteration|batch|avg|average|mean|expected|estimated|eta|remaining|val\w*|eval\w*|test\w*)\b",
    re.I,
)
# What is left by a step line, and what had passed by the same line.
LEFT = re.compile(
    r"(?<![A-Za-z])(?:eta|estimated time|(?:time )?remaining(?:[ _]time)?|time[ _]left)['\"]?\s?[:=]?\s{0,3}['\"]?"
    + AMOUNT,
    re.I,
)
LEFT_MARKS = ("eta", "ETA", "stimated", "emaining", "left")
PASSED = re.compile(rf"(?<![A-Za-z])(?:train_time|cost time|elapsed|total time)\s?[:=]\s{{0,3}}{AMOUNT}", re.I)
PASSED_ALONE = "train_time:"  # of modded-nanogpt: since the first step, without evaluations
# A bar as OpenPI logs it, which counts thousands of steps ("12.9kit/200kit").
BAR = re.compile(r"\bProgress on: .{0,80}\bremaining:\S{1,30} elapsed:")
OF_EVALUATION = re.compile(r"(?<![a-z])(?:val(?:id(?:ation)?)?|test|eval(?:uation)?|inference)(?![a-z])", re.I)
OF_MINDCV = "Total time since last epoch: "  # behind each epoch, with what all others still take
# An ETA next to the place in an epoch is that of the epoch, but of these programs: MMCV, YOLOX, Paddle's, BasicSR.
IN_EPOCH = re.compile(r"poch|\bTrain: ?\[|\] - ETA")
OF_ALL_EPOCHS = re.compile(
    r"\bEpoch(?:\(train\))? {1,3}\[\d{1,9}\]\[ {0,9}\d{1,12}/\d{1,12}\]"
    r"|\bepoch: \d{1,9}/\d{1,9}, iter: \d{1,12}/\d{1,12},"
    r"|batch_cost|Total time since last epoch: |\[epoch: {0,3}\d{1,9}, iter: {0,12}[\d,]{1,15}, lr:"
)
# An estimate that reached its end, by as much as it falls from line to line, and rises again is of a part of the
# training.
END_S, LINES_LEFT, RISEN = 60.0, 2.0, 3.0
PLACE = re.compile(
    r"(?<![A-Za-z])(?:global[_ ]step|train[_ ]?step|steps?|iterations?|iters?|it|updates?)['\"]?\s?[:=]?\s?\[?\s{0,9}"
    r"(\d{1,12})\s?/\s{0,9}(\d{1,12})(?![\d.]*[A-Za-z\d.])",
    re.I,
)
ARGUMENT = re.compile(
    r"(?<![\w.-])(?:--)?['\"]?(?:MAX_ITER|max_iters?|max_iterations|max_steps|train_iters|num_train_steps"
    r"|(?:num_)?training_steps|num_iterations|total_(?:train_|training_|optimization_)?steps"
    r"|[Tt]otal (?:train(?:ing)? |optimization )?steps|[Mm]ax(?:imum)? steps|Num steps)['\"]?\s{0,40}"
    r"(?:[:=]|\.{3,99})\s{0,3}(\d{1,3}(?:,\d{3}){1,4}|\d{1,12})(?![\w.]*[\w])"
)
ARGUMENT_MARKS = ("MAX_ITER", "max_iter", "max_steps", "train_iters", "steps", "num_iterations")


class WholeRun:
    """Collects what the lines of one file state."""

    def __init__(self, file: int) -> None:
        self.file = file
        self._took: OfWholeRun | None = None
        self._timed = 0  # lines of a timer that names no more than "train"
        self._left: OfWholeRun | None = None
        self._passed: OfWholeRun | None = None
        self._lefts_s: tuple[float, ...] = ()  # by the last three estimates
        self._of_parts = False  # what is left is that of an epoch
        self._place: OfWholeRun | None = None
        self._places_of_parts = False  # steps are counted again, or to other numbers
        self._first_place: int | None = None
        self._last_place = -1
        self._arguments: dict[int, OfWholeRun] = {}

    def take(self, line: int, text: str) -> None:
        """Read a line that is no step line."""
        if any(mark in text for mark in TOOK_MARKS) and (found := TOOK.search(text)):
            taken_s = _seconds(found)
            if taken_s is not None and not OF_A_PART.search(text, 0, found.start()):
                self._timed += found[0].lower().startswith(OF_TIMER) and "took" in found[0].lower()
                self._took = OfWholeRun(str(taken_s), line, self.file)
        if OF_MINDCV in text or ("Progress on:" in text and BAR.search(text)):
            self._estimated(line, text, None)
        self._argued(line, text)
        if "/" in text and ("tep" in text or "ter" in text):
            self._placed(line, text)

    def stepped(self, line: int, text: str, step: int | None) -> None:
        """Read a line of a step; None where it counts within its epoch."""
        self._estimated(line, text, step)
        self._argued(line, text)
        if "/" in text:
            self._placed(line, text)

    def found(self) -> dict[WholeRunKind, OfWholeRun]:
        """What is stated of the whole training, the last time that it is."""
        took = self._took if self._timed < 2 else None
        known: dict[WholeRunKind, OfWholeRun | None] = {"took_s": took, "passed_s": self._passed}
        if not self._of_parts:
            known["left_s"] = self._left
        known["steps"] = self._steps()
        return {kind: stated for kind, stated in known.items() if stated is not None}

    def _estimated(self, line: int, text: str, step: int | None) -> None:
        passed = PASSED.search(text) if PASSED_ALONE in text else None
        if any(mark in text for mark in LEFT_MARKS) and (found := LEFT.search(text)):
            left_s = _seconds(found)
            if left_s is None or (OF_MINDCV not in text and OF_EVALUATION.search(text, 0, found.start())):
                return
            if IN_EPOCH.search(text) and not OF_ALL_EPOCHS.search(text):
                return
            self._of_parts |= self._ended() and left_s > RISEN * (self._lefts_s[-1] + END_S)
            self._lefts_s = (*self._lefts_s[-2:], left_s)
            self._left = OfWholeRun(str(left_s), line, self.file, step)
            passed = PASSED.search(text)
        passed_s = _seconds(passed) if passed else None
        if passed_s is not None:
            self._passed = OfWholeRun(str(passed_s), line, self.file, step)

    def _ended(self) -> bool:
        """Whether by the last estimate nothing or hardly anything is left."""
        if not self._lefts_s:
            return False
        falls_s = [before - after for before, after in pairwise(self._lefts_s)]
        return self._lefts_s[-1] <= max(END_S, LINES_LEFT * min(falls_s, default=0.0))

    def _argued(self, line: int, text: str) -> None:
        if any(mark in text for mark in ARGUMENT_MARKS) and not text.lstrip().startswith(COMMENTS):
            for each in ARGUMENT.finditer(text):
                steps = int(each[1].replace(",", ""))
                if steps > 1:
                    self._arguments.setdefault(steps, OfWholeRun(str(steps), line, self.file))

    def _placed(self, line: int, text: str) -> None:
        found = PLACE.search(text)
        if found is None or "poch" in text[: found.start()] or OF_EVALUATION.search(text, 0, found.start()):
            return
        step, total = int(found[1]), int(found[2])
        if step > total:
            return
        known = self._place
        again = self._first_place is not None and step <= self._first_place and step < self._last_place
        self._places_of_parts |= again or (known is not None and known.value != str(total))
        self._first_place = step if self._first_place is None else self._first_place
        self._last_place = step
        self._place = known or OfWholeRun(str(total), line, self.file)

    def _steps(self) -> OfWholeRun | None:
        """The number of steps of the training: behind a step's own, else the one argument that names it."""
        if self._place is not None:
            return None if self._places_of_parts else self._place
        return next(iter(self._arguments.values())) if len(self._arguments) == 1 else None


def _seconds(found: re.Match[str]) -> float | None:
    if clock := found["clock"]:
        whole, _, part = clock.partition(".")
        seconds = clock_s(whole)
        return None if seconds is None else seconds + float(f"0.{part or 0}")
    value = number(found["value"])
    return None if value is None or value < 0 else value * TO_S[found["unit"].lower()]
