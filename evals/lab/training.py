"""One process of a recorded training: ``python -m evals.lab.training PLAN RANK``. Needs the extra ``lab`` (torch)."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, RandomSampler

from evals.lab.images import CLASSES, ImageFolder, write_images
from evals.lab.losses import looped_loss, vectorised_loss
from evals.lab.plan import RANKS, Plan, read_plan

BATCH = 24
BUCKET_MB = 1
LOSSES: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "vectorised": vectorised_loss,
    "looped": looped_loss,
}


def network(side: int) -> nn.Sequential:
    """A small convolutional classifier of about a million parameters for (n, 3, side, side), the same on every rank."""
    torch.manual_seed(7)
    layers: list[nn.Module] = []
    for inputs, outputs in ((3, 32), (32, 64), (64, 128), (128, 256)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(8, outputs), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(
        *layers, nn.Flatten(), nn.Linear(256 * (side // 16) ** 2, 384), nn.ReLU(), nn.Linear(384, CLASSES)
    )


def batches(plan: Plan, rank: int) -> Iterator[list[torch.Tensor]]:
    """The rank's batches, one per step, drawn with a seed of its own from its own disk."""
    images = ImageFolder(plan.folder / f"data{rank}", plan.world.image_side)
    sampler = RandomSampler(
        images,
        replacement=True,
        num_samples=plan.steps * BATCH,
        generator=torch.Generator().manual_seed(rank),
    )
    return iter(DataLoader(images, batch_size=BATCH, sampler=sampler, num_workers=0))


def profiler(plan: Plan, rank: int) -> AbstractContextManager[Any]:
    """The profiler of the plan's last steps, or a context that gives None."""
    if not plan.profile:
        return nullcontext()
    watching: AbstractContextManager[Any] = profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=plan.measured.stop, warmup=1, active=len(plan.profiled), repeat=1),
        on_trace_ready=lambda finished: finished.export_chrome_trace(str(plan.trace(rank))),
        record_shapes=True,
    )
    return watching


def train(plan: Plan, rank: int) -> float:
    """Run all steps, writing the step log as they pass; gives the last step's loss."""
    loss_of = LOSSES[plan.world.loss]
    model = DistributedDataParallel(network(plan.world.image_side), bucket_cap_mb=BUCKET_MB)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    source = batches(plan, rank)
    loss = torch.zeros(())
    dist.barrier()
    with profiler(plan, rank) as watching, plan.step_log(rank).open("w", encoding="utf-8") as log:
        for step in range(plan.steps):
            start = time.perf_counter()
            images, labels = next(source)
            optimizer.zero_grad()
            loss = loss_of(model(images), labels)
            loss.backward()
            optimizer.step()
            wall_ms = (time.perf_counter() - start) * 1e3
            log.write(json.dumps({"step": step, "wall_ms": round(wall_ms, 3)}) + "\n")
            if watching is not None:
                watching.step()
    return float(loss.detach())


def main(plan_path: Path, rank: int) -> None:
    """Take part in one launch as ``rank``, from its data on disk to its records."""
    torch.set_num_threads(1)
    plan = read_plan(plan_path)
    write_images(plan.folder / f"data{rank}", rank, rank in plan.world.raw_images_on, plan.world.image_side)
    rendezvous = dist.FileStore(str(plan.folder / "rendezvous"), RANKS)
    dist.init_process_group("gloo", store=rendezvous, rank=rank, world_size=RANKS)
    loss = train(plan, rank)
    versions = {"torch": str(torch.__version__), "python": platform.python_version()}
    plan.summary(rank).write_text(json.dumps({"loss": loss, "versions": versions}), encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
    # All is written. A thread of gloo that asks for the interpreter while it shuts down would abort the process.
    os._exit(0)
