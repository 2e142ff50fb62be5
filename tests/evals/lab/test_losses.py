"""The loss in its two forms."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch (extra lab) is not installed")


def test_both_forms_give_the_same_loss_and_gradient() -> None:
    from evals.lab.losses import looped_loss, vectorised_loss

    generator = torch.Generator().manual_seed(0)
    labels = torch.tensor([0, 2, 1, 2])
    scores = torch.randn(4, 3, generator=generator, requires_grad=True)
    other = scores.detach().clone().requires_grad_()
    one, two = vectorised_loss(scores, labels), looped_loss(other, labels)
    one.backward()
    two.backward()
    assert one.item() == pytest.approx(two.item(), rel=1e-5)
    assert torch.allclose(scores.grad, other.grad, atol=1e-6)
