"""A plain two-rank training as a user writes it, with ``monitor.step()`` alone; a fault starts on rank 1 in the middle.

Started by ``evals.lab.live_trials``, once for each rank, with the launcher's variables in the environment.
"""

from __future__ import annotations

import os
import sys
import time
from statistics import median

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from hermes_agent import monitor

BATCH = 16
WIDTH = 1024
FAULTY_RANK = 1
MEASURED = 50  # steps before the fault whose median is the usual step


class Delay:
    """Milliseconds that the fault adds to a step of this rank; 0 before it starts and on the other rank."""

    ms = 0.0


class Points(Dataset[tuple[torch.Tensor, int]]):
    """Generated points; reading one of them gets slow with the fault ``data``."""

    def __init__(self, steps: int, fault: str) -> None:
        self._length, self._fault = BATCH * steps, fault

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if self._fault == "data":
            read_slowly(Delay.ms / BATCH)
        return torch.full((WIDTH,), index / self._length), index % 10


def read_slowly(duration_ms: float) -> None:
    """Decode for that long."""
    end_s = time.perf_counter() + duration_ms / 1e3
    point = torch.ones(256)
    while time.perf_counter() < end_s:
        point = torch.sin(point) + 0.1


def count_words(duration_ms: float) -> int:
    """Work in Python for that long."""
    words, end_s = 0, time.perf_counter() + duration_ms / 1e3
    while time.perf_counter() < end_s:
        words += 1
    return words


def send_metrics(duration_ms: float) -> None:
    """Wait for a server for that long."""
    if duration_ms:
        time.sleep(duration_ms / 1e3)


def main(folder: str, fault: str, share: float, steps: int, fault_at: int) -> None:
    """Train one rank; from step ``fault_at`` on rank 1 loses ``share`` of its usual step to the fault."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    layers = [
        nn.Linear(WIDTH, 2 * WIDTH),
        nn.ReLU(),
        nn.Linear(2 * WIDTH, 2 * WIDTH),
        nn.ReLU(),
        nn.Linear(2 * WIDTH, 10),
    ]
    model = DistributedDataParallel(nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    monitor.start(folder)
    times_ms: list[float] = []
    last_s = time.perf_counter()
    for number, (points, labels) in enumerate(DataLoader(Points(steps, fault), batch_size=BATCH)):
        if fault == "host":
            count_words(Delay.ms)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(points), labels)
        loss.backward()
        optimizer.step()
        if fault == "sleep":
            send_metrics(Delay.ms)
        monitor.step()
        now_s = time.perf_counter()
        times_ms.append(1e3 * (now_s - last_s))
        last_s = now_s
        if number + 1 == fault_at and dist.get_rank() == FAULTY_RANK:
            Delay.ms = share * median(times_ms[-MEASURED:])
    monitor.stop()
    os._exit(0)  # all is written; a thread of gloo may abort the process while the interpreter shuts down


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
