"""Times of whole epochs as lines of a job's output state them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tools.errors import UsageError
from tools.metrics.measurement import Measurement, choice, metric
from tools.metrics.recorded.job_log import job_log, of_lines
from tools.run.recorded.job_log import EpochTime
from tools.views.profile import Profile

STATISTICS = ("first", "median", "min", "max")


def stated_epochs(profile: Profile) -> tuple[EpochTime, ...]:
    """The epochs whose time is stated, in the order of the log; those that are only expected where no other is."""
    log = profile.run.job_log
    found = () if log is None else log.epoch_times
    return tuple(each for each in found if not each.expected) or found


@metric("ms", "{statistic} epoch by its line", "How long does an epoch take by the lines that state it?")
def epoch_ms(profile: Profile, statistic: str = "median", later: int = 0) -> Measurement:
    """Over the lines that state the time of an epoch, of all ranks; with ``later`` over all but the first one."""
    choice("statistic", statistic, STATISTICS)
    epochs = _of(profile)[1 if later else 0 :]
    walls = np.array([each.wall_ms for each in epochs])
    value = {"first": walls[0], "median": np.median(walls), "min": walls.min(), "max": walls.max()}[statistic]
    return _measurement(profile, float(value), epochs[:1] if statistic == "first" else epochs)


@metric("ms", "item of an epoch by its bar", "How long does an item of an epoch's bar take?")
def epoch_item_ms(profile: Profile) -> Measurement:
    """The time of the first epoch whose bar counts items, over these; whether they are steps is not known."""
    epochs = [each for each in _of(profile) if each.items]
    if not epochs:
        raise UsageError("no line of an epoch counts items")
    return _measurement(profile, epochs[0].wall_ms / (epochs[0].items or 1), epochs[:1])


@metric("ms", "{statistic} part {name} of an epoch", "How long does a part of an epoch take by the lines of ranks?")
def epoch_part_ms(profile: Profile, name: str, statistic: str = "median") -> Measurement:
    """Over all lines that state the part; ``min`` and ``max`` are those of single ranks, by their mean."""
    epochs = _of(profile)
    names = sorted({part for each in epochs for part, _ in each.parts})
    if not names:
        raise UsageError("no line of an epoch states its parts")
    choice("part", name, names)
    by_rank = part_by_rank(epochs, name)
    choice("statistic", statistic, STATISTICS[1:])
    value = getattr(by_rank, statistic)()
    own = epochs if statistic == "median" else [each for each in epochs if by_rank.get(each.rank) == value]
    return _measurement(profile, float(value), own)


def part_by_rank(epochs: Sequence[EpochTime], name: str) -> pd.Series[float]:
    """The mean time of a part of an epoch in ms by rank."""
    rows = [(each.rank, ms) for each in epochs for part, ms in each.parts if part == name and each.rank is not None]
    return pd.DataFrame(rows, columns=["rank", "ms"]).groupby("rank")["ms"].mean()


def _of(profile: Profile) -> tuple[EpochTime, ...]:
    job_log(profile)
    epochs = stated_epochs(profile)
    if not epochs:
        raise UsageError("the job's output does not state the time of an epoch")
    return epochs


def _measurement(profile: Profile, value: float, epochs: Sequence[EpochTime]) -> Measurement:
    rows = pd.DataFrame(
        [{"line": each.line, "file": each.file, "epoch": each.epoch, "wall_ms": each.wall_ms} for each in epochs]
    )
    return of_lines(job_log(profile), value, rows, "times of epochs")
