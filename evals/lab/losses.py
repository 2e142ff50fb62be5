"""Losses written twice: over the whole batch, and number by number."""

from __future__ import annotations

import torch
import torch.nn.functional as functional

SMOOTHING = 0.1


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
