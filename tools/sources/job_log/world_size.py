"""How many ranks the job has, as a line of its output states it."""

from __future__ import annotations

import re
from dataclasses import dataclass

# "dist_world_size=16" (DeepSpeed), "world_size: 8", "WORLD_SIZE=8"; "GLOBAL_RANK: 3, MEMBER: 4/8" and "Starting with 8
# processes" (Lightning), "Num processes: 8" (Accelerate), "World size: 6" (Detectron2), "training on 8 devices
# (GPUs/TPUs)" and, in 2018, "training on 8 GPUs" (fairseq: of all its processes).
STATED = re.compile(
    r"(?<![A-Za-z_])(?:dist_)?(?:world_size|WORLD_SIZE)['\"]?\s{0,9}[:=(]?\s{0,9}['\"]?(\d{1,7})(?![\d.])"
    r"|GLOBAL_RANK: \d{1,7}, MEMBER: \d{1,7}/(\d{1,7})\b|distributed processes registered\. Starting with (\d{1,7}) "
    r"|\bNum processes: (\d{1,7})\b|\bWorld size: (\d{1,7})\b|\btraining on (\d{1,7}) (?:devices \(GPUs/TPUs\)|GPUs\b)"
)
MARKS = ("world_size", "WORLD_SIZE", "World size", "MEMBER", "processes", "training on ")
# Of argparse: a job that says that it is distributed has a process for each of its devices.
ARGUMENTS = re.compile(r"\bNamespace\((?=.*?\bdistributed=True\b)(?=.*?\b(?:num_gpus|n_gpus|ngpus)=(\d{1,5})(?=[,)]))")
# OpenMMLab: "Distributed training: False", and behind it of later versions "GPU number: 8", the ranks.
DISTRIBUTED = re.compile(r"\bdistributed training: (True|False)\b", re.I)
DEVICES = re.compile(r"\A\s{0,20}GPU number: (\d{1,7})\s*\Z")
# A command that starts processes on each node; of several nodes only where their number is stated too.
PER_NODE = re.compile(r"--nproc[_-]per[_-]node[ =](\d{1,5})(?!\S)")
NODES = re.compile(r"--nnodes?[ =](\S{1,40})")
# What a job prints of its own program: defaults of arguments are no values.
PROGRAM = re.compile(
    r"\bdef \w+\(|\blambda\b|\bself\.\w|\breturn\b|\bassert\b|\bos\.(?:environ|getenv)|\badd_argument\(|==|\)\s?:\s*\Z"
    r"|\b(?:dist|distributed)\.\w+\(|\A\s*(?:#|//)"
)


@dataclass
class WorldSize:
    """Reads it from line to line."""

    _distributed: int = -1  # the line that says that the training is distributed

    def take(self, line: int, text: str) -> str:
        """The number that the line states; empty where it states none."""
        found = self._stated(line, text)
        return "" if found and PROGRAM.search(text) else found

    def _stated(self, line: int, text: str) -> str:
        if "istributed training: " in text and (distributed := DISTRIBUTED.search(text)):
            self._distributed = line if distributed[1] == "True" else -1
            return "1" if distributed[1] == "False" else ""
        if "GPU number: " in text and (devices := DEVICES.match(text)):
            return devices[1] if line - self._distributed == 1 else ""
        if "per" in text and "--nproc" in text and (each := PER_NODE.search(text)):
            nodes = NODES.search(text)
            count = "1" if nodes is None else nodes[1]
            return str(int(each[1]) * int(count)) if count.isdecimal() else ""
        if any(mark in text for mark in MARKS) and (found := STATED.search(text)):
            return next(each for each in found.groups() if each)
        if "distributed=True" in text and (arguments := ARGUMENTS.search(text)):
            return arguments[1]
        return ""
