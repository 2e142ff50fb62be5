"""One process of a recorded training: ``python -m evals.lab.training PLAN RANK``. Needs the extra ``lab`` (torch)."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist

from evals.lab.batches import batches
from evals.lab.plan import Plan, read_plan
from evals.lab.scenarios import Training
from evals.lab.script_options import Heap, Saving, SideThread, StepLines
from evals.lab.watching import monitor, profiled
from evals.lab.workloads.registry import workload
from evals.lab.workloads.workload import Workload
from hermes_agent.cli.env import environment

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
    """What the script does beside the step; gives what has to be told of each."""
    told = plan.training.script_options
    heap = Heap(told, rank, plan.ranks)
    side = SideThread(told.side_thread_share)
    yield heap, Saving(told, plan.folder, rank, work.learns), StepLines(told, plan.folder, rank)
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
        told = environment({name: value.rpartition("/")[2] for name, value in os.environ.items()})
        (plan.run / "env.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    loss = train(plan, rank)
    versions = {"torch": str(torch.__version__), "python": platform.python_version()}
    plan.summary(rank).write_text(json.dumps({"loss": loss, "versions": versions}), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
    # All is written. A thread of gloo that asks for the interpreter while it shuts down would abort the process.
    os._exit(0)
