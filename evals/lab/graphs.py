"""A step captured as one graph of the accelerator and replayed."""

from __future__ import annotations

from collections.abc import Callable

import torch

from evals.lab.workloads.workload import Batch

Step = Callable[[Batch], torch.Tensor]
WARMUPS = 3


class GraphedStep:
    """Runs a step from a graph, captured at the first batch or, with ``again``, at every one."""

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
