"""What a workload is to the lab."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import torch
from torch.utils.data import Dataset

Batch = tuple[torch.Tensor, torch.Tensor]


class Workload(Protocol):
    """Samples and a step; one object per rank."""

    batch: int  # samples a step and rank
    learns: torch.nn.Module | None  # signals when the last gradient is ready

    def write(self, folder: Path, rank: int) -> None:
        """Put the rank's samples on its disk."""

    def samples(self, folder: Path) -> Dataset[Batch]:
        """The samples as the loader reads them."""

    def trim(self, batch: Batch, size: int, filled: int) -> Batch:
        """The batch cut to ``size`` and, where that is more, filled up to ``filled`` again."""

    def step(self, batch: Batch) -> torch.Tensor:
        """Forward, backward and update; gives the loss, which may lie on the accelerator."""
