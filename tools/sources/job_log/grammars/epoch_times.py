"""Lines that state the time of a whole epoch and not how many steps it has."""

from __future__ import annotations

import re

from tools.run.recorded.job_log import EpochTime
from tools.sources.job_log.grammars.generic_lines import OTHER_WORK
from tools.sources.job_log.grammars.keras_lines import WITHOUT_RATE, epoch_of_bar
from tools.sources.job_log.numbers import NUMBER, UNIT, clock_s, in_ms

# "epoch_Time" of minimind is an estimate of what is left, and is not written so.
NAMED = re.compile(
    rf"\b[Ee]poch(?:\s?\[?#?(\d{{1,9}})(?:\s?/\s?\d{{1,9}})?\]?)?(?:[ _]time|\s[Tt]ime| took| finished in| duration)"
    rf"(?: taken| took| is)?\s?\(?({UNIT})?\)?\s?[:=]?\s?({NUMBER})\s?({UNIT})?(?![\w/:])"
)
# CycleGAN and pix2pix, which print it with saves at the end of the epoch in it.
TAKEN = re.compile(rf"\b[Ee]poch (\d{{1,9}})(?: ?/ ?\d{{1,9}})?\s{{1,9}}Time Taken: ({NUMBER}) ({UNIT})\b")
# TensorFlow's tutorials: "Time taken for 1 epoch: 29.04 secs".
FOR_EPOCH = re.compile(
    rf"\b[Tt]ime taken for (?:1|one|an|the|this) epoch ?(\d{{1,9}})?\s?[:=]?\s?"
    rf"({NUMBER}) ?({UNIT})(?![\w/:])"
)
# PaddleVideo: the sum over all batches of the epoch.
SUMMED = re.compile(rf"\bEND epoch:(\d{{1,9}})\s{{1,9}}train\b.{{0,999}}?\bbatch_cost_sum: ({NUMBER}) (sec)\b")
# DETR's MetricLogger (torchvision, DINO, MAE): "Epoch: [0/100] Total time: 0:13:11 (0.5 s / it)".
TOTAL = re.compile(
    r"\bEpoch: \[(\d{1,9})(?:/(\d{1,9}))?\] Total time: ((?:\d{1,4} days?, )?\d{1,4}:\d\d:\d\d)"
    rf" \({NUMBER} s / it\)"
)
NOT_OF_TRAINING = re.compile(
    r"\b(?:avg|average|mean|total|eta|estimated|remaining|valid\w*|val|eval\w*|test\w*)\b", re.I
)
# What may stand right before: no other word, so that "Shuffle for epoch 3 took 12 s" is not the training of it.
BEFORE = re.compile(
    r"(?:\A\s*|[^A-Za-z\s]\s*"
    r"|\b(?:INFO|DEBUG|WARNING|(?i:end of|train(?:ing)?(?: of| for)?|finished|completed))\s+)\Z"
)
LOOKED_BEFORE = 40  # characters
ENDED = ("finished", "completed")  # of other work they end the training of an epoch too
SECONDS = re.compile(rf",?\s?(?:and )?({NUMBER})\s?(seconds?|secs?|s)\b(?!/| per)")  # behind minutes
PART = re.compile(r"\bPart (\d{1,6}),")  # DistDGL: a trainer, one of each rank
OF_EPOCH = re.compile(rf",\s([A-Za-z][\w +/-]{{0,40}}): ({NUMBER})(?=,|\s|\Z)")
WITHIN = re.compile(r"\]?\s?\(\d{1,15}/\d{1,15}\)")  # behind the number of the epoch: a time then is what is left of it
MARKS = ("poch", "] - ")


def epoch_time(text: str, line: int = 0, file: int = 0) -> EpochTime | None:
    """The time of an epoch with its number, and what it is of: ``Epoch time: 5.06 sec``, ``epoch 3 took 12 s``; ``End
    of epoch 118 / 500 \\t Time Taken: 5.06 sec`` (CycleGAN, train.py); ``Part 7, Epoch Time(s): 20.86,
    sample+data_copy: 3.07, forward: 3.58, ..`` (DistDGL, graphsage: of a rank, its parts summed over the epoch);
    ``END epoch:3 train .. batch_cost_sum: 175.1 sec`` (PaddleVideo);
    ``500/500 [=====] - 24s - loss: 0.1``, ``20/500 [>....] - ETA: 90s - loss: 0.1`` (Keras: generic_utils.Progbar: the
    time that is left is that so far per item, times the items left)."""
    if not any(mark in text for mark in MARKS):
        return None
    if shown := list(WITHOUT_RATE.finditer(text)):
        return epoch_of_bar(shown[-1], line, file)
    if summed := SUMMED.search(text):
        wall_ms = in_ms(summed[2], summed[3])
        return None if wall_ms is None else EpochTime(wall_ms, line, file, epoch=int(summed[1]))
    if total := TOTAL.search(text):
        whole_s, count = clock_s(total[3]), int(total[2]) if total[2] else None
        return EpochTime(1e3 * whole_s, line, file, epoch=int(total[1]), count=count) if whole_s else None
    if (whole := FOR_EPOCH.search(text)) and (wall_ms := in_ms(whole[2], whole[3])) is not None:
        return EpochTime(wall_ms, line, file, epoch=int(whole[1]) if whole[1] else None)
    named = TAKEN.search(text) or NAMED.search(text)
    if named is None or NOT_OF_TRAINING.search(text, 0, named.start() + 1) or WITHIN.search(text, 0, named.start()):
        return None
    if not _of_training(text, named.start()):
        return None
    number_of, before, value, behind = named.groups() if named.re is NAMED else (named[1], None, named[2], named[3])
    unit = behind or before
    wall_ms = in_ms(value, unit) if unit else None
    if unit is None or wall_ms is None:
        return None
    if unit.startswith("min") and (rest := SECONDS.match(text, named.end())):
        wall_ms += in_ms(rest[1], rest[2]) or 0.0
    rank = PART.search(text, 0, named.start() + 1)
    listed = OF_EPOCH.findall(text, named.end()) if rank else ()
    parts = tuple((name, ms) for name, figure in listed if (ms := in_ms(figure, unit)) is not None)
    return EpochTime(
        wall_ms,
        line,
        file,
        epoch=int(number_of) if number_of else None,
        rank=int(rank[1]) if rank else None,
        parts=parts,
    )


def _of_training(text: str, start: int) -> bool:
    """Whether nothing before the word shows that the time is of other work at the epoch, such as saving."""
    other = (found[0].lower() for found in OTHER_WORK.finditer(text, 0, start))
    before = text[max(start - LOOKED_BEFORE, 0) : start]
    return all(word in ENDED for word in other) and BEFORE.search(before) is not None
