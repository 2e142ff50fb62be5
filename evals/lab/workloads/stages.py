"""Sequences and a language model cut into two stages, one a rank, that work on micro-batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

from evals.lab.layers import activation
from evals.lab.losses import token_loss
from evals.lab.samples import Samples, write_samples
from evals.lab.scenarios import Training
from evals.lab.workloads.tokens import VOCABULARY, raw_texts, tokenise
from evals.lab.workloads.workload import Batch

LENGTH = 64
BLOCKS = 6
WIDTHS = (160, 192, 128)


class Block(nn.Module):
    """A feed-forward layer with its shortcut: few operators, as every micro-batch passes all of them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), activation(False), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, tokens, width) to the same."""
        result: torch.Tensor = x + self.layers(x)
        return result


class Stages:
    """The workload ``stages``: both ranks draw the same batch; the first needs its tokens, the last its targets."""

    batch = 16

    def __init__(self, training: Training) -> None:
        self._training = training
        self._rank, ranks = dist.get_rank(), dist.get_world_size()
        self._last = self._rank == ranks - 1
        stage = part(training, self._rank)
        self.learns = stage
        kinds: dict[str, Any] = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}
        self._schedule = kinds[training.parallel.schedule](
            PipelineStage(stage, self._rank, ranks, torch.device(training.device)),
            n_microbatches=training.parallel.micro_batches,
            loss_fn=lambda scores, targets: token_loss(scores, targets, 0.0),
        )
        self._optimizer = torch.optim.SGD(stage.parameters(), lr=0.01, momentum=0.9)

    def write(self, folder: Path, rank: int) -> None:
        """The same on every rank."""
        prepared = torch.stack([tokenise(text, LENGTH) for text in raw_texts(0, 100)])
        write_samples(folder, prepared.numpy(), prepared.roll(-1, dims=1).numpy(), self._training.data)

    def samples(self, folder: Path) -> Samples:
        """Sequences with, at each place, the next token."""
        return Samples(folder, self._training.data, lambda text: tokenise(text, LENGTH))

    def trim(self, batch: Batch, size: int, filled: int) -> Batch:
        """Cut to fewer tokens."""
        return batch[0][:, :size], batch[1][:, :size]

    def step(self, batch: Batch) -> torch.Tensor:
        """All micro-batches through both stages and back, then the update; gives the mean loss on the last stage."""
        self._optimizer.zero_grad()
        losses: list[torch.Tensor] = []
        if self._last:
            self._schedule.step(target=batch[1], losses=losses)
        else:
            self._schedule.step(batch[0])
        self._optimizer.step()
        return torch.stack(losses).mean().detach() if losses else torch.zeros(())


def part(training: Training, rank: int) -> nn.Sequential:
    """The blocks of one stage; the first also embeds, the last also scores."""
    torch.manual_seed(7)
    width, first = WIDTHS[training.shape], training.parallel.first_stage_blocks
    blocks: list[nn.Module] = [Block(width) for _ in range(BLOCKS)]
    embed, score = nn.Embedding(VOCABULARY, width), nn.Linear(width, VOCABULARY)
    if rank == 0:
        return nn.Sequential(embed, *blocks[:first])
    return nn.Sequential(*blocks[first:], nn.LayerNorm(width), score)
