"""Work that could be done at the same time is done in turn."""

from __future__ import annotations

from dataclasses import replace

from evals.lab.environment_faults.network import LinkedHosts
from evals.lab.fault import Fault, Right
from evals.lab.scenarios import Parallel, Training, World
from evals.lab.variants import told, variants


def _in_turn(training: Training, rate_mbit: float) -> tuple[World, World]:
    around = (LinkedHosts(rate_mbit),)
    slow = replace(told(training, parallel=Parallel(overlapped=False)), surroundings=around)
    return slow, replace(told(training, parallel=Parallel(bucket_mb=0.4)), surroundings=around)


def _few_pieces(training: Training, micro_batches: int) -> tuple[World, World]:
    usual = Parallel(schedule="gpipe")
    return told(training, parallel=replace(usual, micro_batches=micro_batches)), told(training, parallel=usual)


def _heavy_stage(training: Training, first_blocks: int) -> tuple[World, World]:
    return told(training, parallel=Parallel(first_stage_blocks=first_blocks)), told(training)


FAULTS: tuple[Fault, ...] = (
    Fault(
        id="no_overlap",
        cause="poor_overlap",
        mechanism="",
        ranks=(0, 1),
        injected="All gradients travel in one message after the backward pass, over a link of limited bandwidth.",
        fix="DistributedDataParallel: gradients travel in buckets while the backward pass goes on.",
        must_name=("overlap",),
        sources=("trace",),
        also_right=(Right("slow_link", "a faster link would hide it as well"),),
        # The link stays narrow: the gradients take up to half of the work beside them, and their last bucket is seen.
        fixed_verdict="unlabelled",
        not_causes=("straggler", "small_packet"),
        variants=variants(
            _in_turn,
            {
                "images-strong": 500.0,
                "images-mild": 1000.0,
                "tokens-strong": 700.0,
                "tokens-mild": 1500.0,
                "sounds-strong": 500.0,
                "sounds-mild": 900.0,
            },
        ),
    ),
    Fault(
        id="few_micro_batches",
        cause="pipeline_bubble",
        mechanism="",
        ranks=(0, 1),
        injected="The pipeline gets its batch in one or two pieces, so each stage waits for the other.",
        fix="Eight micro-batches of the same batch.",
        must_name=("micro-batch",),
        sources=("trace",),
        # Two stages and eight pieces leave a ninth of the pipeline's time empty, and GPipe keeps more than 1F1B does.
        fixed_verdict="unlabelled",
        variants=variants(
            _few_pieces,
            {
                "stages-strong": 1,
                "stages-mild": 2,
                "stages_wide-strong": 1,
                "stages_wide-mild": 2,
                "stages_narrow-strong": 1,
                "stages_narrow-mild": 2,
            },
        ),
    ),
    Fault(
        id="heavy_stage",
        cause="pipeline_imbalance",
        mechanism="",
        ranks=(1,),
        injected="The second stage holds most of the blocks and the scores.",
        fix="The same number of blocks on both stages.",
        must_name=("stage",),
        sources=("trace",),
        also_right=(Right("straggler", "the heavy stage is the one that the other waits for"),),
        variants=variants(
            _heavy_stage,
            {
                "stages-strong": 1,
                "stages-mild": 2,
                "stages_wide-strong": 1,
                "stages_wide-mild": 2,
                "stages_narrow-strong": 1,
                "stages_narrow-mild": 2,
            },
        ),
    ),
)
