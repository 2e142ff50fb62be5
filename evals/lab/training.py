"""One process of a recorded training: ``python -m evals.lab.training PLAN RANK``. Needs the extra ``lab`` (torch)."""

from __future__ import annotations

import itertools
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, Sampler

from evals.lab.plan import Plan, read_plan
from evals.lab.scenarios import Training
from evals.lab.script_options import Heap, Saving, SideThread, StepLines
from evals.lab.workloads.classifiers import Images, Sounds
from evals.lab.workloads.language import Experts, Stages, Tokens
from evals.lab.workloads.workload import Batch, Workload
from hermes_agent.cli.env import environment
from hermes_agent.monitor import Monitor, Options
from hermes_agent.monitor.flush import FlushPlan


def workload(training: Training) -> Workload:
    """The workload that the script trains."""
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


class Draws(Sampler[int]):
    """Indices with replacement, of a seed."""

    def __init__(self, count: int, samples: int, seed: int) -> None:
        self._drawn = np.random.default_rng(seed).integers(0, samples, count).tolist()

    def __iter__(self) -> Iterator[int]:
        return iter(self._drawn)

    def __len__(self) -> int:
        return len(self._drawn)


def unbind(_: int) -> None:
    """Let a worker run on every core again."""
    os.sched_setaffinity(0, range(os.cpu_count() or 1))


def sizes(plan: Plan, rank: int) -> list[int]:
    """The size of each step's batch, the same on all ranks unless the scenario lets them differ."""
    data = plan.training.data
    seed = 100 + rank if data.sizes_differ else 100
    return [int(each) for each in np.random.default_rng(seed).choice(data.sizes or (0,), plan.steps)]


def batches(plan: Plan, workload: Workload, rank: int) -> Iterator[Batch]:
    """Batches drawn with a seed of the rank from its own disk, trimmed to their size, on the device."""
    data, cuda = plan.training.data, plan.training.device == "cuda"
    samples = workload.samples(plan.samples(rank))
    loader: DataLoader[Batch] = DataLoader(
        samples,
        batch_size=workload.batch,
        sampler=Draws(plan.steps * workload.batch, len(samples), rank),  # type: ignore[arg-type]
        num_workers=data.workers,
        worker_init_fn=unbind if data.workers_unbound else None,
        pin_memory=cuda and data.pinned,
    )
    largest = max(data.sizes, default=0) if data.padded else 0
    source: Iterator[Batch] = iter(loader)
    if data.sizes:
        pairs = zip(source, sizes(plan, rank), strict=True)
        source = (workload.trim((batch[0], batch[1]), size, largest) for batch, size in pairs)
    return on_device(source, data.pinned, data.ahead) if cuda else source


def on_device(source: Iterator[Batch], pinned: bool, ahead: bool) -> Iterator[Batch]:
    """Batches copied to the accelerator, the next one on a stream of its own while this one is in use."""
    if not ahead:
        for batch in source:
            yield _copied(batch, pinned)
        return
    stream = torch.cuda.Stream()
    coming: Batch | None = None
    for batch in source:
        with torch.cuda.stream(stream):
            copied = _copied(batch, pinned)
        if coming is not None:
            yield coming
        torch.cuda.current_stream().wait_stream(stream)
        for each in copied:
            each.record_stream(torch.cuda.current_stream())
        coming = copied
    if coming is not None:
        yield coming


def _copied(batch: Batch, pinned: bool) -> Batch:
    inputs, targets = (each.to("cuda", non_blocking=pinned) for each in batch)
    return inputs, targets


SAMPLE_S = 0.25


def monitor(folder: Path, rank: int) -> Monitor:
    """The monitor as a user starts it, with more samples than by default: the recorded runs are short."""
    return Monitor(folder, rank=rank, options=Options(plan=FlushPlan(flush_s=SAMPLE_S, sample_s=SAMPLE_S)))


@contextmanager
def profiled(plan: Plan, rank: int) -> Iterator[Callable[[], None]]:
    """Records the plan's last steps; before them the script's own profiler runs where the scenario has one.

    Gives what has to be called after every step.
    """
    training = plan.training
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if training.device == "cuda" else [])]
    details = {"with_stack": True, "profile_memory": True} if training.program.watched else {}
    last = profile_of_last(plan, rank, kinds, details) if plan.profile else None
    own = profile(activities=kinds, record_shapes=True, **details) if training.program.watched else None
    ended = itertools.count(1)

    def stepped() -> None:
        if own is not None and next(ended) == plan.measured.stop:
            own.stop()
        if last is not None:
            last.step()

    for each in filter(None, (own, last)):
        each.start()
    yield stepped
    if last is not None:
        last.stop()


def profile_of_last(plan: Plan, rank: int, kinds: list[ProfilerActivity], details: dict[str, bool]) -> Any:  # noqa: ANN401
    """The profiler of the plan's last steps."""
    return profile(
        activities=kinds,
        schedule=schedule(wait=plan.measured.stop, warmup=1, active=len(plan.profiled), repeat=1),
        on_trace_ready=lambda finished: finished.export_chrome_trace(str(plan.trace(rank))),
        record_shapes=True,
        **details,
    )


SAME_MODEL = ("images", "tokens", "sounds")  # workloads whose ranks hold the same model
OF_TOKENS = ("tokens", "experts", "stages")


def train(plan: Plan, rank: int) -> float:
    """Run all steps, writing the step log as they pass; gives the last step's loss."""
    work = workload(plan.training)
    work.write(plan.samples(rank), rank)
    loss = torch.zeros(())
    with (
        monitor(plan.run, rank) as watch,
        plan.step_log(rank).open("w", encoding="utf-8") as log,
        script_options(plan, rank, work) as after_step,
        profiled(plan, rank) as stepped,
    ):
        if plan.training.workload in SAME_MODEL and plan.ranks > 1 and work.learns is not None:
            watch.watch_model(work.learns)
        source = batches(plan, work, rank)
        dist.barrier()
        watch.begin()
        for step in range(plan.steps):
            start = time.perf_counter()
            batch = next(source)
            loss = work.step(batch)
            for each in after_step:
                each.step(step)
            if plan.training.device == "cuda":
                torch.cuda.current_stream().synchronize()
            wall_ms = (time.perf_counter() - start) * 1e3
            watch.step(step, samples=len(batch[0]))
            size = batch[0].shape[-1] * len(batch[0])
            line = {"step": step, "wall_ms": round(wall_ms, 3), "samples": len(batch[0])}
            if plan.training.workload in OF_TOKENS:
                line["tokens"] = size
            log.write(json.dumps(line) + "\n")
            stepped()
    return float(loss)


@contextmanager
def script_options(plan: Plan, rank: int, work: Workload) -> Iterator[tuple[Heap | Saving | StepLines, ...]]:
    """What the script does next to the step; gives the objects to notify of each step."""
    options = plan.training.script_options
    heap = Heap(options, rank, plan.ranks)
    side = SideThread(options.side_thread_share)
    yield heap, Saving(options, plan.folder, rank, work.learns), StepLines(options, plan.folder, rank)
    side.end()


def set_up(training: Training) -> None:
    """What a script sets before it builds anything."""
    program = training.program
    torch.set_num_threads(program.threads)
    torch.autograd.set_detect_anomaly(program.traced_autograd)
    if program.double_blocks > 9:
        torch.set_default_dtype(torch.float64)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = program.precision != "fp32"


def main(plan_path: Path, rank: int) -> None:
    """Take part in one launch as ``rank``, from its data on disk to its records."""
    plan = read_plan(plan_path)
    set_up(plan.training)
    rendezvous = dist.FileStore(str(plan.folder / "rendezvous"), plan.ranks)
    dist.init_process_group("gloo", store=rendezvous, rank=rank, world_size=plan.ranks)
    if rank == 0:
        settings = environment({name: value.rpartition("/")[2] for name, value in os.environ.items()})
        (plan.run / "env.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    loss = train(plan, rank)
    versions = {"torch": str(torch.__version__), "python": platform.python_version()}
    plan.summary(rank).write_text(json.dumps({"loss": loss, "versions": versions}), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
    # All is written. A thread of gloo that asks for the interpreter while it shuts down would abort the process.
    os._exit(0)
