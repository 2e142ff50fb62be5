"""The host program is slow, or other work takes its cores."""

from __future__ import annotations

from dataclasses import replace

from evals.lab.environment_faults.processor import BoundCores, CpuQuota, ForeignLoad
from evals.lab.fault import Fault, Right, Symptom
from evals.lab.scenarios import Habits, Parallel, Program, Training, World
from evals.lab.variants import told, variants


def _looped(training: Training, share: float) -> tuple[World, World]:
    return told(training, program=Program(looped_share=share)), told(training)


def _statistics(training: Training, share: float) -> tuple[World, World]:
    return told(training, program=Program(statistics_share=share)), told(training)


def _side_thread(training: Training, share: float) -> tuple[World, World]:
    slow, fixed = told(training, habits=Habits(side_thread_share=share)), told(training)
    return replace(slow, ranks=1), replace(fixed, ranks=1)


def _collected(training: Training, heap: Habits) -> tuple[World, World]:
    mended = replace(heap, heap_frozen=True, collects_every=0)
    return told(training, habits=heap), told(training, habits=mended)


def _threads(training: Training, threads: int) -> tuple[World, World]:
    return told(training, program=Program(threads=threads)), told(training)


def _foreign(training: Training, processes: int) -> tuple[World, World]:
    return replace(told(training), surroundings=(ForeignLoad(processes),)), told(training)


def _quota(training: Training, cores: float) -> tuple[World, World]:
    return replace(told(training), surroundings=(CpuQuota(ranks=(1,), cores=cores),)), told(training)


def _one_core(training: Training, ranks: tuple[int, ...]) -> tuple[World, World]:
    return replace(told(training), surroundings=(BoundCores(ranks=ranks, cores=(0,)),)), told(training)


def _anomaly(training: Training, small_parameters: int) -> tuple[World, World]:
    parallel = Parallel(small_parameters=small_parameters)
    slow = told(training, program=Program(traced_autograd=True), parallel=parallel)
    return slow, told(training, parallel=parallel)


def _debug(training: Training, _: int) -> tuple[World, World]:
    # DistributedDataParallel of torch 2.13 on a CPU crashes with this variable, so the script averages by itself.
    usual = told(training, parallel=Parallel(overlapped=False, one_by_one=True))
    return replace(usual, environment=(("TORCH_DISTRIBUTED_DEBUG", "DETAIL"),)), usual


def _watched(training: Training, small_parameters: int) -> tuple[World, World]:
    parallel = Parallel(small_parameters=small_parameters)
    return told(training, program=Program(watched=True), parallel=parallel), told(training, parallel=parallel)


def _compiled(training: Training, sizes: tuple[int, ...]) -> tuple[World, World]:
    program = Program(compiler="aot_eager")
    slow = told(training, program=program, data=replace(training.data, sizes=sizes))
    return slow, told(training, program=program, data=replace(training.data, sizes=sizes, padded=True))


FAULTS: tuple[Fault, ...] = (
    Fault(
        id="small_operators",
        cause="operator_dispatch",
        mechanism="small_operators",
        ranks=(0, 1),
        injected="Every rank computes its loss in a Python loop: thousands of operators on single numbers or rows.",
        fix="Compute the same loss with one operator per formula over the whole batch.",
        must_name=("small operators",),
        sources=("trace",),
        variants=variants(
            _looped,
            {
                "images-strong": 1.0,
                "images-mild": 0.25,
                "tokens-strong": 1.0,
                "tokens-mild": 0.3,
                "sounds-strong": 1.0,
                "sounds-mild": 0.4,
            },
        ),
    ),
    Fault(
        id="read_statistics",
        cause="operator_dispatch",
        mechanism="host_synchronization",
        ranks=(0, 1),
        injected="After each backward pass the script reads statistics of the rows of every parameter and gradient "
        "with item().",
        fix="Do not read them, or reduce on the device and read one number every hundred steps.",
        must_name=("item",),
        sources=("trace",),
        also_right=(Right("operator_dispatch/small_operators", "without a device item() hardly waits"),),
        variants=variants(
            _statistics,
            {
                "images-strong": 1.0,
                "images-mild": 0.5,
                "tokens-strong": 0.3,
                "tokens-mild": 0.08,
                "sounds-strong": 0.5,
                "sounds-mild": 0.35,
            },
        ),
    ),
    Fault(
        id="side_thread",
        cause="operator_dispatch",
        mechanism="gil_contention",
        ranks=(0,),
        injected="A second Python thread counts words; the training thread waits for the interpreter after operators.",
        fix="Move that work into another process or after the training.",
        must_name=("thread",),
        sources=("trace", "monitor"),
        also_right=(Right("cpu_contention", "a thread of the same process competes with the training thread"),),
        variants=variants(
            _side_thread,
            {
                "images-strong": 1.0,
                "images-mild": 0.3,
                "tokens-strong": 1.0,
                "tokens-mild": 0.3,
                "sounds-strong": 1.0,
                "sounds-mild": 0.4,
            },
        ),
    ),
    Fault(
        id="heap_one_rank",
        cause="garbage_collection",
        mechanism="",
        ranks=(1,),
        injected="Rank 1 keeps a large index of Python objects and calls gc.collect() every few steps.",
        fix="Freeze the heap after start-up and do not collect between checkpoints.",
        must_name=("garbage collection", "rank 1"),
        sources=("monitor",),
        steps="every few steps",
        statistic="mean",
        symptoms=(Symptom("straggler", (0,)),),
        variants=variants(
            _collected,
            {
                "images-strong": Habits(heap_on=(1,), heap_objects=1_200_000, collects_every=6),
                "images-mild": Habits(heap_on=(1,), heap_objects=500_000, collects_every=8),
                "tokens-strong": Habits(heap_on=(1,), heap_objects=1_200_000, collects_every=5),
                "tokens-mild": Habits(heap_on=(1,), heap_objects=500_000, collects_every=7),
                "sounds-strong": Habits(heap_on=(1,), heap_objects=1_200_000, collects_every=6),
                "sounds-mild": Habits(heap_on=(1,), heap_objects=500_000, collects_every=8),
            },
        ),
    ),
    Fault(
        id="heap_out_of_step",
        cause="garbage_collection",
        mechanism="",
        ranks=(0, 1),
        injected="Both ranks keep many Python objects and call gc.collect() every few steps, each in steps of its own.",
        fix="Freeze the heap after start-up and do not collect, or collect in the same step on all ranks.",
        must_name=("garbage collection",),
        sources=("monitor",),
        steps="every few steps, each rank in its own",
        statistic="mean",
        symptoms=(Symptom("straggler", (0, 1)),),
        variants=variants(
            _collected,
            {
                "images-strong": Habits(heap_on=(0, 1), heap_objects=700_000, collects_every=8),
                "images-mild": Habits(heap_on=(0, 1), heap_objects=350_000, collects_every=10),
                "tokens-strong": Habits(heap_on=(0, 1), heap_objects=700_000, collects_every=6),
                "tokens-mild": Habits(heap_on=(0, 1), heap_objects=350_000, collects_every=8),
                "sounds-strong": Habits(heap_on=(0, 1), heap_objects=700_000, collects_every=7),
                "sounds-mild": Habits(heap_on=(0, 1), heap_objects=350_000, collects_every=9),
            },
        ),
    ),
    Fault(
        id="foreign_load",
        cause="cpu_contention",
        mechanism="foreign_process",
        ranks=(0, 1),
        injected="Processes that have nothing to do with the training keep the cores busy.",
        fix="Stop them or move them elsewhere.",
        must_name=("other process",),
        sources=("monitor",),
        symptoms=(Symptom("straggler", (0, 1)),),
        variants=variants(
            _foreign,
            {
                "images-strong": 3,
                "images-mild": 1,
                "tokens-strong": 3,
                "tokens-mild": 1,
                "sounds-strong": 3,
                "sounds-mild": 1,
            },
        ),
    ),
    Fault(
        id="too_many_threads",
        cause="cpu_contention",
        mechanism="thread_oversubscription",
        ranks=(0, 1),
        injected="Each of two ranks on two cores computes with several threads.",
        fix="One thread per rank.",
        must_name=("thread",),
        sources=("monitor", "environment"),
        variants=variants(
            _threads,
            {
                "images-strong": 8,
                "images-mild": 2,
                "tokens-strong": 8,
                "tokens-mild": 2,
                "sounds-strong": 8,
                "sounds-mild": 2,
            },
        ),
    ),
    Fault(
        id="cpu_quota",
        cause="cpu_contention",
        mechanism="cgroup_throttling",
        ranks=(1,),
        injected="The control group of rank 1 has a CPU quota below one core.",
        fix="Raise the quota.",
        must_name=("quota", "rank 1"),
        sources=("monitor",),
        symptoms=(Symptom("straggler", (0,)),),
        also_right=(Right("straggler", "rank 1 is late because of its quota"),),
        variants=variants(
            _quota,
            {
                "images-strong": 0.4,
                "images-mild": 0.7,
                "tokens-strong": 0.4,
                "tokens-mild": 0.7,
                "sounds-strong": 0.4,
                "sounds-mild": 0.7,
            },
        ),
    ),
    Fault(
        id="one_core",
        cause="cpu_contention",
        mechanism="affinity",
        ranks=(0, 1),
        injected="Both ranks are bound to the same core.",
        fix="Bind each rank to a core of its own, or none.",
        must_name=("core",),
        sources=("monitor",),
        variants=variants(_one_core, {"images-strong": (0, 1), "tokens-strong": (0, 1), "sounds-strong": (0, 1)}),
    ),
    Fault(
        id="anomaly_detection",
        cause="profiling_overhead",
        mechanism="",
        ranks=(0, 1),
        injected="Anomaly detection of autograd is on: each operator keeps its stack, each gradient is checked.",
        fix="Turn it off.",
        must_name=("anomaly detection",),
        sources=("monitor", "trace"),
        also_right=(Right("environment_configuration/debug_variable", "a debug setting left on"),),
        variants=variants(
            _anomaly,
            {
                "images-strong": 200,
                "images-mild": 0,
                "tokens-strong": 200,
                "tokens-mild": 0,
                "sounds-strong": 200,
                "sounds-mild": 100,
            },
        ),
    ),
    Fault(
        id="distributed_debug",
        cause="environment_configuration",
        mechanism="debug_variable",
        ranks=(0, 1),
        injected="TORCH_DISTRIBUTED_DEBUG=DETAIL: each collective is preceded by checks that all ranks wait for.",
        fix="Unset the variable.",
        must_name=("TORCH_DISTRIBUTED_DEBUG",),
        sources=("monitor", "environment"),
        # Every gradient still travels after the backward pass, in a message of its own: small packets, no overlap.
        fixed_verdict="unlabelled",
        variants=variants(_debug, {"images-strong": 0, "tokens-strong": 0, "sounds-strong": 0}),
    ),
    Fault(
        id="profiler_left_on",
        cause="profiling_overhead",
        mechanism="",
        ranks=(0, 1),
        injected="The script profiles every step with stacks, shapes and memory.",
        fix="Profile a few steps, without stacks and memory.",
        must_name=("profiler",),
        sources=("trace",),
        variants=variants(
            _watched,
            {
                "images-strong": 200,
                "images-mild": 0,
                "tokens-strong": 200,
                "tokens-mild": 0,
                "sounds-strong": 200,
                "sounds-mild": 100,
            },
        ),
    ),
    Fault(
        id="changing_shapes",
        cause="operator_compilation",
        mechanism="dynamic_shape",
        ranks=(0, 1),
        injected="The model is compiled for each shape, and batches of new sizes keep coming.",
        fix="Fill the batches up to one size.",
        must_name=("shape",),
        sources=("trace", "monitor"),
        steps="those with a size not seen before",
        statistic="mean",
        same_loss=False,
        needs=("compiler",),
        variants=variants(
            _compiled,
            {
                "images-strong": tuple(range(32, 56)),
                "images-mild": (*[48] * 40, *range(36, 48)),
                "tokens-strong": tuple(range(64, 100)),
                "tokens-mild": (*[96] * 40, *range(84, 96)),
                "sounds-strong": tuple(range(112, 184, 2)),
                "sounds-mild": (*[160] * 40, *range(136, 160, 2)),
            },
        ),
    ),
)
