"""Single long steps, counted over a stretch of the run: how many, how long, and when."""

from __future__ import annotations

from statistics import median

from hermes_agent.watch.anomaly import AnomalyKind, Deviation
from hermes_agent.watch.series import DEFAULT, WatchThresholds


class SpikeSummary:
    """Collects spikes and returns one record of them when a stretch is full, or at the end."""

    def __init__(self, thresholds: WatchThresholds = DEFAULT) -> None:
        self._stretch = thresholds.spike_stretch
        self._spikes: list[Deviation] = []

    @property
    def present(self) -> Deviation | None:
        """The spikes of the present stretch in one record."""
        if not self._spikes:
            return None
        usual_ms, seen_ms = (
            median(values) for values in zip(*((s.usual_ms, s.seen_ms) for s in self._spikes), strict=True)
        )
        first, last = self._spikes[0].step, self._spikes[-1].step
        longest_ms = max(each.seen_ms for each in self._spikes)
        return Deviation(AnomalyKind.SPIKE, first, last, usual_ms, seen_ms, 0, len(self._spikes), longest_ms)

    def add(self, spike: Deviation) -> None:
        """Count a spike."""
        self._spikes.append(spike)

    def due(self, step: int) -> list[Deviation]:
        """Return the record of a stretch that ends before this step."""
        # Steps count from 0 again after a restart, and may be any numbers in a ring.
        full = bool(self._spikes) and abs(step - self._spikes[0].step) >= self._stretch
        full |= len(self._spikes) >= self._stretch
        return self.rest() if full else []

    def rest(self) -> list[Deviation]:
        """Return what is not reported yet."""
        present = self.present
        self._spikes = []
        return [] if present is None else [present]
