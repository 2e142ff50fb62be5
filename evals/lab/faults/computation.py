"""Operators compute more than they need to, or one rank computes slower."""

from __future__ import annotations

from dataclasses import replace

from evals.lab.environment_faults.processor import PausedRank
from evals.lab.fault import Fault, Right, Symptom
from evals.lab.scenarios import Program, Training, World
from evals.lab.variants import told, variants


def _double(training: Training, blocks: int) -> tuple[World, World]:
    return told(training, program=Program(double_blocks=blocks)), told(training)


def _chained(training: Training, blocks: int) -> tuple[World, World]:
    return told(training, program=Program(chained_blocks=blocks)), told(training)


def _paused(training: Training, share: float) -> tuple[World, World]:
    return replace(told(training), surroundings=(PausedRank(rank=1, share=share, period_ms=20.0),)), told(training)


FAULTS: tuple[Fault, ...] = (
    Fault(
        id="float64_by_accident",
        cause="underutilization",
        mechanism="",
        ranks=(0, 1),
        injected="Parameters are made in float64, all of them or those of the last blocks, and promote what they meet.",
        fix="float32 throughout.",
        must_name=("float64",),
        sources=("trace", "monitor"),
        also_right=(
            Right("compute_bound", "the operators do compute twice as much as they have to"),
            Right("memory_bound", "twice the bytes"),
        ),
        same_loss=False,
        variants=variants(
            _double,
            {
                "images-strong": 99,
                "images-mild": 2,
                "tokens-strong": 99,
                "tokens-mild": 1,
                "sounds-strong": 99,
                "sounds-mild": 1,
            },
        ),
    ),
    Fault(
        id="elementwise_chain",
        cause="memory_bound",
        mechanism="",
        ranks=(0, 1),
        injected="The activation is written as a chain of element-wise operators over large tensors.",
        fix="The fused activation of the library: the same numbers in one operator.",
        must_name=("element-wise",),
        sources=("trace",),
        variants=variants(
            _chained,
            {
                "images-strong": 4,
                "images-mild": 1,
                "tokens-strong": 2,
                "tokens-mild": 1,
                "sounds-strong": 3,
                "sounds-mild": 2,
            },
        ),
    ),
    Fault(
        id="slow_rank",
        cause="slow_device",
        mechanism="",
        ranks=(1,),
        injected="Something outside the training stops rank 1's process for a part of every 20 ms, as a throttled "
        "device would.",
        fix="Give rank 1 a machine of the speed of the others.",
        must_name=("rank 1",),
        sources=("trace", "monitor"),
        also_right=(
            Right("straggler", "rank 1 is late, and the traces alone do not say why"),
            Right("cpu_contention", "its process does not run all the time"),
        ),
        symptoms=(Symptom("straggler", (0,)),),
        not_causes=("slow_link", "network_configuration", "bandwidth_contention", "rdma_retransmission"),
        variants=variants(
            _paused,
            {
                "images-strong": 0.5,
                "images-mild": 0.2,
                "tokens-strong": 0.5,
                "tokens-mild": 0.2,
                "sounds-strong": 0.5,
                "sounds-mild": 0.2,
            },
        ),
    ),
)
