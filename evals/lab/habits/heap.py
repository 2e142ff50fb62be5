"""Many Python objects in the process, and how they are collected."""

from __future__ import annotations

import gc

from evals.lab.worlds import Habits


class Heap:
    """An index of objects that live as long as the training; collections on request, ranks in steps of their own."""

    def __init__(self, habits: Habits, rank: int, ranks: int) -> None:
        self._every = habits.collects_every if rank in habits.heap_on else 0
        self._turn = rank * (habits.collects_every // ranks)
        count = habits.heap_objects if rank in habits.heap_on else 0
        self._index = [{"sample": number, "parts": [number]} for number in range(count // 2)]
        if habits.heap_frozen:
            gc.collect()
            gc.freeze()

    def step(self, step: int) -> None:
        """After each step."""
        if self._every and step % self._every == self._turn:
            gc.collect()
