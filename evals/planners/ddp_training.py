"""A data-parallel training over gloo that reports when each bucket was ready and transferred; needs torch.

Run as a program: ``python ddp_training.py MODEL BUCKET_CAP_MB STEPS``; prints one JSON object.
"""

import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

WARM_UP = 8
KEPT = 0.8  # of the steps: the slowest are those that another process interrupted
RANKS = 2
MODELS: dict[str, tuple[list[int], int]] = {  # widths of the layers, and the batch
    "small-many": ([96, 128] * 30, 512),
    "narrow-deep": ([64, 48] * 50, 1024),
    "pyramid": ([1024, 768, 512, 384, 256, 192, 128, 96, 64, 48, 32, 16], 96),
    "wide": ([640, 512, 768] * 4, 64),
    "mixed": ([512, 64, 256, 32] * 8, 512),
    "large-batch": ([160, 224] * 12, 512),
}


class Recorder:
    """Bytes, ready time, time to launch and done time of the buckets of one step, in s from its start."""

    def __init__(self) -> None:
        self.start = time.perf_counter()
        self.buckets: dict[int, list[float]] = {}

    def restart(self) -> None:
        self.start = time.perf_counter()
        self.buckets = {}

    def hook(self, _: None, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
        index, buffer = bucket.index(), bucket.buffer()
        ready_s = time.perf_counter() - self.start
        entry = self.buckets[index] = [buffer.numel() * buffer.element_size(), ready_s, 0.0, ready_s]
        future = dist.all_reduce(buffer.div_(RANKS), async_op=True).get_future()

        def done(finished: torch.futures.Future[list[Tensor]]) -> Tensor:
            entry[3] = time.perf_counter() - self.start
            return finished.value()[0]

        chained = future.then(done)
        entry[2] = time.perf_counter() - self.start - ready_s
        return chained


def train(rank: int, name: str, cap_mb: float, steps: int, folder: str) -> None:
    """One rank; rank 0 writes what it saw."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=RANKS)
    widths, batch = MODELS[name]
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    model = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=cap_mb)
    recorder = Recorder()
    model.register_comm_hook(None, recorder.hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    inputs, targets = torch.randn(batch, widths[0]), torch.randn(batch, widths[-1])
    seen: list[dict[str, object]] = []
    for step in range(WARM_UP + steps):
        dist.barrier()  # so that no rank waits for the start of the other
        recorder.restart()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
        step_s = time.perf_counter() - recorder.start
        if step >= WARM_UP:
            seen.append({"step_s": step_s, "buckets": [recorder.buckets[each] for each in sorted(recorder.buckets)]})
    if rank == 0:
        Path(folder, "seen.json").write_text(json.dumps(seen))
    dist.barrier()  # no rank leaves while another still transfers
    dist.destroy_process_group()


def main() -> None:
    """Train on two ranks and print means over the steps, in ms."""
    name, cap_mb, steps = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        spawn(train, args=(name, cap_mb, steps, folder), nprocs=RANKS)
        seen = json.loads(Path(folder, "seen.json").read_text())
    seen = sorted(seen, key=lambda step: step["step_s"])[: int(len(seen) * KEPT)]

    def mean_ms(index: int, column: int) -> float:
        return 1000 * statistics.fmean(step["buckets"][index][column] for step in seen)

    buckets = [
        {
            "bytes": seen[0]["buckets"][index][0],
            "ready_ms": mean_ms(index, 1),
            "launch_ms": mean_ms(index, 2),
            "done_ms": mean_ms(index, 3),
        }
        for index in range(len(seen[0]["buckets"]))
    ]
    tails = [1000 * (step["step_s"] - max(bucket[3] for bucket in step["buckets"])) for step in seen]
    print(
        json.dumps(
            {
                "model": name,
                "bucket_cap_mb": cap_mb,
                "step_ms": 1000 * statistics.fmean(step["step_s"] for step in seen),
                "update_ms": statistics.fmean(tails),
                "buckets": buckets,
            }
        )
    )


if __name__ == "__main__":
    main()
