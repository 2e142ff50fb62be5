"""Sequences from a seeded grammar, and a small language model with data parallelism."""

from __future__ import annotations

import re
import unicodedata
import zlib
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as functional
from numpy.typing import NDArray
from torch import nn

from evals.lab.data_parallel import DataParallelStep
from evals.lab.layers import activation, computed_in, recomputed
from evals.lab.losses import token_loss
from evals.lab.samples import Samples, write_samples
from evals.lab.scenarios import Training
from evals.lab.workloads.workload import Batch

VOCABULARY = 512
SEQUENCES_PER_RANK = 64
LENGTH = 96
WIDTH, HEADS, BLOCKS = 160, 4, 2
WORD = re.compile(r"\w+")


def raw_texts(rank: int, words: int) -> NDArray[np.uint8]:
    """Texts (n, bytes) of made-up words, filled with blanks, different on each rank."""
    rng = np.random.default_rng(2000 + rank)
    stems = ["".join(rng.choice(list("aeioubdfgklmnprst"), 7)) for _ in range(400)]
    texts = [" ".join(rng.choice(stems, words)).encode() for _ in range(SEQUENCES_PER_RANK)]
    return np.stack([np.frombuffer(text.ljust(words * 8), np.uint8) for text in texts])


def tokenise(text: NDArray[np.uint8], length: int) -> torch.Tensor:
    """Text normalised and cut into words, each word a number: the first ``length`` of them, in turn where fewer."""
    plain = unicodedata.normalize("NFKC", text.tobytes().decode()).lower()
    numbers = [zlib.crc32(word.encode()) % VOCABULARY for word in WORD.findall(plain)]
    return torch.tensor((numbers * (length // len(numbers) + 1))[:length])


class Block(nn.Module):
    """Causal attention and a feed-forward layer, each with its shortcut."""

    def __init__(self, width: int, act: nn.Module) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.forth, self.act, self.back = nn.Linear(width, 4 * width), act, nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, tokens, width) to the same."""
        heads = HEADS if x.shape[-1] % HEADS == 0 else 1
        parts = self.mixed(self.before(x)).unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        result: torch.Tensor = x + self.back(self.act(self.forth(self.between(x))))
        return result


def network(training: Training) -> nn.Sequential:
    """A language model of about 0.7 million parameters, the same on every rank."""
    torch.manual_seed(7)
    program = training.program
    width = WIDTH - 1 if program.odd_width else WIDTH
    layers: list[nn.Module] = [nn.Embedding(VOCABULARY, width)]
    for place in range(BLOCKS):
        block: nn.Module = Block(width, activation(place < program.chained_blocks))
        block = recomputed(block) if place < program.recomputed_blocks else block
        layers.append(computed_in(block, torch.float64) if place >= BLOCKS - program.double_blocks else block)
    return nn.Sequential(*layers, nn.LayerNorm(width), nn.Linear(width, VOCABULARY))


class Tokens(DataParallelStep):
    """The workload ``tokens``."""

    def __init__(self, training: Training) -> None:
        self.batch = 8 if training.device == "cpu" else 128
        super().__init__(training, network(training), token_loss)
        self._length = max(training.data.sizes, default=LENGTH)

    def write(self, folder: Path, rank: int) -> None:
        """As text, or as numbers."""
        data = self._training.data
        texts = raw_texts(rank, data.raw_size)
        prepared = torch.stack([tokenise(text, self._length) for text in texts])
        following = prepared.roll(-1, dims=1).numpy()
        write_samples(folder, texts if rank in data.raw_on else prepared.numpy(), following, data)

    def samples(self, folder: Path) -> Samples:
        """Sequences with, at each place, the next token."""
        length = self._length
        return Samples(folder, self._training.data, lambda text: tokenise(text, length))

    def trim(self, batch: Batch, size: int, filled: int) -> Batch:
        """Cut to fewer tokens; filled up with tokens that count nothing."""
        tokens, following = (each[:, :size].contiguous() for each in batch)
        if filled <= size:
            return tokens, following
        return functional.pad(tokens, (0, filled - size)), functional.pad(following, (0, filled - size), value=-1)
