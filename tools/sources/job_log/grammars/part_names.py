"""Names of parts of a step, and of other work, in front of a time in a line of text: such a time is not the step's."""

from __future__ import annotations

import re

PART = "|".join(
    (
        r"(?:data|loader|input|augment)(?:[_ -]?(?:load(?:er|ing)?|wait|prep\w{0,10}))?|dataloader|dataset",
        r"batch[_ -](?:load\w{0,5}|gen\w{0,10})|load|loading|(?:pre)?fetch(?:ing)?|pre-?process(?:ing)?",
        r"tokeni[sz]\w{0,8}|decod(?:e|ing)|collat(?:e|ing|ion)|forward|fwd|fw|backwards?|bwd|bw|backprop",
        r"optim|optimi[sz]er|opt|clip|clipping|grad(?:ient)?s?|zero_grad|comms?|communication|nccl|all[_-]?reduce",
        r"all[_-]?gather|reduce[_-]?scatter|all[_-]?to[_-]?all|sync|synchroni[sz]e|barrier|wait|waiting|idle|h2d|d2h",
        r"copy|transfer|host|cpu|io|read|write|save|saving|checkpoint|ckpt|eval|evaluation|val|valid|validation|test",
        r"log|logging|compile|warm-?up|kernel|rollout|generate|generation|reward|eta|remaining|left",
    )
)
OF_PART = re.compile(rf"(?<![A-Za-z])(?:{PART})(?:[_ -](?:step|pass|call|time|took))?['\"]?[\s:=_(/-]{{0,3}}\Z", re.I)
PART_CHARS = 40  # the longest name of a part and what follows it


def of_part(text: str, found: re.Match[str]) -> bool:
    """Whether the name of a part of a step, or of other work, stands right before."""
    return OF_PART.search(text, max(0, found.start() - PART_CHARS), found.start()) is not None
