"""The losses in their two forms."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch (extra lab) is not installed")


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_both_forms_of_the_image_loss_agree_in_value_and_gradient(share: float) -> None:
    from evals.lab.workloads.layers import logistic_loss

    generator = torch.Generator().manual_seed(0)
    labels = torch.tensor([0, 2, 1, 2])
    scores = torch.randn(4, 3, generator=generator, requires_grad=True)
    other = scores.detach().clone().requires_grad_()
    one, two = logistic_loss(scores, labels, 0.0), logistic_loss(other, labels, share)
    one.backward()
    two.backward()
    assert one.item() == pytest.approx(two.item(), rel=1e-5)
    assert torch.allclose(scores.grad, other.grad, atol=1e-6)


def test_both_forms_of_the_token_loss_agree() -> None:
    from evals.lab.workloads.layers import token_loss

    scores = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(10).view(2, 5) % 7
    assert token_loss(scores, labels, 0.0).item() == pytest.approx(token_loss(scores, labels, 0.6).item(), rel=1e-5)
