"""One loss written twice: over the whole batch, and number by number."""

from __future__ import annotations

import torch
import torch.nn.functional as functional

SMOOTHING = 0.1


def _targets(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    classes = scores.shape[1]
    return functional.one_hot(labels, classes) * (1 - SMOOTHING) + SMOOTHING / classes


def vectorised_loss(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Mean over samples of the summed one-against-all logistic loss with smoothed targets; scores are (n, classes)."""
    targets = _targets(scores, labels)
    return functional.binary_cross_entropy_with_logits(scores, targets, reduction="sum") / len(labels)


def looped_loss(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The same number, computed in a Python loop over samples and classes."""
    targets = _targets(scores, labels)
    total = scores.new_zeros(())
    for sample in range(scores.shape[0]):
        for label in range(scores.shape[1]):
            score, target = scores[sample, label], targets[sample, label]
            total = total + score.clamp(min=0) - score * target + (-score.abs()).exp().log1p()
    return total / len(labels)
