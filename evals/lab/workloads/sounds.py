"""Waveforms of mixed tones, and a small network of dilated convolutions over their spectra with data parallelism."""

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

CLASSES = 40
SOUNDS_PER_RANK = 60
BANDS, FRAMES = 64, 160
WIDTH, BLOCKS = 128, 3
WINDOW, HOP = 126, 64


def raw_sounds(rank: int, samples: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Waveforms (n, samples) and their classes: two tones per class, with noise, different on each rank."""
    rng = np.random.default_rng(3000 + rank)
    labels = rng.integers(0, CLASSES, SOUNDS_PER_RANK)
    time = np.linspace(0, 1, samples)[None]
    pitch = 20.0 * (1 + labels[:, None])
    tones = np.sin(2 * np.pi * pitch * time) + np.sin(5 * np.pi * pitch * time)
    noise = rng.normal(0, 25, (SOUNDS_PER_RANK, samples))
    return np.clip(128 + 40 * tones + noise, 0, 255).astype(np.uint8), labels


def prepare(wave: torch.Tensor, frames: int) -> torch.Tensor:
    """A waveform filtered, thinned out and turned into a spectrogram: uint8 (samples,) to float (BANDS, frames)."""
    tones = torch.fft.rfft(wave.float() - 128)
    tones[frames * HOP // 2 :] = 0
    smooth = torch.fft.irfft(tones, len(wave))[None, None]
    thin = functional.interpolate(smooth, size=frames * HOP, mode="linear", align_corners=False)[0, 0]
    window = torch.hann_window(WINDOW, dtype=torch.float32)
    power = torch.stft(thin, WINDOW, HOP, window=window, return_complex=True).abs().square()[:, :frames]
    level = power.add(1e-3).log()
    return (level - level.mean()) / level.std()


class Block(nn.Module):
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


def network(training: Training) -> nn.Sequential:
    """A classifier of about 0.4 million parameters for any number of frames, the same on every rank."""
    torch.manual_seed(7)
    program = training.program
    width = WIDTH - 1 if program.odd_width else WIDTH
    layers: list[nn.Module] = [nn.Conv1d(BANDS, width, 5, padding=2)]
    for place in range(BLOCKS):
        block: nn.Module = Block(width, 3**place, activation(place < program.chained_blocks))
        block = recomputed(block) if place < program.recomputed_blocks else block
        layers.append(computed_in(block, torch.float64) if place >= BLOCKS - program.double_blocks else block)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(width, CLASSES))


class Sounds(DataParallelStep):
    """The workload ``sounds``."""

    def __init__(self, training: Training) -> None:
        self.batch = 20 if training.device == "cpu" else 512
        super().__init__(training, network(training), logistic_loss)
        self._frames = max(training.data.sizes, default=FRAMES)

    def write(self, folder: Path, rank: int) -> None:
        """As waveforms, or prepared once."""
        data = self._training.data
        waves, labels = raw_sounds(rank, data.raw_size)
        if rank not in data.raw_on:
            prepared = torch.stack([prepare(wave, self._frames) for wave in torch.from_numpy(waves)])
            write_samples(folder, prepared.numpy(), labels, data)
        else:
            write_samples(folder, waves, labels, data)

    def samples(self, folder: Path) -> Samples:
        """Spectrograms (BANDS, frames) with their class."""
        frames = self._frames
        return Samples(folder, self._training.data, lambda wave: prepare(torch.from_numpy(wave), frames))

    def trim(self, batch: Batch, size: int, filled: int) -> Batch:
        """Cut to fewer frames; filled with zeros at the end."""
        sounds, labels = batch
        cut = sounds[:, :, :size].contiguous()
        return functional.pad(cut, (0, filled - size)) if filled > size else cut, labels
