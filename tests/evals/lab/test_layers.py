"""The same layer computed in several ways."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch (extra lab) is not installed")


def test_the_chain_of_operators_gives_what_the_fused_activation_gives() -> None:
    from evals.lab.workloads.layers import activation

    x = torch.linspace(-4, 4, 50)
    assert torch.allclose(activation(True)(x), activation(False)(x), atol=1e-6)


def test_recomputed_and_kept_activations_give_the_same_gradient() -> None:
    from evals.lab.workloads.layers import Recomputed

    layer = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
    x, y = (torch.ones(2, 4, requires_grad=True) for _ in range(2))
    layer(x).sum().backward()
    Recomputed(layer)(y).sum().backward()
    assert torch.equal(x.grad, y.grad)
