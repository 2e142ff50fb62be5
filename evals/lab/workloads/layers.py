"""Layers and losses in several forms: fused or as a chain, kept or recomputed, at once or number by number."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as functional
from torch import nn
from torch.utils.checkpoint import checkpoint

from evals.lab.scenarios import Program

SMOOTHING = 0.1


class ChainedGelu(nn.Module):
    """GELU in its tanh form, one operator per sign of the formula."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Element by element."""
        cubed = x * x * x
        inner = (x + cubed * 0.044715) * math.sqrt(2 / math.pi)
        return x * 0.5 * (torch.tanh(inner) + 1.0)


class Recomputed(nn.Module):
    """A layer that keeps no activations; the backward pass computes them again."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As the layer."""
        result: torch.Tensor = checkpoint(self.layer, x, use_reentrant=False)
        return result


class ComputedIn(nn.Module):
    """The layer with its parameters in another type; what goes in and comes out keeps its own."""

    def __init__(self, layer: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.layer, self.dtype = layer.to(dtype), dtype

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As the layer."""
        result: torch.Tensor = self.layer(x.to(self.dtype)).to(x.dtype)
        return result


def activation(chained: bool) -> nn.Module:
    """GELU, as one operator or as a chain of them."""
    return ChainedGelu() if chained else nn.GELU(approximate="tanh")


def stacked(program: Program, count: int, block_of: Callable[[int, nn.Module], nn.Module]) -> list[nn.Module]:
    """Blocks made of their place and activation; the first ones recomputed, the last ones in double precision."""
    blocks: list[nn.Module] = []
    for place in range(count):
        block = block_of(place, activation(place < program.chained_blocks))
        block = Recomputed(block) if place < program.recomputed_blocks else block
        blocks.append(ComputedIn(block, torch.float64) if place >= count - program.double_blocks else block)
    return blocks


def logistic_loss(scores: torch.Tensor, labels: torch.Tensor, looped_share: float) -> torch.Tensor:
    """Mean over samples of the summed one-against-all logistic loss with smoothed targets; scores are (n, classes)."""
    targets = functional.one_hot(labels, scores.shape[1]) * (1 - SMOOTHING) + SMOOTHING / scores.shape[1]
    looped = round(len(labels) * looped_share)
    total = functional.binary_cross_entropy_with_logits(scores[looped:], targets[looped:].to(scores), reduction="sum")
    for sample in range(looped):
        for label in range(scores.shape[1]):
            score, target = scores[sample, label], targets[sample, label]
            total = total + score.clamp(min=0) - score * target + (-score.abs()).exp().log1p()
    return total / len(labels)


def token_loss(scores: torch.Tensor, labels: torch.Tensor, looped_share: float) -> torch.Tensor:
    """Mean cross-entropy over tokens; scores are (n, tokens, vocabulary), a negative label counts nothing."""
    flat, wanted = scores.flatten(0, 1), labels.flatten()
    looped = round(len(wanted) * looped_share)
    total = functional.cross_entropy(flat[looped:], wanted[looped:], reduction="sum", ignore_index=-1)
    for place in range(looped):
        row = flat[place]
        total = total + row.logsumexp(0) - row[wanted[place]]
    return total / (wanted >= 0).sum()
