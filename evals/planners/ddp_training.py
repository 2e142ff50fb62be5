"""One rank of data-parallel trainings over gloo, and of the measurements that their steps are predicted from.

Needs torch. Run as a program, with RANK, MASTER_ADDR and MASTER_PORT set: ``python ddp_training.py MODEL RUN...``,
each RUN a ``bucket_cap_mb`` (0 is PyTorch's default) or ``alone``: gradients that are not transferred, and the link
without a training. The runs take turns, a step each. Rank 0 prints one JSON object: medians by run.
"""

import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

RANKS = 2
WARM_UP, STEPS = 2, 12  # turns; in each all runs make one step, so that a slow moment hits all alike
BEHIND_TRANSFERS = 10  # added to the niceness of the computing thread: transfers go first, as on a device
LATENCY_ELEMENTS, BANDWIDTH_ELEMENTS = 1 << 10, 1 << 18  # float32: 4 KiB and 1 MiB
TRANSFERS = 2  # a turn
ALONE = "alone"
MODELS: dict[str, tuple[list[int], int]] = {  # widths of the layers, and the batch
    "small-many": ([96, 128] * 30, 2048),
    "narrow-deep": ([192, 256] * 16, 1536),
    "pyramid": ([1024, 768, 512, 384, 256, 192, 128, 96, 64], 1536),
    "wide": ([512, 640] * 4, 1024),
    "mixed": ([512, 64, 768, 32] * 8, 1536),
    "large-batch": ([320, 448] * 5, 4096),
}


def typical(values: list[float]) -> float:
    """The median over the turns of the slower rank of each turn: a bucket waits for both."""
    slower = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(slower, op=dist.ReduceOp.MAX)
    return float(slower.quantile(0.5))


def transfer_ms(elements: int) -> list[float]:
    """Times of an all-reduce, one behind the other as buckets are, nothing else running.

    A link that was idle passes the first bytes faster: its shaper has saved up some.
    """
    buffer, times = torch.ones(elements), []
    for number in range(1 + TRANSFERS):
        started = time.perf_counter()
        dist.all_reduce(buffer)
        if number:
            times.append(1000 * (time.perf_counter() - started))
    return times


def untransferred(_: None, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """A bucket as it is, at once."""
    done: torch.futures.Future[Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


class Training:
    """A perceptron in DistributedDataParallel, when its gradients are ready and how long its steps take."""

    def __init__(self, name: str, run: str) -> None:
        widths, batch = MODELS[name]
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.inputs, self.targets = torch.randn(batch, widths[0]), torch.randn(batch, widths[-1])
        cap = {} if run in (ALONE, "0") else {"bucket_cap_mb": float(run)}
        self.model = DistributedDataParallel(nn.Sequential(*layers), gradient_as_bucket_view=True, **cap)
        if run == ALONE:
            self.model.register_comm_hook(None, untransferred)
        self.sizes: dict[str, int] = {}
        self.ready_ms: dict[str, list[float]] = {}
        for part, parameter in self.model.named_parameters():
            self.sizes[part] = parameter.numel() * parameter.element_size()
            self.ready_ms[part] = []
            parameter.register_post_accumulate_grad_hook(self._hook(part))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)
        self.steps_ms: list[float] = []
        self.started = 0.0

    def _hook(self, part: str) -> Callable[[Tensor], None]:
        return lambda _: self.ready_ms[part].append(self._since_start())

    def _since_start(self) -> float:
        return 1000 * (time.perf_counter() - self.started)

    def step(self) -> None:
        """Make one step; both ranks start it together."""
        dist.barrier()
        self.started = time.perf_counter()
        nn.functional.mse_loss(self.model(self.inputs), self.targets).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        self.steps_ms.append(self._since_start())

    def record(self) -> dict[str, object]:
        """The gradients in order of readiness, the step, and what of it follows the last gradient."""
        moments = {part: typical(times[WARM_UP:]) for part, times in self.ready_ms.items()}
        last = [max(times) for times in zip(*self.ready_ms.values(), strict=True)]
        behind = [step - ready for step, ready in zip(self.steps_ms, last, strict=True)]
        return {
            "gradients": [
                {"name": part, "ready_ms": moments[part], "bytes": self.sizes[part]}
                for part in sorted(moments, key=lambda part: moments[part])
            ],
            "step_ms": typical(self.steps_ms[WARM_UP:]),
            "behind_ms": typical(behind[WARM_UP:]),
        }


def main() -> None:
    """Measure, and print what was measured."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=RANKS)
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), BEHIND_TRANSFERS)  # gloo has its threads by now
    name, *runs = sys.argv[1:]
    trainings = {run: Training(name, run) for run in runs}
    points: dict[int, list[float]] = {LATENCY_ELEMENTS: [], BANDWIDTH_ELEMENTS: []} if ALONE in runs else {}
    for _ in range(WARM_UP + STEPS):
        for training in trainings.values():
            training.step()
        for elements, times in points.items():
            times += transfer_ms(elements)
    measured = {
        "runs": {run: training.record() for run, training in trainings.items()},
        "points": [{"bytes": 4 * elements, "ms": typical(times)} for elements, times in points.items()],
    }
    if dist.get_rank() == 0:
        print(json.dumps(measured))
    dist.barrier()  # no rank leaves while another still transfers
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
