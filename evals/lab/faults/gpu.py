"""Faults that need an accelerator; all of them with one rank."""

from __future__ import annotations

from dataclasses import replace

from evals.lab.fault import Fault, Right
from evals.lab.scenarios import Data, Program, Training, World
from evals.lab.variants import told, variants

GPU = ("gpu",)
WORKERS = 8  # an accelerator is not to wait for its samples
BOTH = {"images-strong": 0, "tokens-strong": 0, "sounds-strong": 0}


def _world(training: Training, **knobs: object) -> World:
    knobs = {"data": Data(workers=WORKERS), **knobs}
    return replace(told(replace(training, device="cuda"), **knobs), ranks=1)


def _pageable(training: Training, _: int) -> tuple[World, World]:
    pinned = Data(workers=WORKERS, ahead=False)
    return _world(training, data=replace(pinned, pinned=False)), _world(training, data=pinned)


def _no_prefetch(training: Training, _: int) -> tuple[World, World]:
    return _world(training, data=Data(workers=WORKERS, ahead=False)), _world(training)


def _program(slow: Program, fixed: Program | None = None) -> tuple[Program, Program]:
    return slow, fixed or Program()


def _programs(training: Training, programs: tuple[Program, Program]) -> tuple[World, World]:
    return _world(training, program=programs[0]), _world(training, program=programs[1])


def _blocking(training: Training, _: int) -> tuple[World, World]:
    return replace(_world(training), environment=(("CUDA_LAUNCH_BLOCKING", "1"),)), _world(training)


def _for_both(slow: Program, fixed: Program | None = None) -> dict[str, tuple[Program, Program]]:
    return dict.fromkeys(BOTH, _program(slow, fixed))


FAULTS: tuple[Fault, ...] = (
    Fault(
        id="pageable_copies",
        cause="slow_data_fetching",
        mechanism="pageable_copy",
        ranks=(0,),
        injected="Batches are copied to the device from pageable memory.",
        fix="pin_memory and non_blocking copies.",
        must_name=("pin",),
        sources=("trace",),
        # Nothing is copied ahead in either world, which is the fault ``no_prefetch``.
        fixed_verdict="unlabelled",
        needs=GPU,
        variants=variants(_pageable, BOTH),
    ),
    Fault(
        id="no_prefetch",
        cause="slow_data_fetching",
        mechanism="no_prefetch",
        ranks=(0,),
        injected="Each batch is copied when its step begins.",
        fix="Copy the next batch on another stream while this one is computed.",
        must_name=("copy",),
        sources=("trace",),
        needs=GPU,
        variants=variants(_no_prefetch, BOTH),
    ),
    Fault(
        id="graph_recapture",
        cause="operator_compilation",
        mechanism="graph_recapture",
        ranks=(0,),
        injected="The step is captured as a graph again in every step.",
        fix="Capture it once and replay it.",
        must_name=("graph",),
        sources=("trace",),
        needs=GPU,
        variants=variants(_programs, _for_both(Program(graph="again"), Program(graph="kept"))),
    ),
    Fault(
        id="launch_blocking",
        cause="operator_dispatch",
        mechanism="launch_blocking",
        ranks=(0,),
        injected="CUDA_LAUNCH_BLOCKING=1: the host waits for each kernel.",
        fix="Unset the variable.",
        must_name=("CUDA_LAUNCH_BLOCKING",),
        sources=("trace", "environment", "monitor"),
        also_right=(Right("environment_configuration/debug_variable", "a debug variable left on"),),
        needs=GPU,
        variants=variants(_blocking, BOTH),
    ),
    Fault(
        id="fp32_matmul",
        cause="underutilization",
        mechanism="no_tensor_core",
        ranks=(0,),
        injected="Matrix products run in plain float32.",
        fix="bfloat16 (or TF32).",
        must_name=("bf16",),
        sources=("trace",),
        same_loss=False,
        also_right=(Right("compute_bound", "lower precision is its remedy too"),),
        needs=GPU,
        variants=variants(_programs, _for_both(Program(precision="fp32"), Program(precision="bf16"))),
    ),
    Fault(
        id="odd_widths",
        cause="underutilization",
        mechanism="shape_alignment",
        ranks=(0,),
        injected="Widths are no multiple of 8.",
        fix="Pad them to the next multiple of 8.",
        must_name=("multiple of 8",),
        sources=("trace",),
        same_loss=False,
        needs=GPU,
        variants=variants(_programs, _for_both(Program(precision="bf16", odd_width=True), Program(precision="bf16"))),
    ),
    Fault(
        id="elementwise_chain_gpu",
        cause="memory_bound",
        mechanism="",
        ranks=(0,),
        injected="The activation is written as a chain of element-wise operators.",
        fix="The fused activation of the library.",
        must_name=("element-wise",),
        sources=("trace",),
        needs=GPU,
        variants=variants(_programs, _for_both(Program(chained_blocks=4))),
    ),
    Fault(
        id="cache_emptied",
        cause="memory_pressure",
        mechanism="allocator_retry",
        ranks=(0,),
        injected="torch.cuda.empty_cache() after each step.",
        fix="Remove the call.",
        must_name=("empty_cache",),
        sources=("trace",),
        needs=GPU,
        variants=variants(_programs, _for_both(Program(cache_emptied=True))),
    ),
)
