"""The workloads by name. Needs torch."""

from __future__ import annotations

from evals.lab.scenarios import Training
from evals.lab.workloads.experts import Experts
from evals.lab.workloads.images import Images
from evals.lab.workloads.sounds import Sounds
from evals.lab.workloads.stages import Stages
from evals.lab.workloads.tokens import Tokens
from evals.lab.workloads.workload import Workload


def workload(training: Training) -> Workload:
    """The workload that the script is told to train."""
    match training.workload:
        case "images":
            return Images(training)
        case "tokens":
            return Tokens(training)
        case "sounds":
            return Sounds(training)
        case "experts":
            return Experts(training)
        case "stages":
            return Stages(training)
