"""Checkpoints and log lines."""

from __future__ import annotations

import io
import os
from pathlib import Path

import torch

from evals.lab.surroundings.store import store_of
from evals.lab.worlds import Habits

LINE = "step {step} " + "x" * 1000 + "\n"


class Disk:
    """The folder that checkpoints and log lines go to, or the file server of the surroundings."""

    def __init__(self, folder: Path, name: str, synced: bool) -> None:
        self._folder, self._name, self._synced = folder, name, synced
        self._store = store_of(folder, os.environ)

    def write(self, content: bytes) -> None:
        """Replaces what is there."""
        self._store.write(self._name, content)
        self._sync()

    def append(self, content: bytes) -> None:
        """Adds to what is there."""
        self._store.append(self._name, content)
        self._sync()

    def _sync(self) -> None:
        if self._synced:
            with (self._folder / self._name).open("rb") as file:
                os.fsync(file.fileno())


class Saving:
    """Writes the model and other state every few steps; training waits."""

    def __init__(self, habits: Habits, folder: Path, rank: int, model: torch.nn.Module | None) -> None:
        self._every, self._model = habits.saves_every, model
        self._disk = Disk(folder, f"checkpoint{rank}", habits.synced)
        self._state = torch.rand(habits.saved_mb << 18)

    def step(self, step: int) -> None:
        """After each step."""
        if not self._every or step % self._every:
            return
        content = io.BytesIO()
        model = self._model.state_dict() if self._model is not None else {}
        torch.save({"step": step, "model": model, "state": self._state}, content)
        self._disk.write(content.getvalue())


class StepLines:
    """Log lines after each step, safe before training goes on."""

    def __init__(self, habits: Habits, folder: Path, rank: int) -> None:
        self._lines = habits.log_lines
        self._disk = Disk(folder, f"log{rank}", habits.synced)

    def step(self, step: int) -> None:
        """After each step."""
        for _ in range(self._lines):
            self._disk.append(LINE.format(step=step).encode())
