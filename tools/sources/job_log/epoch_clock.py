"""Times that lines call those of an epoch, and that are a clock."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tools.run.recorded.job_log import EpochTime

LEAST_OF_CLOCK, CLOCK_SHARE = 10, 0.9
OF_CLOCK = (
    "{} lines from line {} on call a time that of an epoch, which rises from line to line: a clock since the epoch "
    "began or epochs that each take longer; left out"
)


def clock_of_epochs(found: Sequence[EpochTime]) -> str:
    """A note on times of epochs that rise from line to line as a clock does; "" where they do not."""
    times = [each.wall_ms for each in found if each.epoch is None and each.rank is None]
    rising = sum(later > earlier for earlier, later in pairwise(times))
    if len(times) < LEAST_OF_CLOCK or len(times) < len(found) or rising < CLOCK_SHARE * (len(times) - 1):
        return ""
    return OF_CLOCK.format(len(times), found[0].line)
