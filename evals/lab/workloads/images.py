"""Images of waves and noise, and a small convolutional classifier with data parallelism."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as functional
from numpy.typing import NDArray
from torch import nn

from evals.lab.data_parallel import DataParallelStep
from evals.lab.layers import activation, computed_in, recomputed
from evals.lab.losses import logistic_loss
from evals.lab.samples import Samples, write_samples
from evals.lab.scenarios import Training
from evals.lab.workloads.workload import Batch

CLASSES = 16
IMAGES_PER_RANK = 48
SIDE = 48
WIDTHS = (32, 64, 128, 256)


def raw_images(rank: int, side: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images (n, 3, side, side) and their classes: a wave per class, with noise, different on each rank."""
    rng = np.random.default_rng(1000 + rank)
    labels = rng.integers(0, CLASSES, IMAGES_PER_RANK)
    axis = np.linspace(0, 2 * np.pi, side)
    waves = np.sin((labels[:, None] + 1) * axis)[:, None, :, None] * np.cos(axis)[None, None, None, :]
    noise = rng.normal(0, 40, (IMAGES_PER_RANK, 3, side, side))
    return np.clip(128 + 80 * waves + noise, 0, 255).astype(np.uint8), labels


def prepare(image: torch.Tensor, side: int) -> torch.Tensor:
    """A raw image denoised, resized and normalised: uint8 (3, n, n) to float (3, side, side)."""
    pixels = image.float().div(255)[None]
    kernel = torch.full((3, 1, 7, 7), 1 / 49, dtype=torch.float32)
    smooth = functional.conv2d(pixels, kernel, padding=3, groups=3)
    small = functional.interpolate(smooth, size=(side, side), mode="bicubic", antialias=True, align_corners=False)
    mean, deviation = small.mean(dim=(2, 3), keepdim=True), small.std(dim=(2, 3), keepdim=True)
    return ((small - mean) / deviation)[0]


class Block(nn.Module):
    """Convolution, normalisation, activation and pooling."""

    def __init__(self, inputs: int, outputs: int, act: nn.Module) -> None:
        super().__init__()
        groups = 8 if outputs % 8 == 0 else 1
        self.layers = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(groups, outputs), act, nn.MaxPool2d(2)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(n, inputs, s, s) to (n, outputs, s/2, s/2)."""
        result: torch.Tensor = self.layers(images)
        return result


def network(training: Training) -> nn.Sequential:
    """A classifier of about 0.4 million parameters for images of any side from 16 on, the same on every rank."""
    torch.manual_seed(7)
    program, blocks = training.program, len(WIDTHS)
    widths = [3, *(width - 1 if program.odd_width else width for width in WIDTHS)]
    layers: list[nn.Module] = []
    for place in range(blocks):
        block: nn.Module = Block(widths[place], widths[place + 1], activation(place < program.chained_blocks))
        block = recomputed(block) if place < program.recomputed_blocks else block
        layers.append(computed_in(block, torch.float64) if place >= blocks - program.double_blocks else block)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], CLASSES))


class Images(DataParallelStep):
    """The workload ``images``."""

    def __init__(self, training: Training) -> None:
        self.batch = 24 if training.device == "cpu" else 384
        super().__init__(training, network(training), logistic_loss)
        self._side = max(training.data.sizes, default=SIDE)

    def write(self, folder: Path, rank: int) -> None:
        """As they are, or prepared once."""
        data = self._training.data
        images, labels = raw_images(rank, data.raw_size)
        if rank not in data.raw_on:
            prepared = [prepare(image, self._side) for image in torch.from_numpy(images)]
            write_samples(folder, torch.stack(prepared).numpy(), labels, data)
        else:
            write_samples(folder, images, labels, data)

    def samples(self, folder: Path) -> Samples:
        """Images (3, side, side) with their class."""
        side = self._side
        return Samples(folder, self._training.data, lambda image: prepare(torch.from_numpy(image), side))

    def trim(self, batch: Batch, size: int, filled: int) -> Batch:
        """Cut to a smaller side; filled with zeros at the right and below."""
        images, labels = batch
        cut = images[:, :, :size, :size].contiguous()
        return functional.pad(cut, (0, filled - size, 0, filled - size)) if filled > size else cut, labels
