"""What the timers of a job's output are of, by the names that programs give them."""

from __future__ import annotations

import re

# "backward-params-all-reduce", "forward-send-backward-recv", "grads_sync"; not "commit", "update".
COMMUNICATION = re.compile(
    r"(?<![a-z])(?:all[-_ ]?reduce|all[-_ ]?gather|reduce[-_ ]?scatter|all[-_ ]?to[-_ ]?all|a2a|broadcast|send|recv|p2p"
    r"|comm(?:s|unication)?|collectives?|grad\w*[-_ ]sync\w*|sync\w*[-_ ]grad\w*)(?![a-z])",
    re.IGNORECASE,
)
# "batch-generator", "data_time", "dataloader", "train/load-batch"; a timer "batch" may be of all that is done with one.
BATCHES = re.compile(
    r"(?:.*[/.])?(?:batch[-_ ]?generator|(?:get|load)[-_ ]?(?:data|batch)"
    r"|data(?:[-_ ]?(?:time|load(?:er|ing)?|fetch(?:ing)?|iterator))?)",
    re.IGNORECASE,
)


def communicates(name: str) -> bool:
    """Whether a timer of this name is of communication between ranks, the wait for them included."""
    return COMMUNICATION.search(name) is not None


def fetches_batches(name: str) -> bool:
    """Whether a timer of this name is of getting a batch of data."""
    return BATCHES.fullmatch(name) is not None
