"""Step lines of training libraries that state parts of a step or figures of a whole epoch.

Each grammar stands with what its times are of: one step, the mean since the line before, or since the epoch began.
"""

from __future__ import annotations

import re

from tools.sources.job_log.grammars.generic_lines import STEP, generic_line
from tools.sources.job_log.grammars.step_figures import UNNUMBERED, Average, StepLine, steps_behind
from tools.sources.job_log.numbers import NUMBER, in_ms, number

SECONDS = r"\s?(?:s(?:ec(?:onds?)?)?\b)?"
EPOCH_AND_STEP = re.compile(r"\bEpoch\s?(?:\(train\))?\s*\[(\d{1,9})\]\s?\[\s*(\d{1,15})/")
ITERATION = re.compile(r"\biter: (\d{1,15})|\bIter(?:\(train\))?\s*\[\s*(\d{1,15})/")
TIME = re.compile(rf"\b(?:iter_)?time: ({NUMBER}){SECONDS},?\s")
DATA_TIME = re.compile(rf"\bdata_time: ({NUMBER}){SECONDS}")
EVALUATES = re.compile(r"\((?:val|test)\)")
DIGITS_MS = 0.05  # half of the last digit that MMEngine and Detectron2 print of a time
AVERAGES: dict[str, Average] = {"MMEngine": "window", "Detectron2": "job"}


def parts(text: str) -> StepLine | None:
    """Detectron2 ``iter: 19  total_loss: 1.2  time: 0.2134  data_time: 0.01``, MMCV ``Epoch [1][50/100] time: ...``,
    MMEngine ``Epoch(train)  [1][  50/1051] ... time: 8.9  data_time: 7.4`` and YOLOX ``iter: 270/983 ... iter_time:
    0.589s, data_time: 0.002s``: seconds, means over the last iterations. Those of MMEngine are of up to a number of
    iterations that it does not print, and so overlap where lines are closer to each other than that; ``time`` of
    Detectron2 is of all iterations since the start, but of the last ones where ``last_time`` stands next to it, as its
    ``data_time`` always is."""
    time, epoch, step = TIME.search(text), EPOCH_AND_STEP.search(text), ITERATION.search(text)
    place = epoch or step
    if time is None or place is None or EVALUATES.search(text):
        return generic_line(text)
    counted = 2 if epoch or place[1] is None else 1
    data = DATA_TIME.search(text)
    library = "YOLOX" if "iter_time" in text else "MMEngine" if "(train)" in text else "MMCV"
    library = "Detectron2" if library == "MMCV" and step and step[1] else library
    average = "window" if "last_time: " in text else AVERAGES.get(library, "")
    return StepLine(
        library,
        int(place[counted]),
        in_ms(time[1], "s"),
        of="mean",
        epoch=int(epoch[1]) if epoch else _epoch(text),
        of_epoch=steps_behind(place, counted),
        data_wait_ms=_seconds(data[1]) if data else None,
        average=average,
        rounding_ms=DIGITS_MS,
    )


PADDLE_EPOCH = re.compile(r"\b[Ee]poch\s?[:=]?\s?\[?\s{0,4}(\d{1,9})")
PADDLE_STEP = re.compile(
    r"(?:\bbatch_id|\b[Ii]ter|\btrain step|\bglobal[ _]step|\bstep|\bbatch)\s?[:=\[]?\s?\[?\s?(\d{1,15})"
)
PADDLE_PAIR = re.compile(r"Epoch: \[\d{1,9}\] \[\s*(\d{1,15})/")  # PaddleDetection
BATCH_COST = re.compile(rf"\b(avg_)?batch_cost(?:: |=)({NUMBER})")
READER_COST = re.compile(rf"\b(?:avg_)?(?:reader|data)_cost(?:: |=)({NUMBER})")
IPS = re.compile(rf"\bips(?:: |=)({NUMBER})")
AVERAGE_SAMPLES = re.compile(rf"\bavg_samples: ({NUMBER})")
OF_EPOCH = re.compile(r"\btrain step:|\[Train\]\[Epoch|\[Epoch \d")  # PaddleClas: means since the epoch began
OF_LAST = re.compile(r"\] train step:\d")  # PaddleVideo: of the last batch
OF_WINDOW = re.compile(
    r"(?<!\], )\biter: \d{1,15}, lr: "
)  # PaddleDetection before 2.0: over the last ``log_smooth_window``
PADDLE_DIGITS_MS = 0.005


PADDLE = "PaddlePaddle"


def paddle(text: str) -> StepLine | None:
    """PaddleOCR, PaddleRec, PaddleSeg, PaddleDetection, PaddleNLP: ``... reader_cost: 5.3 s, batch_cost: 5.9 s, ...
    ips: 16.0``, with ``avg_`` before them or not: means over the batches since the line before. PaddleClas prints means
    since the epoch began, PaddleVideo the time of the last batch, PaddleDetection before 2.0 means over a window
    of its settings."""
    cost = BATCH_COST.search(text)
    step = PADDLE_PAIR.search(text) or PADDLE_STEP.search(text)
    if cost is None or step is None or EVAL.search(text):
        return None
    epoch, reader, speed = PADDLE_EPOCH.search(text), READER_COST.search(text), IPS.search(text)
    samples, at = AVERAGE_SAMPLES.search(text), int(step[1])
    # At batch 0 PaddleRec divides the cost of one batch by the number of batches between two lines.
    of_last = OF_LAST.search(text) is not None
    since_epoch = not of_last and OF_EPOCH.search(text) is not None
    first_of_interval = cost[1] is not None and at == 0
    return StepLine(
        "PaddleClas" if since_epoch else PADDLE,
        at,
        None if first_of_interval else in_ms(cost[2], "s"),
        of="step" if of_last else "window" if OF_WINDOW.search(text) else "mean",
        epoch=int(epoch[1]) if epoch else None,
        of_epoch=steps_behind(step),
        data_wait_ms=None if first_of_interval or reader is None else _seconds(reader[1]),
        samples=number(samples[1]) if samples and not first_of_interval else None,
        samples_per_s=number(speed[1]) if speed and not first_of_interval else None,
        average="epoch" if since_epoch else "",
        rounding_ms=PADDLE_DIGITS_MS,
    )


EVAL = re.compile(r"\b(?:val|(?:eval|valid|test|infer)\w*)\b", re.I)
MAXTEXT = re.compile(
    rf"\bcompleted step: (\d{{1,15}}), seconds: ({NUMBER})(?:, TFLOP/s(?:/device)?: ({NUMBER}))?"
    rf"(?:, Tokens/s/device: ({NUMBER}))?"
)


def maxtext(text: str) -> StepLine | None:
    """MaxText: ``completed step: 37, seconds: 0.428, TFLOP/s/device: 240.373, Tokens/s/device: 9580.301, ...``: of that
    step, FLOP/s and tokens of one device."""
    found = MAXTEXT.search(text)
    if found is None:
        return None
    tflops, tokens = (number(each) if each else None for each in found.group(3, 4))
    return StepLine("MaxText", int(found[1]), in_ms(found[2], "s"), tflops=tflops, tokens_per_s=tokens)


MINDSPORE = re.compile(
    rf"\bepoch time: ({NUMBER}) (ms|s), per step time: ({NUMBER}) ms(?: \(data time: ({NUMBER}) ms)?"
)


def mindspore(text: str) -> StepLine | None:
    """MindSpore's TimeMonitor: ``epoch time: 4547.359 ms, per step time: 909.472 ms``, at the end of each epoch; the
    one is the time of all its steps, so that their number is known."""
    found = MINDSPORE.search(text)
    if found is None or "Eval" in text[: found.start()]:
        return None
    whole, step = in_ms(found[1], found[2]), in_ms(found[3], "ms")
    if whole is None or step is None or round(whole / step) < 1:
        return None
    data = number(found[4]) if found[4] else None
    return StepLine("MindSpore epochs", UNNUMBERED, step, of="epoch", steps=round(whole / step), data_wait_ms=data)


NIFTYNET = re.compile(rf"\b(?:Training|training) iter (\d{{1,15}}), .{{0,400}}\(({NUMBER})s\)\s*\Z")


def niftynet(text: str) -> StepLine | None:
    """NiftyNet: ``Training iter 3150, loss=0.405 (107.969888s)``, of that iteration."""
    found = NIFTYNET.search(text)
    return StepLine("NiftyNet", int(found[1]), in_ms(found[2], "s")) if found else generic_line(text)


PYTHIA = re.compile(rf"\biter: (\d{{1,15}}) .{{0,600}}\btime\(s\): ({NUMBER}) s")
MMF = re.compile(rf"\bnum_updates: (\d{{1,15}}), .{{0,600}}\bups: ({NUMBER})")


def mmf(text: str) -> StepLine | None:
    """Pythia: ``iter: 200 train_loss: 3.2 ... time(s): 268.5 s``, the time of all iterations since the line before; its
    successor MMF prints ``num_updates: 200, ... ups: 0.45``, updates per second since then."""
    if found := PYTHIA.search(text):
        return StepLine("Pythia", int(found[1]), in_ms(found[2], "s"), of="block", of_all=True)
    if (found := MMF.search(text)) and (speed := number(found[2])):
        return StepLine("MMF", int(found[1]), 1e3 / speed if speed > 0 else None, of="mean")
    return generic_line(text)


ESTIMATOR = re.compile(rf"\bstep = (\d{{1,15}})(?:, .{{0,200}})? \(({NUMBER}) sec\)\s*\Z")
TIME_HISTORY = re.compile(
    rf"TimeHistory: ({NUMBER}) seconds, ({NUMBER}) examples/second between steps (\d{{1,15}}) and (\d{{1,15}})"
)


def tensorflow(text: str) -> StepLine | None:
    """TensorFlow's Estimator: ``loss = 0.51, step = 200 (8.130 sec)``, the time of all steps since the line before; the
    official models: ``TimeHistory: 24.0 seconds, 2132.5 examples/second between steps 100 and 200``."""
    if found := TIME_HISTORY.search(text):
        count, whole = int(found[4]) - int(found[3]), in_ms(found[1], "s")
        if count <= 0 or whole is None:
            return None
        rate = number(found[2])
        return StepLine("TensorFlow models", int(found[4]), whole / count, of="block", samples_per_s=rate)
    if found := ESTIMATOR.search(text):
        return StepLine("TensorFlow Estimator", int(found[1]), in_ms(found[2], "s"), of="block", of_all=True)
    return generic_line(text)


COUNTED = re.compile(r"\[Train (\d{1,15})/(\d{1,15})\]")


def counted(text: str) -> StepLine | None:
    """``I1216 14:25:47.224024 ... train.py:577] [Train 290/1882] {'train_loss': 0.7}``: the step, and no time. A
    line that names a step by the word is read by it."""
    found = COUNTED.search(text)
    if found is None or STEP.search(text):
        return generic_line(text)
    return StepLine("counted lines", int(found[1]))


MXNET = re.compile(
    rf"\b(?:Epoch|Iter)\s?\[(\d{{1,9}})\] ?Batch ?\[(?:\d{{1,15}}-)?(\d{{1,15}})\]\s*Speed: ({NUMBER}) samples/s"
)


def mxnet(text: str) -> StepLine | None:
    """MXNet's Speedometer: ``Epoch[0] Batch [20]  Speed: 1020.31 samples/sec``, over the batches since the line before;
    it does not state how many samples a batch holds."""
    found = MXNET.search(text)
    if found is None:
        return generic_line(text)
    return StepLine("MXNet", int(found[2]), of="mean", epoch=int(found[1]), samples_per_s=number(found[3]))


KNOVER = re.compile(
    rf"\[train\]\[\d{{1,9}}\] progress: \d{{1,15}}/\d{{1,15}} step: (\d{{1,15}}), time: ({NUMBER}),"
    rf"(?: queue size: \d{{1,15}},)? speed: ({NUMBER}) steps/s"
)


def knover(text: str) -> StepLine | None:
    """Knover: ``[train][1] progress: 1/1 step: 100, time: 6.095, queue size: 8, speed: 16.406 steps/s``: the seconds
    of so many steps as the speed states, without evaluations (scripts/train.py: its timer pauses)."""
    found = KNOVER.search(text)
    whole_ms, speed = (in_ms(found[2], "s"), number(found[3])) if found else (None, None)
    if found is None or whole_ms is None or speed is None:
        return generic_line(text)
    count = max(round(whole_ms / 1e3 * speed), 1)
    return StepLine("Knover", int(found[1]), whole_ms / count, of="mean")


PIPELINE = re.compile(
    rf"\bsteps: (\d{{1,15}}) loss: .{{0,60}}\biter time \(s\): ({NUMBER})(?: samples/sec: ({NUMBER}))?"
)


def deepspeed_pipeline(text: str) -> StepLine | None:
    """DeepSpeed's pipeline engine: ``steps: 10 loss: 2.3 iter time (s): 1.23 samples/sec: 13.0``, means since the line
    before."""
    found = PIPELINE.search(text)
    if found is None:
        return generic_line(text)
    rate = number(found[3]) if found[3] else None
    return StepLine("DeepSpeed pipeline", int(found[1]), in_ms(found[2], "s"), of="mean", samples_per_s=rate)


def _epoch(text: str) -> int | None:
    found = YOLOX_EPOCH.search(text)
    return int(found[1]) if found else None


YOLOX_EPOCH = re.compile(r"\bepoch: (\d{1,9})/\d")


def _seconds(text: str) -> float | None:
    """A time of at least zero in ms: that of a batch that is ready is printed as 0."""
    value = number(text)
    return value * 1e3 if value is not None and value >= 0 else None


MINDCV = re.compile(
    r"\bEpoch: \[(\d{1,9})/\d{1,9}\], batch: \[(\d{1,15})/(\d{1,15})\], "
    rf".{{0,300}}?\btime: ({NUMBER})s(?=,|\s|\Z)"
)


def mindcv(text: str) -> StepLine | None:
    """MindCV (utils/callbacks.py: on_train_step_end): ``Epoch: [2/120], batch: [2502/2502], loss: 5.0, lr: 0.04, time:
    581.8s``: of all batches since the line before, or since the epoch began."""
    found = MINDCV.search(text)
    if found is None:
        return generic_line(text)
    return StepLine(
        "MindCV",
        int(found[2]),
        in_ms(found[4], "s"),
        of="mean",
        epoch=int(found[1]),
        of_epoch=int(found[3]),
        of_all=True,
    )
