"""Samples on disk: prepared or raw, plain or in packs, on the local disk or behind a file server."""

from __future__ import annotations

import lzma
import os
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from evals.lab.environment_faults.store import store_of
from evals.lab.scenarios import Data
from evals.lab.workloads.workload import Batch

PACKERS: dict[str, Callable[[bytes], bytes]] = {"zlib": zlib.compress, "lzma": lzma.compress}
UNPACKERS: dict[str, Callable[[bytes], bytes]] = {"zlib": zlib.decompress, "lzma": lzma.decompress}
Prepare = Callable[[NDArray[np.uint8]], torch.Tensor]


def write_samples(folder: Path, inputs: NDArray[np.generic], targets: NDArray[np.int64], data: Data) -> None:
    """Store inputs (n, ...) and targets (n, ...), the inputs in packs where the scenario says so."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "targets.npy", targets, allow_pickle=False)
    np.save(folder / "inputs.npy", inputs, allow_pickle=False)
    if _in_files(data):
        for number, first in enumerate(range(0, len(inputs), data.samples_in_pack)):
            content = inputs[first : first + data.samples_in_pack].tobytes()
            pack = PACKERS.get(data.packing, bytes)(content)
            (folder / f"pack{number}").write_bytes(pack)


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
        stored = self._unpacked(index) if _in_files(self._data) else self._inputs[index]
        prepared = self._prepare(np.asarray(stored, np.uint8)) if stored.dtype == np.uint8 else torch.from_numpy(stored)
        return prepared, self._targets[index]

    def _unpacked(self, index: int) -> NDArray[np.generic]:
        pack, place = divmod(index, self._data.samples_in_pack)
        content = UNPACKERS.get(self._data.packing, bytes)(self._store.read(f"{self._name}/pack{pack}"))
        shape = self._inputs.shape[1:]
        found: NDArray[np.generic] = np.frombuffer(bytearray(content), self._inputs.dtype).reshape(-1, *shape)[place]
        return found


def _in_files(data: Data) -> bool:
    return data.packing != "plain" or data.in_files
