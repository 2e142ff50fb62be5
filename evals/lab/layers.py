"""Ways to compute the same layer: fused or as a chain, kept or recomputed, in single or double precision."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class ChainedGelu(nn.Module):
    """GELU in its tanh form, one operator per sign of the formula."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Element by element."""
        cubed = x * x * x
        inner = (x + cubed * 0.044715) * math.sqrt(2 / math.pi)
        return x * 0.5 * (torch.tanh(inner) + 1.0)


class Recomputed(nn.Module):
    """Keeps no activations of the layer; the backward pass computes them again."""

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


def recomputed(layer: nn.Module) -> nn.Module:
    """The layer without kept activations."""
    return Recomputed(layer)


def computed_in(layer: nn.Module, dtype: torch.dtype) -> nn.Module:
    """The layer in another type."""
    return ComputedIn(layer, dtype)
