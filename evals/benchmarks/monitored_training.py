"""A small training on two ranks whose rank 1 gets slow data at a given step: something for the monitor to notice.

``python -m evals.benchmarks.monitored_training RUN_FOLDER`` (extra ``lab``), watched by ``hermes-dx monitor``.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from hermes_agent import monitor

RANKS = 2
BATCH = 16


def main(argv: Sequence[str] | None = None) -> int:
    """Start both ranks and return the highest exit code, or be one of them where a launcher has set RANK."""
    parser = argparse.ArgumentParser(prog="python -m evals.benchmarks.monitored_training", description=__doc__)
    parser.add_argument("folder", metavar="RUN_FOLDER")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--fault-at", type=int, default=200, help="first step with slow data on rank 1")
    parser.add_argument("--passes", type=int, default=150, help="how dear the slow data are")
    args = parser.parse_args(argv)
    if "RANK" in os.environ:
        train(args.folder, args.steps, args.fault_at, args.passes)
        return 0
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(RANKS), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "evals.benchmarks.monitored_training", *(sys.argv[1:] if argv is None else argv)]
    ranks = [
        subprocess.Popen(command, env={**os.environ, **shared, "GLOO_SOCKET_IFNAME": "lo", "RANK": str(rank)})
        for rank in range(RANKS)
    ]
    return max(each.wait() for each in ranks)


def train(folder: str, steps: int, fault_at: int, passes: int) -> None:
    """One rank, from its data to the end of its monitor."""
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    layers = [nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)]
    model = DistributedDataParallel(nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = Points(dist.get_rank(), steps, fault_at, passes)

    monitor.start(folder, batch_size=BATCH)
    monitor.watch_model(model)
    for points, labels in DataLoader(data, batch_size=BATCH):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(points), labels).backward()
        optimizer.step()
        monitor.step()
    monitor.stop()
    # All is written. A thread of gloo that asks for the interpreter while it shuts down would abort the process.
    os._exit(0)


class Points:
    """A dataset as torch's loader takes it: the same points on both ranks, dear ones on rank 1 from a step on."""

    def __init__(self, rank: int, steps: int, fault_at: int, passes: int) -> None:
        self._rank, self._steps, self._fault_at, self._passes = rank, steps, fault_at, passes

    def __len__(self) -> int:
        return BATCH * self._steps

    def __getitem__(self, index: int) -> tuple[Any, int]:
        import torch

        point = torch.full((256,), index / len(self))
        if self._rank == 1 and index >= BATCH * self._fault_at:
            for _ in range(self._passes):  # an augmentation that is far too dear
                point = torch.sin(point) + 0.1
        return point, index % 10


if __name__ == "__main__":
    raise SystemExit(main())
