"""One rank of a data-parallel training over gloo, or of the measurements that its step is predicted from; needs torch.

Run as a program, with RANK, MASTER_ADDR and MASTER_PORT set: ``python ddp_training.py MODEL costs`` or
``python ddp_training.py MODEL CAP_MB...`` (0 is PyTorch's default); rank 0 prints one JSON object.
"""

import itertools
import json
import os
import sys
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

RANKS = 2
WARM_UP, STEPS = 4, 16
TRANSFERS = 7  # of each size
TRANSFER_ELEMENTS = tuple(1 << power for power in range(10, 23, 2))  # float32: 4 KiB to 16 MiB
MODELS: dict[str, tuple[list[int], int]] = {  # widths of the layers, and the batch
    "small-many": ([96, 128] * 30, 1024),
    "narrow-deep": ([192, 256] * 24, 512),
    "pyramid": ([1536, 1024, 768, 512, 384, 256, 192, 128, 96, 64], 384),
    "wide": ([640, 512, 768] * 4, 384),
    "mixed": ([512, 64, 768, 32] * 8, 768),
    "large-batch": ([320, 448] * 12, 1024),
}


def step_ms(step: Callable[[], object]) -> list[float]:
    """Times of the steps after the warm-up; both ranks start each together."""
    times = []
    for number in range(WARM_UP + STEPS):
        dist.barrier()
        started = time.perf_counter()
        step()
        if number >= WARM_UP:
            times.append(1000 * (time.perf_counter() - started))
    return times


def median(values: list[float]) -> float:
    """The median, the larger one of both ranks."""
    slower = torch.tensor(sorted(values)[len(values) // 2], dtype=torch.float64)
    dist.all_reduce(slower, op=dist.ReduceOp.MAX)
    return float(slower)


def transfers() -> list[dict[str, float]]:
    """Median time of an all-reduce of each size, nothing else running."""
    points = []
    for elements in TRANSFER_ELEMENTS:
        buffer, times = torch.ones(elements), []
        for _ in range(TRANSFERS):
            dist.barrier()
            started = time.perf_counter()
            dist.all_reduce(buffer)
            times.append(1000 * (time.perf_counter() - started))
        points.append({"bytes": 4 * elements, "ms": median(times)})
    return points


class Training:
    """A perceptron, its data and its optimizer."""

    def __init__(self, name: str) -> None:
        widths, batch = MODELS[name]
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.model: nn.Module = nn.Sequential(*layers)
        self.inputs, self.targets = torch.randn(batch, widths[0]), torch.randn(batch, widths[-1])

    def distribute(self, cap_mb: float) -> None:
        """Reduce gradients in buckets of this size, 0 for the default."""
        cap = {"bucket_cap_mb": cap_mb} if cap_mb else {}
        self.model = DistributedDataParallel(self.model, gradient_as_bucket_view=True, **cap)

    def stepper(self) -> Callable[[], None]:
        """A function that makes one step."""
        optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)

        def step() -> None:
            nn.functional.mse_loss(self.model(self.inputs), self.targets).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)

        return step

    def costs(self) -> dict[str, object]:
        """The gradients in order of readiness, without any transfer, and what follows the last one."""
        ready: dict[str, list[float]] = {}
        sizes: dict[str, int] = {}
        started = [0.0]

        def hook(name: str) -> Callable[[Tensor], None]:
            return lambda _: ready.setdefault(name, []).append(1000 * (time.perf_counter() - started[0]))

        for name, parameter in self.model.named_parameters():
            sizes[name] = parameter.numel() * parameter.element_size()
            parameter.register_post_accumulate_grad_hook(hook(name))
        step = self.stepper()

        def timed() -> None:
            started[0] = time.perf_counter()
            step()

        whole_ms = step_ms(timed)
        moments = {name: median(times[-STEPS:]) for name, times in ready.items()}
        tails = [whole - max(times[-STEPS:][place] for times in ready.values()) for place, whole in enumerate(whole_ms)]
        in_order = sorted(moments, key=lambda name: moments[name])
        return {
            "gradients": [{"ready_ms": moments[name], "bytes": sizes[name]} for name in in_order],
            "update_ms": median(tails),
            "points": transfers(),
        }


def main() -> None:
    """Measure, and print what was measured."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    name, *words = sys.argv[1:]
    if words == ["costs"]:
        measured = Training(name).costs()
    else:
        measured = {}
        for word in words:
            training = Training(name)
            training.distribute(float(word))
            measured[word] = median(step_ms(training.stepper()))
    if rank == 0:
        print(json.dumps(measured))
    dist.barrier()  # no rank leaves while another still transfers
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
