"""One stream of a job's output: its step lines by their grammar, its progress bars and its timers."""

from __future__ import annotations

from dataclasses import dataclass, field

from tools.sources.job_log.bars import Bars
from tools.sources.job_log.grammars.keras_lines import KERAS_EPOCHS, KERAS_LINES, KerasRuns
from tools.sources.job_log.grammars.library_lines import PADDLE
from tools.sources.job_log.grammars.step_figures import StepLine
from tools.sources.job_log.grammars.video_epochs import VideoEpochs
from tools.sources.job_log.series import StepRows
from tools.sources.job_log.tables import Timer, TimerRows

MOST_KINDS = 256  # of step lines
NO_RANK = -1
Stream = tuple[int, str]  # rank (``NO_RANK`` where no line names it) and pod


@dataclass
class StreamRows:
    """The steps of one stream of output, by the grammar of their lines, and its progress bars."""

    steps: dict[str, StepRows] = field(default_factory=dict)
    bars: Bars = field(default_factory=Bars)
    timers: TimerRows = field(default_factory=TimerRows)
    step: int = -1  # of the last step line
    micro_steps: int = 0  # whose timers come before any step line, and are numbered by their lines
    video: VideoEpochs = field(default_factory=VideoEpochs)
    keras: KerasRuns = field(default_factory=KerasRuns)
    ahead: list[Timer] = field(default_factory=list)  # DeepSpeed prints them before the phases of the same step

    def begin(self, step: int | None) -> None:
        """The timers of micro-steps before the first step line are of that step, or of the start (None)."""
        if self.micro_steps:
            self.timers = TimerRows() if step is None else self.timers.of_step(step)
            self.micro_steps = 0

    def rows_of(self, found: StepLine, window: int) -> StepRows | None:
        """The rows that the line belongs to, of means over ``window`` steps where the output states it; None where
        there are too many kinds of them."""
        kind, training = found.grammar, 0
        if kind == KERAS_EPOCHS:  # bars of another total are of another run or unit, or of an evaluation
            kind = f"{kind} of {found.steps}"
        if found.grammar in (KERAS_EPOCHS, KERAS_LINES) and (training := self.keras.training):
            kind = f"{kind} in training {training}"
        if found.grammar == PADDLE and found.of == "step":
            self.video.printed(found)
        if kind not in self.steps:
            if len(self.steps) >= MOST_KINDS:
                return None
            self.steps[kind] = StepRows(found.grammar, window=window, training=training)
        return self.steps[kind]
