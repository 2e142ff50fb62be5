"""Step lines with meters, a last value and a mean: ``Time 0.512 (1.204)``, ``Data (t): 0.06 Batch (t): 0.45``.

What their values and means are of is judged over all lines: ``meter_means``.
"""

from __future__ import annotations

import re

from tools.sources.job_log.grammars.generic_lines import OTHER_WORK, generic_line
from tools.sources.job_log.grammars.step_figures import METRIC_LOGGER, Meter, StepLine, steps_behind
from tools.sources.job_log.numbers import NUMBER, UNIT, in_ms, number

PLACE = re.compile(
    r"\b(?:Epoch|EPOCH|Train|TRAIN)(?:ing)?(?: Epoch)?:? ?\[? ?(\d{1,9})(?:/\d{1,9})?\]?:?,?\s{0,3}"
    r"\[ ?\s{0,9}(\d{1,15})(?: ?/ ?\d{1,15}|\](?=\s{1,9}Time ))"
)
METER = re.compile(
    rf"(?<![A-Za-z])([A-Za-z][A-Za-z_@\d]{{0,30}})\s?[:=]?\s{{0,9}}({NUMBER})s?,?\s{{0,9}}"
    rf"(?:[\d.,]{{1,12}}/s\s{{0,9}})?\(\s{{0,9}}({NUMBER})s?(?:, {{0,9}}[\d.,]{{1,12}}/s)?\)"
)
TIMES = ("time", "batch_time", "batchtime", "batch", "bt")
DATAS = ("data", "data_time", "datatime", "dt")
MILLISECOND = 1e-3  # of a second: half of the last of three digits is half of it


def imagenet(text: str) -> StepLine | None:
    """PyTorch's ImageNet example: ``Epoch: [0][  10/5005]  Time  0.512 (  1.20)  Data  0.01 ( 0.30)``, and what was
    made of it: ``Train: [0/300][10/1251]  eta .. time 0.41 (0.62)`` of Swin, ``Epoch: [0][50]  Time ..`` of SwAV,
    ``Train: 0 [  50/1251 (  4%)] .. Time: 0.5s, 250.1/s  (0.6s, 210.0/s)  Data: 0.01 (0.05)`` of timm. Seconds; of the
    last batch, and in parentheses a mean of all batches of the epoch so far, or of the printed ones alone."""
    place = PLACE.search(text)
    if place is None:
        return generic_line(text)
    if "DataLoadingTime" in text and (torch7 := TORCH7.search(text, place.end())):
        return _torch7(place, torch7)
    found = {name.lower(): (value, mean) for name, value, mean in METER.findall(text, place.end())}
    time = next((found[name] for name in TIMES if name in found), None)
    if time is None:
        return metric_logger(text)
    data = next((found[name] for name in DATAS if name in found), None)
    other = next((each for name, each in found.items() if each is not time and name not in DATAS), None)
    waits = None if data is None else _meter(data)
    wall_ms = in_ms(time[0], "s")
    return StepLine(
        "ImageNet example",
        int(place[2]),
        wall_ms,
        epoch=int(place[1]),
        of_epoch=steps_behind(place, 2),
        data_wait_ms=None if waits is None else 1e3 * waits[0],
        meters=(_meter(time), waits, None if other is None else _meter(other)),
        rounding_ms=_rounding_ms(time[1]),
    )


TORCH7 = re.compile(rf"\bTime ({NUMBER})\s.{{0,200}}\bDataLoadingTime ({NUMBER})(?=\s|\Z)")


def _torch7(place: re.Match[str], found: re.Match[str]) -> StepLine | None:
    """imagenet-multiGPU.torch: ``Epoch: [1][2/10000] Time 1.972 Err 8.5 .. DataLoadingTime 0.043``: seconds that the
    batch was computed in, and the wait for it before."""
    computed, waited = number(found[1]), number(found[2])
    if computed is None or waited is None:
        return None
    return StepLine(
        "Torch7 ImageNet example",
        int(place[2]),
        1e3 * (computed + waited),
        epoch=int(place[1]),
        of_epoch=steps_behind(place, 2),
        data_wait_ms=1e3 * waited,
    )


def _meter(texts: tuple[str, str]) -> Meter | None:
    value, mean = (number(each) for each in texts)
    return None if value is None or mean is None or min(value, mean) < 0 else (value, mean)


def _rounding_ms(text: str) -> float:
    """Half of the last digit of a time in seconds."""
    return 500.0 / 10.0 ** len(text.partition(".")[2])


ITERATION = re.compile(r"\biter: (\d{1,15})\b")
LOGGED = re.compile(
    rf"\btime: ({NUMBER})(?: \(({NUMBER})\))?\s{{1,9}}data(?:_time)?: ({NUMBER})(?: \(({NUMBER})\))?(?=\s|\Z)"
)


# Of torchvision's references: the batch over the time of this step alone, which they print as the last value.
LAST_RATE = re.compile(rf"\s(img|clips)/s: ({NUMBER})(?=\s)")


def metric_logger(text: str) -> StepLine | None:
    """Lines of MetricLogger in seconds: ``Epoch: [0]  [  20/1251]  eta: 0:10:20 .. time: 0.5088  data: 0.0164`` of
    torchvision, DETR and MAE, means over the last 20 iterations; ``iter: 1120 .. time: 0.5088 (0.4600)  data: 0.0164
    (0.0177)`` of maskrcnn-benchmark, the median of the last ones and the mean since the start."""
    times, place, step = LOGGED.search(text), PLACE.search(text), ITERATION.search(text)
    if times is None and place is not None and (clock := CLOCK.match(text, place.end())):
        return _clocked(text, place, clock)
    if times is None or (place is None and step is None):
        return generic_line(text)
    at = int(step[1]) if step else int(place[2]) if place else 0
    whole = times[2] is not None and times[4] is not None
    rate = None if whole else LAST_RATE.search(text)
    data = number(times[4] if whole else times[3])
    return StepLine(
        METRIC_LOGGER,
        at,
        in_ms(times[2] if whole else times[1], "s"),
        of="running" if whole else "window",
        epoch=int(place[1]) if place and not step else None,
        of_epoch=steps_behind(place, 2) if place and not step else None,
        data_wait_ms=None if data is None or data < 0 else 1e3 * data,
        samples_per_s=number(rate[2]) if rate else None,
        unit=f"{rate[1]}/s" if rate else "",
        average="start" if whole else "",
        rounding_ms=_rounding_ms(times[2]) if whole else 0.0,
    )


CLOCK = re.compile(rf"\]?,?\s{{0,3}}time: ({NUMBER})(?:\s?({UNIT}))?(?=,|\s|\Z)")
COUNTER = re.compile(r"\A\W{0,3}(\d{1,15})\s{1,3}(?=Epoch)")


def _clocked(text: str, place: re.Match[str], clock: re.Match[str]) -> StepLine | None:
    """DCGAN-tensorflow: ``[      12 Epoch:[ 0/25] [  11/ 273] time: 9.2979, d_loss: 1.9, ..``, and what was made of it:
    seconds since the start where they only rise, else a time, mostly without a unit. A line that names a step and its
    time by words is read by these."""
    named = generic_line(text)
    if OTHER_WORK.search(text) or (named is not None and named.wall_ms is not None):
        return named
    counter = COUNTER.match(text)
    return StepLine(
        "epochs with a clock",
        int(counter[1] if counter else place[2]),
        in_ms(clock[1], clock[2]) if clock[2] else None,
        of="unstated",
        epoch=None if counter else int(place[1]),
        of_epoch=None if counter else steps_behind(place, 2),
        bare_time=None if clock[2] else number(clock[1]),
        running=True,
    )


OPEN_CLIP = re.compile(
    rf"\bTrain Epoch: (\d{{1,9}}) \[\s{{0,15}}(\d{{1,15}})/\d{{1,15}} .{{0,300}}?\bData \(t\): ({NUMBER}) "
    rf"Batch \(t\): ({NUMBER})(?:, ({NUMBER})/s)?"
)


def open_clip(text: str) -> StepLine | None:
    """open_clip: ``Train Epoch: 0 [  6464/109468 (3%)] .. Data (t): 0.158 Batch (t): 0.559, 36.0/s``: means over the
    batches since the line before; what is counted are samples."""
    found = OPEN_CLIP.search(text)
    if found is None:
        return generic_line(text)
    data = number(found[3])
    return StepLine(
        "open_clip",
        int(found[2]),
        in_ms(found[4], "s"),
        of="mean",
        epoch=int(found[1]),
        of_epoch=steps_behind(found, 2),
        data_wait_ms=None if data is None or data < 0 else 1e3 * data,
        samples_per_s=number(found[5]) if found[5] else None,
        in_samples=True,
    )


POSES = re.compile(
    rf"\bEpoch (\d{{1,9}})/\d{{1,9}} itr (\d{{1,15}})/\d{{1,15}}:? .{{0,60}}?"
    rf"\bspeed: ({NUMBER})\(({NUMBER})s r({NUMBER})\)s/itr"
)


def pose_trainer(text: str) -> StepLine | None:
    """Trainers of 3D poses (I2L-MeshNet, Hand4Whole): ``Epoch 0/7 itr 78/3489: .. speed: 2.43(0.65s r1.74)s/itr``:
    means since the epoch began, of the whole, of the computation and of reading."""
    found = POSES.search(text)
    if found is None or OTHER_WORK.search(text):
        return generic_line(text)
    return StepLine(
        "pose trainer",
        int(found[2]),
        in_ms(found[3], "s"),
        of="running",
        epoch=int(found[1]),
        of_epoch=steps_behind(found, 2),
        data_wait_ms=in_ms(found[5], "s"),
        average="start",
        rounding_ms=_rounding_ms(found[3]),
    )
