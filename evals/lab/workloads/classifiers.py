"""Classifiers with data parallelism: of images of waves and noise, and of waveforms of mixed tones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as functional
from numpy.typing import NDArray
from torch import nn

from evals.lab.samples import Samples, write_samples
from evals.lab.scenarios import Training
from evals.lab.workloads.data_parallel import Batch, DataParallelStep
from evals.lab.workloads.layers import logistic_loss, stacked

Drawn = tuple[NDArray[np.uint8], NDArray[np.int64]]


class Classifier(DataParallelStep):
    """Raw samples with their classes, and how one is prepared to a size along its last axes."""

    axes: int  # that the size of a batch is cut along

    def __init__(self, training: Training, model: nn.Module, size: int) -> None:
        super().__init__(training, model, logistic_loss)
        self._size = max(training.data.sizes, default=size)

    def raw(self, rank: int, size: int) -> Drawn:
        """Samples of a size and their classes, different on each rank."""
        raise NotImplementedError

    def prepared(self, raw: torch.Tensor) -> torch.Tensor:
        """One raw sample as the network takes it."""
        raise NotImplementedError

    def write(self, folder: Path, rank: int) -> None:
        """As they are, or prepared once."""
        data = self._training.data
        samples, labels = self.raw(rank, data.raw_size)
        if rank in data.raw_on:
            write_samples(folder, samples, labels, data)
        else:
            once = torch.stack([self.prepared(each) for each in torch.from_numpy(samples)])
            write_samples(folder, once.numpy(), labels, data)

    def samples(self, folder: Path) -> Samples:
        """Prepared samples with their class."""
        return Samples(folder, self._training.data, self.prepared)

    def trim(self, batch: Batch, size: int, filled: int) -> Batch:
        """Cut to a smaller size; filled with zeros at the end of each axis."""
        inputs, labels = batch
        cut = inputs[(..., *(slice(size),) * self.axes)].contiguous()
        return functional.pad(cut, (0, filled - size) * self.axes) if filled > size else cut, labels


IMAGE_CLASSES = 16
IMAGES_PER_RANK = 48
SIDE = 48
WIDTHS = (32, 64, 128, 256)


class ImageBlock(nn.Module):
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


def image_network(training: Training) -> nn.Sequential:
    """A classifier of about 0.4 million parameters for images of any side from 16 on, the same on every rank."""
    torch.manual_seed(7)
    program = training.program
    widths = [3, *(width - 1 if program.odd_width else width for width in WIDTHS)]
    blocks = stacked(program, len(WIDTHS), lambda at, act: ImageBlock(widths[at], widths[at + 1], act))
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], IMAGE_CLASSES))


class Images(Classifier):
    """The workload ``images``: (3, side, side)."""

    axes = 2

    def __init__(self, training: Training) -> None:
        self.batch = 24 if training.device == "cpu" else 384
        super().__init__(training, image_network(training), SIDE)

    def raw(self, rank: int, size: int) -> Drawn:
        """Images (n, 3, size, size) and their classes: a wave per class, with noise, different on each rank."""
        rng = np.random.default_rng(1000 + rank)
        labels = rng.integers(0, IMAGE_CLASSES, IMAGES_PER_RANK)
        axis = np.linspace(0, 2 * np.pi, size)
        waves = np.sin((labels[:, None] + 1) * axis)[:, None, :, None] * np.cos(axis)[None, None, None, :]
        noise = rng.normal(0, 40, (IMAGES_PER_RANK, 3, size, size))
        return np.clip(128 + 80 * waves + noise, 0, 255).astype(np.uint8), labels

    def prepared(self, raw: torch.Tensor) -> torch.Tensor:
        """A raw image denoised, resized and normalised: uint8 (3, n, n) to float (3, side, side)."""
        pixels = raw.float().div(255)[None]
        kernel = torch.full((3, 1, 7, 7), 1 / 49, dtype=torch.float32)
        smooth = functional.conv2d(pixels, kernel, padding=3, groups=3)
        small = functional.interpolate(
            smooth, size=(self._size, self._size), mode="bicubic", antialias=True, align_corners=False
        )
        mean, deviation = small.mean(dim=(2, 3), keepdim=True), small.std(dim=(2, 3), keepdim=True)
        return ((small - mean) / deviation)[0]


SOUND_CLASSES = 40
SOUNDS_PER_RANK = 60
BANDS, FRAMES = 64, 160
WIDTH, BLOCKS = 128, 3
WINDOW, HOP = 126, 64


class SoundBlock(nn.Module):
    """A dilated convolution over time and a mixing of its channels, with their shortcut."""

    def __init__(self, width: int, dilation: int, act: nn.Module) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(1, width)
        self.over_time = nn.Conv1d(width, 2 * width, 3, padding=dilation, dilation=dilation)
        self.act, self.mixed = act, nn.Conv1d(2 * width, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, width, frames) to the same."""
        result: torch.Tensor = x + self.mixed(self.act(self.over_time(self.norm(x))))
        return result


def sound_network(training: Training) -> nn.Sequential:
    """A classifier of about 0.4 million parameters for any number of frames, the same on every rank."""
    torch.manual_seed(7)
    program = training.program
    width = WIDTH - 1 if program.odd_width else WIDTH
    stem = nn.Conv1d(BANDS, width, 5, padding=2)
    blocks = stacked(program, BLOCKS, lambda at, act: SoundBlock(width, 3**at, act))
    return nn.Sequential(stem, *blocks, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(width, SOUND_CLASSES))


class Sounds(Classifier):
    """The workload ``sounds``: spectrograms (BANDS, frames)."""

    axes = 1

    def __init__(self, training: Training) -> None:
        self.batch = 20 if training.device == "cpu" else 512
        super().__init__(training, sound_network(training), FRAMES)

    def raw(self, rank: int, size: int) -> Drawn:
        """Waveforms (n, size) and their classes: two tones per class, with noise, different on each rank."""
        rng = np.random.default_rng(3000 + rank)
        labels = rng.integers(0, SOUND_CLASSES, SOUNDS_PER_RANK)
        time = np.linspace(0, 1, size)[None]
        pitch = 20.0 * (1 + labels[:, None])
        tones = np.sin(2 * np.pi * pitch * time) + np.sin(5 * np.pi * pitch * time)
        noise = rng.normal(0, 25, (SOUNDS_PER_RANK, size))
        return np.clip(128 + 40 * tones + noise, 0, 255).astype(np.uint8), labels

    def prepared(self, raw: torch.Tensor) -> torch.Tensor:
        """A waveform filtered, thinned out and turned into a spectrogram: uint8 (samples,) to float (BANDS, frames)."""
        tones = torch.fft.rfft(raw.float() - 128)
        tones[self._size * HOP // 2 :] = 0
        smooth = torch.fft.irfft(tones, len(raw))[None, None]
        thin = functional.interpolate(smooth, size=self._size * HOP, mode="linear", align_corners=False)[0, 0]
        window = torch.hann_window(WINDOW, dtype=torch.float32)
        power = torch.stft(thin, WINDOW, HOP, window=window, return_complex=True).abs().square()[:, : self._size]
        level = power.add(1e-3).log()
        return (level - level.mean()) / level.std()
