"""The batches of a rank, one per step, as its loader gives them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import torch
from torch.utils.data import DataLoader, Sampler

from evals.lab.plan import Plan
from evals.lab.workloads.workload import Batch, Workload


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
