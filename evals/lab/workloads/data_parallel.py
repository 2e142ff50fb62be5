"""A workload of the lab, and its step with data parallelism as the options of the scenario have it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Dataset

from evals.lab.scenarios import Training

Batch = tuple[torch.Tensor, torch.Tensor]
Step = Callable[[Batch], torch.Tensor]
WARMUPS = 3


class Workload(Protocol):
    """Samples and a step; one object per rank."""

    batch: int  # samples a step and rank
    learns: torch.nn.Module | None  # signals when the last gradient is ready

    def write(self, folder: Path, rank: int) -> None:
        """Put the rank's samples on its disk."""

    def samples(self, folder: Path) -> Dataset[Batch]:
        """The samples as the loader reads them."""

    def trim(self, batch: Batch, size: int, filled: int) -> Batch:
        """The batch cut to ``size`` and, where that is more, filled up to ``filled`` again."""

    def step(self, batch: Batch) -> torch.Tensor:
        """Forward, backward and update; gives the loss, which may lie on the accelerator."""


class GraphedStep:
    """A step replayed from a graph of the accelerator, captured at the first batch or, with ``again``, at every one."""

    def __init__(self, step: Step, again: bool) -> None:
        self._step, self._again = step, again
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, batch: Batch) -> torch.Tensor:
        """Replay on this batch; gives the loss, which the next call overwrites."""
        if self._graph is None:
            self._held = (batch[0].clone(), batch[1].clone())
            self._warm_up()
        for held, new in zip(self._held, batch, strict=True):
            held.copy_(new)
        if self._graph is None or self._again:
            self._capture()
        assert self._graph is not None
        self._graph.replay()
        return self._loss

    def _warm_up(self) -> None:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARMUPS):
                self._step(self._held)
        torch.cuda.current_stream().wait_stream(stream)

    def _capture(self) -> None:
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._loss = self._step(self._held)


Loss = Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor]
SMALL_NUMBERS = 16


class Gated(nn.Module):
    """A model whose result is shifted by many small parameters."""

    def __init__(self, model: nn.Module, parameters: int) -> None:
        super().__init__()
        self.model = model
        self.shifts = nn.ParameterList([nn.Parameter(torch.zeros(SMALL_NUMBERS)) for _ in range(parameters)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As the model, at first."""
        shift = torch.cat(list(self.shifts)).mean()
        return torch.add(self.model(x), shift)


def average_gradients(model: nn.Module, one_by_one: bool) -> None:
    """All gradients in one message, or each in its own, after the backward pass."""
    gradients = [each.grad for each in model.parameters() if each.grad is not None]
    if one_by_one:
        for each in gradients:
            dist.all_reduce(each)
            each /= dist.get_world_size()
        return
    flat = torch.cat([each.flatten() for each in gradients])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    start = 0
    for each in gradients:
        each.copy_(flat[start : start + each.numel()].view_as(each))
        start += each.numel()


def read_statistics(model: nn.Module, share: float) -> float:
    """A sum of statistics of the rows of parameters and gradients, each number read by itself."""
    total = 0.0
    found = [tensor for each in model.parameters() for tensor in (each.detach(), each.grad) if tensor is not None]
    for tensor in found:
        rows = tensor.flatten(1) if tensor.dim() > 1 else tensor[None]
        for row in rows[: max(1, round(len(rows) * share))]:
            total += row.abs().max().item() + row.mean().item() + row.std().item()
    return total


class DataParallelStep:
    """Forward, backward, update; the knobs of the scenario decide how."""

    def __init__(self, training: Training, model: nn.Module, loss: Loss) -> None:
        self._training, self._loss = training, loss
        if training.parallel.small_parameters:
            model = Gated(model, training.parallel.small_parameters)
        if training.program.double_blocks > 9:
            model = model.double()
        self.learns = model.to(training.device)
        compiler: Any = training.program.compiler
        self._model: nn.Module = self.learns
        if compiler:
            torch._dynamo.config.recompile_limit = 256
            self._model = torch.compile(self.learns, backend=compiler, dynamic=False)
        if dist.get_world_size() > 1 and training.parallel.overlapped:
            self._model = DistributedDataParallel(self._model, bucket_cap_mb=training.parallel.bucket_mb)
        self._optimizer = torch.optim.SGD(self.learns.parameters(), lr=0.01, momentum=0.9)
        self._last = 0.0
        graph = training.program.graph
        self._run = GraphedStep(self._update, graph == "again") if graph else self._update

    def step(self, batch: Batch) -> torch.Tensor:
        """One update; gives the loss."""
        loss = self._run(batch)
        if self._training.program.cache_emptied:
            torch.cuda.empty_cache()
        return loss

    def _update(self, batch: Batch) -> torch.Tensor:
        program = self._training.program
        inputs, targets = batch
        if program.double_blocks > 9 and inputs.is_floating_point():
            inputs = inputs.double()
        self._optimizer.zero_grad()
        with torch.autocast(self._training.device, torch.bfloat16, enabled=program.precision == "bf16"):
            loss = self._loss(self._model(inputs), targets, program.looped_share)
        loss.backward()
        if not self._training.parallel.overlapped:
            average_gradients(self.learns, self._training.parallel.one_by_one)
        if program.statistics_share:
            self._last = read_statistics(self.learns, program.statistics_share)
        self._optimizer.step()
        return loss.detach()
