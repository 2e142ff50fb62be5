"""Many Python objects in the process, and how they are collected."""

from __future__ import annotations

import gc
import io
import os
import threading
import time
from pathlib import Path

import torch

from evals.lab.environment_faults.store import store_of
from evals.lab.scenarios import ScriptOptions


class Heap:
    """An index of objects that live as long as the training; collections on request, ranks in steps of their own."""

    def __init__(self, script_options: ScriptOptions, rank: int, ranks: int) -> None:
        self._every = script_options.collects_every if rank in script_options.heap_on else 0
        self._turn = rank * (script_options.collects_every // ranks)
        count = script_options.heap_objects if rank in script_options.heap_on else 0
        self._index = [{"sample": number, "parts": [number]} for number in range(count // 2)]
        if script_options.heap_frozen:
            gc.collect()
            gc.freeze()

    def step(self, step: int) -> None:
        """After each step."""
        if self._every and step % self._every == self._turn:
            gc.collect()


LINE = "step {step} " + "x" * 1000 + "\n"


class Disk:
    """The folder that checkpoints and log lines go to, or the file server of the environment_faults."""

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

    def __init__(self, script_options: ScriptOptions, folder: Path, rank: int, model: torch.nn.Module | None) -> None:
        self._every, self._model = script_options.saves_every, model
        self._disk = Disk(folder, f"checkpoint{rank}", script_options.synced)
        self._state = torch.rand(script_options.saved_mb << 18)

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

    def __init__(self, script_options: ScriptOptions, folder: Path, rank: int) -> None:
        self._lines = script_options.log_lines
        self._disk = Disk(folder, f"log{rank}", script_options.synced)

    def step(self, step: int) -> None:
        """After each step."""
        for _ in range(self._lines):
            self._disk.append(LINE.format(step=step).encode())


TURN_S = 0.02


class SideThread:
    """Sums up texts for ``share`` of the time, until ended."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="statistics", daemon=True)
        if share:
            self._thread.start()

    def end(self) -> None:
        """Waits for the thread."""
        self._ended.set()
        if self._share:
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            until = time.perf_counter() + TURN_S * self._share
            seen: dict[str, int] = {}
            while time.perf_counter() < until:
                for word in ("loss", "rate", "norm"):
                    seen[word] = seen.get(word, 0) + len(word)
            if self._share < 1:
                time.sleep(TURN_S * (1 - self._share))
