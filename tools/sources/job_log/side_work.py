"""Lines that say that the job saves its state or evaluates the model, with the step that they name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tools.sources.job_log.grammars.generic_lines import STEP
from tools.sources.job_log.numbers import NUMBER, UNIT

LONGEST = 1024  # characters of such a line
SAVE = re.compile(r"\bsav(?:e|ed|ing)\b.{0,60}\bcheckpoint|\bcheckpoint\b.{0,60}\bsav(?:ed|ing)\b", re.I)
SAVING = re.compile(r"\bsav(?:e|ed|ing)\b|(?<![a-z])(?:checkpoints?|ckpts?)(?![a-z])", re.I)
WRITING = re.compile(r"\b(?:wrote|writ(?:e|ing|ten)|dump(?:ed|ing)|stor(?:ed|ing))\b", re.I)
STATE = re.compile(r"(?<![a-z])(?:model|weights|parameters|state(?:_dict)?|optimizer|snapshot)(?![a-z])", re.I)
EVALUATION = re.compile(
    r"(?<![a-z])(?:valid(?:ation|ating|ated)?|eval(?:uation|uating|uated)?|val)(?![a-z])", re.I
)  # also as a part of a name, such as val_loss
# Settings, and what is done with a state that was saved before.
OTHER = re.compile(
    r"(?<![a-z])(?:every|interval|freq\w{0,6}|load(?:ed|ing)?|resum(?:e|ed|ing)|restor(?:e|ed|ing)|delet(?:e|ed|ing)"
    r"|remov(?:e|ed|ing)|from checkpoint|activation checkpoint)(?![a-z])",
    re.I,
)
OF_NAME = re.compile(r"(?:checkpoint|ckpt|step|iter(?:ation)?|global_step)[-_](\d{1,12})(?!\d)", re.I)
TIME = re.compile(rf"(?<![\w.]){NUMBER}\s?{UNIT}\b")


@dataclass(frozen=True)
class SideWork:
    """What a line says is done next to training, and the step that it names."""

    kind: Literal["save", "evaluation"]
    step: int | None
    words: str


# Of what is printed while the model is evaluated, without a step: "Start validation, Total sample: 250",
# "Test: [ 3/40]", "'eval_loss': 1.2"; not a setting ("eval_batch_size", "validation set: data/val.json").
EVALUATING = re.compile(
    r"(?<![A-Za-z_-])(?:valid(?:ation|ating|ated)?|eval(?:uation|uating|uated)?|val)(?![A-Za-z_/=-])"
    r"|\beval_(?:loss|runtime|acc\w{0,8}|samples_per_second)\b|\bval_(?:loss|acc\w{0,8})\b|(?:\A|\bINFO\b)\W{0,9}Test(?:ing)?\]?:\s",
    re.I,
)
OF_SETTING = re.compile(
    r"\b(?:eval|val(?:idation)?)[ _-]?(?:set|split|data\w{0,8}|batch|size|samples|steps|file|path|dir)\b"
    r"|\b(?:not|no|skip\w{0,4}|without|next|will|then|interval|every|args?|config\w{0,8})\b",
    re.I,
)


def evaluates(text: str) -> bool:
    """Whether a line between two step lines shows that the model is evaluated there, also without a step or a time."""
    return len(text) <= LONGEST and EVALUATING.search(text) is not None and OF_SETTING.search(text) is None


def side_work(text: str) -> SideWork | None:
    """None where the line says neither, or states no step or time of it (but that a checkpoint is saved needs none)."""
    if len(text) > LONGEST or OTHER.search(text):
        return None
    named = STEP.search(text) or OF_NAME.search(text)
    step = int(named[1]) if named else None
    if found := SAVE.search(text):
        return SideWork("save", step, found[0])
    timed = step is not None or TIME.search(text) is not None
    if timed and (found := SAVING.search(text) or (WRITING.search(text) if STATE.search(text) else None)):
        return SideWork("save", step, found[0])
    if step is not None and (found := EVALUATION.search(text)):
        return SideWork("evaluation", step, found[0])
    return None
