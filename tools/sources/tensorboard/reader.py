"""Reads the series of steps from the scalars of a TensorBoard event file."""

from __future__ import annotations

import math
import re
from array import array
from dataclasses import dataclass, field

from tools.errors import InputError
from tools.run.recorded.job_log import JobLog
from tools.sources.decompress import Expansion, Readable
from tools.sources.job_log.grammars.generic_lines import OTHER_RECORD, field_name, of_mapping
from tools.sources.options import GIB, Limits
from tools.sources.tensorboard.events import EventFile, Scalar
from tools.sources.tracked_steps import CLOCK, OF_INTERVAL, TrackedSteps, tracked_log

LIMITS = Limits(expanded_bytes=16 * GIB, expand_s=600.0)
MOST_TAGS = 1024
MOST_SCALARS = 1 << 21
SHOWN_TAGS = 5
STEP = "step"
GRAMMAR = "TensorBoard scalars"
# Tags whose step is no step of the training: of epochs, of evaluations, over samples or time.
OTHER_STEPS = re.compile(r"(?:.*[/_])?epoch(?:[/_].*)?\Z|.* vs\.? (?:samples|time|tokens)\Z", re.I)
BY_STEP = re.compile(r"(?:.*/)?batch_\w+\Z|.*_step\Z")  # of Keras and of Lightning, next to those of epochs
EPOCH_NUMBER = re.compile(r"(?:.*/)?epoch\Z")
LEAST_EPOCH_VALUES, STEPS_OF_EPOCH = 2, 2.0  # values that show how fast the number rises; fewer steps may be epochs
LEAST_SHARE = 0.5  # of the steps of the longest tag that a tag with times has


@dataclass(frozen=True, eq=False)
class TensorboardRead:
    """What one file holds: its series of steps, None where it holds no scalars, and what could not be read."""

    log: JobLog | None  # without steps where no scalar shows them
    scalars: int
    notes: tuple[str, ...] = ()
    partial: bool = False


@dataclass
class _Tag:
    """The values of one tag in the order of the file."""

    steps: array[int] = field(default_factory=lambda: array("q"))
    walls_s: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))
    records: array[int] = field(default_factory=lambda: array("q"))

    def add(self, scalar: Scalar) -> None:
        self.steps.append(scalar.step)
        self.walls_s.append(scalar.wall_s)
        self.values.append(scalar.value)
        self.records.append(scalar.record)


def read_events(path: Readable) -> TensorboardRead:
    """The series of a file in bounded memory; ``InputError`` where it cannot be read."""
    expansion = Expansion(path, LIMITS)
    file = EventFile(expansion)
    tags: dict[str, _Tag] = {}
    count = left_out = 0
    for scalar in file:
        known = scalar.tag in tags or len(tags) < MOST_TAGS
        if not known or count >= MOST_SCALARS or not 0 <= scalar.step < 1 << 53 or not math.isfinite(scalar.wall_s):
            left_out += 1
            continue
        tags.setdefault(scalar.tag, _Tag()).add(scalar)
        count += 1
    if not file.records:
        raise InputError(f"{path}: {file.damage or 'it holds no events'}")
    damage = [f"{reason}, and what follows was left out" for reason in (expansion.damage, file.damage) if reason]
    damage += [f"{file.unreadable} records of it cannot be read and were left out"] if file.unreadable else []
    damage += [f"{left_out} values beyond its limits were left out"] if left_out else []
    steps, notes = _steps(tags)
    series, said = steps.series()
    if series is None and tags:
        shown = ", ".join(map(repr, sorted(tags)[:SHOWN_TAGS])) + (", ..." if len(tags) > SHOWN_TAGS else "")
        notes.append(f"none of its {len(tags)} scalars ({shown}) shows the time of a step")
    log = tracked_log(getattr(path, "name", str(path)), series) if tags else None
    return TensorboardRead(log, count, (*damage, *notes, *said), bool(damage))


def _steps(tags: dict[str, _Tag]) -> tuple[TrackedSteps, list[str]]:
    """The records of the tag that times steps, else of the longest one, whose times of writing tell the steps."""
    training = {name: tag for name, tag in tags.items() if not _of_other_work(name)}
    timed = {name: tag for name, tag in training.items() if _times(name)}
    found = TrackedSteps(GRAMMAR)
    longest = max((len(tag.steps) for tag in training.values()), default=0)
    chosen = max(timed, key=lambda name: len(timed[name].steps), default="")
    notes: list[str] = []
    if not chosen or len(timed[chosen].steps) < LEAST_SHARE * longest:
        if _only_epochs(tags):
            return found, ["its scalars are of epochs"]
        chosen = max(training, key=lambda name: len(training[name].steps), default="")
    if not chosen:
        return found, notes
    tag = training[chosen]
    counted = "" if chosen in timed else ", as the training counts them: where it writes once an epoch, they are epochs"
    notes.append(f"its steps are those of the scalar {chosen!r}{counted}")
    for step, wall_s, value, record in zip(tag.steps, tag.walls_s, tag.values, tag.records, strict=True):
        own = {chosen: value} if chosen in timed else {}
        found.add(record, {STEP: step, CLOCK: wall_s, **own})
    return found, notes


def _only_epochs(tags: dict[str, _Tag]) -> bool:
    """Whether there are scalars of epochs, and nothing shows that the other ones are written more often."""
    epochs = [
        len(tag.steps) for name, tag in tags.items() if OTHER_STEPS.match(field_name(name)) and "epoch" in name.lower()
    ]
    if not epochs or any(_counts_epochs(name, tag) for name, tag in tags.items()):
        return False
    by_step = max((len(tag.steps) for name, tag in tags.items() if BY_STEP.match(name)), default=0)
    return by_step < STEPS_OF_EPOCH * max(epochs)


def _counts_epochs(name: str, tag: _Tag) -> bool:
    """Whether the tag is the number of the epoch that each step is in, as HF Trainer and Lightning write it: steps
    that advance by several for one epoch are no epochs."""
    if not EPOCH_NUMBER.match(field_name(name)) or len(tag.steps) < LEAST_EPOCH_VALUES:
        return False
    steps, epochs = tag.steps[-1] - tag.steps[0], tag.values[-1] - tag.values[0]
    return steps > 0 and 0 <= epochs * STEPS_OF_EPOCH <= steps


def _of_other_work(name: str) -> bool:
    return bool(OTHER_STEPS.match(name) or OTHER_RECORD.match(field_name(name)))


def _times(name: str) -> bool:
    """Whether values of that name are times or rates of steps."""
    probe = of_mapping({STEP: 1, name: 0.5}, GRAMMAR)
    return name == OF_INTERVAL or (probe is not None and (probe.wall_ms is not None or probe.bare_time is not None))
