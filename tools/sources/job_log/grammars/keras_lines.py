"""Keras' progress bar (keras/utils: Progbar) with the time of a step, and as versions before 2.0.9 print it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from tools.run.recorded.job_log import EpochTime
from tools.sources.job_log.grammars.generic_lines import generic_line
from tools.sources.job_log.grammars.step_figures import UNNUMBERED, StepLine
from tools.sources.job_log.numbers import NUMBER, clock_s, in_ms

KERAS_LINES, KERAS_EPOCHS = "Keras", "Keras epochs"
VALIDATED = re.compile(r" - val_\w{1,60}: ")
KERAS = re.compile(
    rf"(?:\A|\s)(\d{{1,9}})/(\d{{1,9}}) (?:\[[=>.]{{1,60}}\]|[━╸╺ ]{{1,60}}|-)[ -]{{1,6}}(?:ETA: )?(\S{{1,16}})"
    rf"(?: - \S{{1,16}}/epoch)?(?: -)? ({NUMBER})(s|ms|us)/(?:step|sample)"
)
KERAS_EPOCH = re.compile(rf"(?:\A|\s)(\d{{1,9}})/\1 - (\S{{1,16}}) - .{{0,600}}?({NUMBER})(s|ms|us)/step")
KERAS_SECONDS = re.compile(r"(\d{1,9})s\Z")

HEADER = re.compile(r"\A\s{0,9}Epoch:? (\d{1,9})/(\d{1,9})\s{0,9}\Z")
OF_METRICS = re.compile(r" - \w{1,60}: -?\d")


@dataclass
class KerasRuns:
    """The trainings of one stream of output by the headers above their bars (``Epoch 3/10``), as far as it has any.

    A header whose number falls, or that counts to another number of epochs, begins another training. A bar without a
    header of its own is of ``evaluate`` or ``predict``.
    """

    training: int = 0  # 0: no header so far
    _headers: int = 0  # of this training
    _epoch: tuple[int, int] = (0, 0)  # the number in the last header and what it counts to
    _drawn: bool = False  # a bar stands below it
    _ended: tuple[int, int] = (-1, 0)  # the line and the total of the bar that ended its epoch

    def header(self, text: str) -> bool:
        """Whether the line is the header of an epoch."""
        found = HEADER.match(text) if "poch" in text else None
        if found is None:
            return False
        epoch, count = int(found[1]), int(found[2])
        again = epoch < self._epoch[0] or (epoch == self._epoch[0] == 1 and self._ended[0] >= 0)
        if not self.training or count != self._epoch[1] or (again and self._drawn):
            self.training += 1
            self._headers = 0
        self._headers += 1
        self._epoch, self._drawn, self._ended = (epoch, count), False, (-1, 0)
        return True

    def placed(self, found: StepLine, line: int) -> StepLine | None:
        """The line of a bar with the epoch of its header; None where the header's own bar has ended before it,
        unless the output holds the first header alone."""
        if not self.training:
            return found
        if self._ended[0] >= 0 and not (self._headers == 1 and found.validated and found.steps == self._ended[1]):
            return None
        self._drawn = True
        if found.grammar == KERAS_EPOCHS:
            self._ended = (line, found.steps)
            return found
        return replace(found, epoch=self._epoch[0])

    def drawn_again(self, found: StepLine, line: int) -> bool:
        """Whether the bar is the one that ended the epoch, drawn once more."""
        return found.steps == self._ended[1] and line - self._ended[0] <= 1


def evaluation_of(found: StepLine, text: str) -> float | None:
    """The seconds of ``evaluate`` by its finished bar, which states metrics; None of ``predict``, which has none."""
    if found.grammar != KERAS_EPOCHS or found.wall_ms is None or found.validated or OF_METRICS.search(text) is None:
        return None
    return found.wall_ms * found.steps / 1e3


def keras(text: str) -> StepLine | None:
    """Keras: ``12/100 [==>...] - ETA: 30s 350ms/step - loss: ...``, ``100/100 ━━━━ 35s 350ms/step``: the mean since the
    epoch began. The line that ends an epoch stands for all its steps. The time of a step has whole units of its own
    (``2s/step``, keras/utils: Progbar), and the time that is left or that the epoch took whole seconds: whichever
    gives more digits is used."""
    if found := KERAS_EPOCH.search(text):
        ms, _ = _of_bar(found[3], found[4], found[2], int(found[1]))
        validated = VALIDATED.search(text) is not None
        return StepLine(KERAS_EPOCHS, UNNUMBERED, ms, of="epoch", steps=int(found[1]), validated=validated)
    found = KERAS.search(text)
    if found is None:
        return generic_line(text)
    done, whole = int(found[1]), int(found[2])
    if "/sample" in found[0]:
        return None
    ms, rounding_ms = _of_bar(found[4], found[5], found[3], whole if done == whole else whole - done)
    if done == whole:
        validated = VALIDATED.search(text) is not None
        return StepLine(KERAS_EPOCHS, UNNUMBERED, ms, of="epoch", steps=whole, validated=validated)
    return StepLine(KERAS_LINES, done, ms, of="mean", of_epoch=whole, average="epoch", rounding_ms=rounding_ms)


def _of_bar(value: str, unit: str, clock: str, steps: int) -> tuple[float | None, float]:
    """The time of a step in ms and half of its last digit: as stated, or of so many steps by the bar's clock."""
    stated, rounding_ms = in_ms(value, unit), in_ms("0.5", unit) or 0.5
    passed_s = _clock_s(clock)
    if not passed_s or not steps or 500.0 / steps >= rounding_ms:
        return stated, rounding_ms
    return 1e3 * passed_s / steps, 500.0 / steps


def _clock_s(clock: str) -> float | None:
    """The whole seconds of a bar's clock: ``30s`` or ``1:12:30``."""
    seconds = KERAS_SECONDS.match(clock)
    return float(seconds[1]) if seconds else clock_s(clock)


# Of Keras before 2.0.9 without the time of a step: what it counts may be samples (Model.fit) or steps (fit_generator).
WITHOUT_RATE = re.compile(
    r"(?:\A|\s)(\d{1,9})/(\d{1,9}) \[[=>.]{5,60}\] - (ETA: )?(\d{1,9}s|\d[\d:]{2,11}) - (?=[A-Za-z])"
)


def epoch_of_bar(found: re.Match[str], line: int, file: int) -> EpochTime | None:
    """The time of an epoch by a bar of ``WITHOUT_RATE``; ``expected`` where it still counts."""
    done, whole = int(found[1]), int(found[2])
    seconds = _clock_s(found[4])
    if not seconds or not 0 < done <= whole or (done < whole) is not bool(found[3]):
        return None
    each_ms = 1e3 * seconds / (whole - done if found[3] else whole)
    return EpochTime(each_ms * whole, line, file, items=whole, expected=bool(found[3]))
