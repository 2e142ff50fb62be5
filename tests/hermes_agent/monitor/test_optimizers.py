"""The own time of a rank by torch's optimizers, with the few methods of torch that the monitor uses."""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable

import pytest

from hermes_agent.monitor import format as layout
from hermes_agent.monitor.hooks import MOST_WATCHED, GradientWatch


class Hook:
    def __init__(self, where: list[Callable[..., None]], hook: Callable[..., None]) -> None:
        self._where, self._hook = where, hook
        where.append(hook)

    def remove(self) -> None:
        self._where.remove(self._hook)


class Weight:
    def __init__(self, trained: bool = True) -> None:
        self.requires_grad = trained
        self.hooks: list[Callable[..., None]] = []

    def register_post_accumulate_grad_hook(self, hook: Callable[[object], None]) -> Hook:
        return Hook(self.hooks, hook)


class Optimizer:
    def __init__(self, *groups: list[Weight]) -> None:
        self.param_groups = [{"params": each} for each in groups]


@pytest.fixture
def torch_hooks(monkeypatch: pytest.MonkeyPatch) -> list[Callable[..., None]]:
    hooks: list[Callable[..., None]] = []
    module = types.ModuleType("torch.optim.optimizer")
    monkeypatch.setattr(module, "register_optimizer_step_pre_hook", lambda hook: Hook(hooks, hook), raising=False)
    monkeypatch.setitem(sys.modules, "torch.optim.optimizer", module)
    return hooks


def test_the_first_trained_weight_of_each_group_is_watched_once_the_optimizer_has_stepped(
    torch_hooks: list[Callable[..., None]],
) -> None:
    totals = [0] * layout.TOTALS
    watch = GradientWatch(totals)
    assert watch.hook_torch()
    assert watch.hook_torch()
    (stepping,) = torch_hooks
    frozen, first, second, head = Weight(trained=False), Weight(), Weight(), Weight()
    optimizer = Optimizer([frozen, first, second], [head])
    stepping(optimizer, (), {})
    stepping(optimizer, (), {})
    assert [len(each.hooks) for each in (frozen, first, second, head)] == [0, 1, 0, 1]
    assert totals[layout.UPDATING] > 0
    assert totals[layout.READY] == 0
    head.hooks[0](head)
    early = totals[layout.READY]
    first.hooks[0](first)
    assert totals[layout.READY] > early > totals[layout.UPDATING]
    watch.stop()
    assert torch_hooks == first.hooks == head.hooks == []


def test_each_of_two_optimizers_closes_its_own_exchange(torch_hooks: list[Callable[..., None]]) -> None:
    """A GAN: the discriminator's gradients, its update, the generator's gradients, its update."""
    totals = [0] * layout.TOTALS
    GradientWatch(totals).hook_torch()
    (stepping,) = torch_hooks
    weights = Weight(), Weight()
    optimizers = [Optimizer([each]) for each in weights]
    for each in optimizers:  # their first steps, from which on their weights are watched
        stepping(each, (), {})
    assert totals[layout.EXCHANGED] == 0
    sums = []
    for weight, optimizer in zip(weights, optimizers, strict=True):
        weight.hooks[0](weight)
        ready = totals[layout.READY]
        stepping(optimizer, (), {})
        sums.append(totals[layout.UPDATING] - ready)
    assert totals[layout.EXCHANGED] == sum(sums)
    stepping(optimizers[0], (), {})  # a further update without new gradients
    assert totals[layout.EXCHANGED] == sum(sums)


def test_weights_that_take_no_hook_and_many_optimizers_do_no_harm(torch_hooks: list[Callable[..., None]]) -> None:
    class Unwilling(Weight):
        def register_post_accumulate_grad_hook(self, hook: Callable[[object], None]) -> Hook:
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")

    watch = GradientWatch([0] * layout.TOTALS)
    watch.hook_torch()
    torch_hooks[0](Optimizer([Unwilling()]), (), {})
    weights = [Weight() for _ in range(2 * MOST_WATCHED)]
    for each in weights:
        torch_hooks[0](Optimizer([each]), (), {})
    assert sum(len(each.hooks) for each in weights) == MOST_WATCHED - 1


def test_an_optimizer_on_another_thread_is_not_the_trainings(torch_hooks: list[Callable[..., None]]) -> None:
    totals = [0] * layout.TOTALS
    GradientWatch(totals).hook_torch()
    other = threading.Thread(target=torch_hooks[0], args=(Optimizer([Weight()]), (), {}))
    other.start()
    other.join()
    assert totals[layout.UPDATING] == 0


def test_without_torch_nothing_is_hooked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.optim.optimizer", None)
    assert not GradientWatch([0] * layout.TOTALS).hook_torch()
