"""The images a rank trains on: a small set made from seeded patterns, raw or prepared on its disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as functional
from numpy.typing import NDArray

CLASSES = 16
IMAGES_PER_RANK = 48
RAW_SIDE = 320


def raw_images(rank: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images (n, 3, 320, 320) and their classes: a wave per class, with noise, different on each rank."""
    rng = np.random.default_rng(1000 + rank)
    labels = rng.integers(0, CLASSES, IMAGES_PER_RANK)
    axis = np.linspace(0, 2 * np.pi, RAW_SIDE)
    waves = np.sin((labels[:, None] + 1) * axis)[:, None, :, None] * np.cos(axis)[None, None, None, :]
    noise = rng.normal(0, 40, (IMAGES_PER_RANK, 3, RAW_SIDE, RAW_SIDE))
    return np.clip(128 + 80 * waves + noise, 0, 255).astype(np.uint8), labels


def prepare(image: torch.Tensor, side: int) -> torch.Tensor:
    """A raw image denoised, resized and normalised: uint8 (3, 320, 320) to float (3, side, side)."""
    pixels = image.float().div(255)[None]
    kernel = torch.full((3, 1, 7, 7), 1 / 49)
    smooth = functional.conv2d(pixels, kernel, padding=3, groups=3)
    small = functional.interpolate(smooth, size=(side, side), mode="bicubic", antialias=True, align_corners=False)
    mean, deviation = small.mean(dim=(2, 3), keepdim=True), small.std(dim=(2, 3), keepdim=True)
    return ((small - mean) / deviation)[0]


def write_images(folder: Path, rank: int, raw: bool, side: int) -> None:
    """Put a rank's images on disk, as they are or prepared once."""
    folder.mkdir(parents=True, exist_ok=True)
    images, labels = raw_images(rank)
    stored = images if raw else torch.stack([prepare(image, side) for image in torch.from_numpy(images)]).numpy()
    np.save(folder / "images.npy", stored, allow_pickle=False)
    np.save(folder / "labels.npy", labels, allow_pickle=False)


class ImageFolder:
    """A map-style dataset over what ``write_images`` stored; raw images are prepared each time they are read."""

    def __init__(self, folder: Path, side: int) -> None:
        self.side = side
        self.images = torch.from_numpy(np.load(folder / "images.npy", allow_pickle=False))
        self.labels = torch.from_numpy(np.load(folder / "labels.npy", allow_pickle=False))

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        image = self.images[index]
        return (prepare(image, self.side) if image.dtype == torch.uint8 else image), self.labels[index]
