"""The epochs of PaddleVideo, which prints one step of many and at the end of an epoch the sum over all of them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from statistics import median

from tools.sources.job_log.grammars.step_figures import UNNUMBERED, StepLine
from tools.sources.job_log.numbers import NUMBER, number

VIDEO_EPOCHS = "PaddleVideo epochs"
ENDED = re.compile(
    rf"\bEND epoch:(\d{{1,9}})\s{{1,9}}train\b.{{0,999}}?\bbatch_cost_sum: ({NUMBER}) sec,"
    rf" avg_ips: ({NUMBER}) instance/sec"
)


@dataclass
class VideoEpochs:
    """The mean step of each epoch: samples of a batch by the printed steps, and the samples of the epoch by its sum and
    its mean rate, give the number of its steps. What its data waits for is what is left of the mean step beside the
    computation of its printed steps."""

    _batch: float = 0.0
    _computed_ms: list[float] = field(default_factory=list)  # of the printed steps of this epoch

    def printed(self, line: StepLine) -> None:
        """Read a printed step."""
        if line.wall_ms and line.samples_per_s:
            self._batch = max(self._batch, float(round(line.wall_ms * line.samples_per_s / 1e3)))
            self._computed_ms += [line.wall_ms - line.data_wait_ms] if line.data_wait_ms is not None else []

    def ended(self, text: str) -> StepLine | None:
        """The epoch that the line ends, as a line of all its steps; None where it ends none, or no batch is known."""
        found = ENDED.search(text) if "batch_cost_sum" in text else None
        if found is None:
            return None
        computed, self._computed_ms = self._computed_ms, []
        seconds, rate = number(found[2]), number(found[3])
        if not (seconds and rate and self._batch):
            return None
        steps = round(seconds * rate / self._batch)
        if steps < 1:
            return None
        mean_ms = 1e3 * seconds / steps
        wait_ms = max(mean_ms - median(computed), 0.0) if computed else None
        return StepLine(VIDEO_EPOCHS, UNNUMBERED, mean_ms, of="epoch", steps=steps, data_wait_ms=wait_ms)
