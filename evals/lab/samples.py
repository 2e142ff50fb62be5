"""Samples on disk (prepared or raw, plain or in packs, local or behind a file server), and the batches of them."""

from __future__ import annotations

import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset, Sampler

from evals.lab.environment_faults.store import store_of
from evals.lab.scenarios import Data, Plan
from evals.lab.workloads.data_parallel import Batch, Workload

PACKERS: dict[str, Callable[[bytes], bytes]] = {"zlib": zlib.compress, "lzma": lzma.compress}
UNPACKERS: dict[str, Callable[[bytes], bytes]] = {"zlib": zlib.decompress, "lzma": lzma.decompress}
Prepare = Callable[[torch.Tensor], torch.Tensor]


def write_samples(folder: Path, inputs: NDArray[np.generic], targets: NDArray[np.int64], data: Data) -> None:
    """Store inputs (n, ...) and targets (n, ...), the inputs in packs where the scenario says so."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "targets.npy", targets, allow_pickle=False)
    np.save(folder / "inputs.npy", inputs, allow_pickle=False)
    if _in_files(data):
        for number, first in enumerate(range(0, len(inputs), data.samples_in_pack)):
            content = inputs[first : first + data.samples_in_pack].tobytes()
            (folder / f"pack{number}").write_bytes(PACKERS.get(data.packing, bytes)(content))


class Samples(Dataset[Batch]):
    """A map-style dataset over what ``write_samples`` stored; raw samples are prepared each time they are read."""

    def __init__(self, folder: Path, data: Data, prepare: Prepare) -> None:
        self._data, self._prepare = data, prepare
        self._targets = torch.from_numpy(np.load(folder / "targets.npy", allow_pickle=False))
        self._inputs = np.load(folder / "inputs.npy", allow_pickle=False, mmap_mode="r" if _in_files(data) else None)
        self._store, self._name = store_of(folder.parent, os.environ), folder.name

    def __len__(self) -> int:
        return len(self._targets)

    def __getitem__(self, index: int) -> Batch:
        stored = torch.from_numpy(self._unpacked(index) if _in_files(self._data) else self._inputs[index])
        return self._prepare(stored) if stored.dtype == torch.uint8 else stored, self._targets[index]

    def _unpacked(self, index: int) -> NDArray[np.generic]:
        pack, place = divmod(index, self._data.samples_in_pack)
        content = UNPACKERS.get(self._data.packing, bytes)(self._store.read(f"{self._name}/pack{pack}"))
        samples = np.frombuffer(bytearray(content), self._inputs.dtype).reshape(-1, *self._inputs.shape[1:])
        return np.asarray(samples[place])


def _in_files(data: Data) -> bool:
    return data.packing != "plain" or data.in_files


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
