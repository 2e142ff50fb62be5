"""Allocation or recomputation costs time."""

from __future__ import annotations

from dataclasses import replace

from evals.lab.fault import Fault, Right
from evals.lab.scenarios import Program, Training, World
from evals.lab.variants import told, variants


def _recomputed(training: Training, blocks: int) -> tuple[World, World]:
    return told(training, program=Program(recomputed_blocks=blocks)), told(training)


def _handed_back(training: Training, threshold: int) -> tuple[World, World]:
    names = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
    return replace(told(training), environment=tuple((name, str(threshold)) for name in names)), told(training)


FAULTS: tuple[Fault, ...] = (
    Fault(
        id="needless_recomputation",
        cause="memory_pressure",
        mechanism="recomputation",
        ranks=(0, 1),
        injected="Activations are computed again in the backward pass although memory is ample.",
        fix="Keep them.",
        must_name=("recomput",),
        sources=("trace",),
        also_right=(Right("compute_bound", "less recomputation is its remedy too"),),
        variants=variants(
            _recomputed,
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
        id="memory_handed_back",
        cause="memory_pressure",
        mechanism="",
        ranks=(0, 1),
        injected="The allocator gives memory back to the system after each use, and each step faults its pages in "
        "again.",
        fix="Let the allocator keep memory between steps (MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_).",
        must_name=("page fault",),
        sources=("monitor",),
        variants=variants(
            _handed_back,
            {
                "images-strong": 65536,
                "images-mild": 4_000_000,
                "tokens-strong": 65536,
                "tokens-mild": 1_000_000,
                "sounds-strong": 65536,
                "sounds-mild": 2_000_000,
            },
        ),
    ),
)
