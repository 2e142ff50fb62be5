"""Sequences and a language model whose feed-forward layers are experts spread over the ranks."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from evals.lab.data_parallel import DataParallelStep
from evals.lab.losses import token_loss
from evals.lab.samples import Samples, write_samples
from evals.lab.scenarios import Training
from evals.lab.workloads.tokens import VOCABULARY, raw_texts, tokenise
from evals.lab.workloads.workload import Batch

LENGTH = 96
SHAPES = ((128, 2, 2), (160, 2, 4), (96, 3, 2))  # width, layers, experts a rank
EXPERT_WIDTH = 9  # times the width


class Exchange(torch.autograd.Function):
    """Rows to the rank that computes them: ``sent`` and ``received`` rows per rank."""

    @staticmethod
    def forward(ctx: object, rows: torch.Tensor, sent: list[int], received: list[int]) -> torch.Tensor:
        """Rows of all ranks for this one, in the order of the ranks."""
        ctx.sizes = (sent, received)  # type: ignore[attr-defined]
        return exchanged(rows, sent, received)

    @staticmethod
    def backward(ctx: object, grown: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        """The gradients travel back."""
        sent, received = ctx.sizes  # type: ignore[attr-defined]
        return exchanged(grown, received, sent), None, None


def exchanged(rows: torch.Tensor, sent: list[int], received: list[int]) -> torch.Tensor:
    """One all-to-all of rows."""
    result = rows.new_empty(sum(received), *rows.shape[1:])
    dist.all_to_all_single(result, rows.contiguous(), received, sent)
    return result


class ExpertLayer(nn.Module):
    """Each token goes to one expert; a router with fixed random weights and a share of hot tokens decides."""

    def __init__(self, width: int, experts: int, hot_share: float) -> None:
        super().__init__()
        ranks, rank = dist.get_world_size(), dist.get_rank()
        self._experts, self._ranks, self._hot_share = experts, ranks, hot_share
        self.norm = nn.LayerNorm(width)
        generator = torch.Generator().manual_seed(50 + rank)
        self.experts = nn.ModuleList([_expert(width, generator) for _ in range(experts)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, tokens, width) to the same."""
        rows = self.norm(x).flatten(0, 1)
        chosen = self._route(rows)
        order = torch.argsort(chosen, stable=True)
        counts = torch.bincount(chosen, minlength=self._ranks * self._experts)
        coming = torch.empty_like(counts)
        dist.all_to_all_single(coming, counts)
        sent = counts.view(self._ranks, -1).sum(1).tolist()
        received = coming.view(self._ranks, -1).sum(1).tolist()
        here = Exchange.apply(rows[order], sent, received)
        back = Exchange.apply(self._compute(here, coming), received, sent)
        shaped: torch.Tensor = x + torch.zeros_like(rows).index_copy(0, order, back).view_as(x)
        return shaped

    def _route(self, rows: torch.Tensor) -> torch.Tensor:
        """The expert of each row: as many rows for each, but for the hot ones, which the first rank's experts get."""
        count, experts = len(rows), self._ranks * self._experts
        key = (rows.detach() @ torch.ones(rows.shape[1], 1, dtype=rows.dtype)).flatten()
        even = torch.argsort(torch.argsort(key)) * experts // count
        hot = torch.arange(count) % 100 < round(self._hot_share * 100)
        return torch.where(hot, even % self._experts, even)

    def _compute(self, rows: torch.Tensor, coming: torch.Tensor) -> torch.Tensor:
        """The rows of this rank's experts, which lie by sender and then by expert."""
        pieces = rows.split(coming.tolist())
        computed: list[torch.Tensor] = [rows] * len(pieces)
        for place, expert in enumerate(self.experts):
            mine = range(place, len(pieces), self._experts)
            result = expert(torch.cat([pieces[each] for each in mine]))
            for each, part in zip(mine, result.split([len(pieces[each]) for each in mine]), strict=True):
                computed[each] = part
        return torch.cat(computed)


class AttentionLayer(nn.Module):
    """Causal attention with its shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(n, tokens, width) to the same."""
        parts = self.mixed(self.norm(x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
        result: torch.Tensor = x + self.out(seen.transpose(1, 2).flatten(2))
        return result


def network(training: Training) -> nn.Sequential:
    """The part of the experts is this rank's own; all else is the same on every rank."""
    torch.manual_seed(7)
    width, blocks, experts = SHAPES[training.shape]
    layers: list[nn.Module] = [nn.Embedding(VOCABULARY, width)]
    for _ in range(blocks):
        layers += [AttentionLayer(width), ExpertLayer(width, experts, training.parallel.hot_share)]
    return nn.Sequential(*layers, nn.Linear(width, VOCABULARY))


class Experts(DataParallelStep):
    """The workload ``experts``."""

    batch = 8

    def __init__(self, training: Training) -> None:
        model = network(training)
        own = [name for name, _ in model.named_parameters() if ".experts." in name]
        model._ddp_params_and_buffers_to_ignore = own  # type: ignore[assignment]
        super().__init__(training, model, token_loss)

    def write(self, folder: Path, rank: int) -> None:
        """As numbers."""
        prepared = torch.stack([tokenise(text, LENGTH) for text in raw_texts(rank, 100)])
        write_samples(folder, prepared.numpy(), prepared.roll(-1, dims=1).numpy(), self._training.data)

    def samples(self, folder: Path) -> Samples:
        """Sequences with, at each place, the next token."""
        return Samples(folder, self._training.data, lambda text: tokenise(text, LENGTH))

    def trim(self, batch: Batch, size: int, filled: int) -> Batch:
        """Cut to fewer tokens."""
        return batch[0][:, :size], batch[1][:, :size]


def _expert(width: int, generator: torch.Generator) -> nn.Sequential:
    expert = nn.Sequential(nn.Linear(width, EXPERT_WIDTH * width), nn.GELU(), nn.Linear(EXPERT_WIDTH * width, width))
    with torch.no_grad():
        for each in expert.parameters():
            each.copy_(torch.randn(each.shape, generator=generator) * 0.02)
    return expert
