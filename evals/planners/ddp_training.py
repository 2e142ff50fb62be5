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
TRANSFER_ELEMENTS = tuple(1 << power for power in range(14, 21, 2))  # float32: 64 KiB to 4 MiB, as buckets are
TRANSFERRED_ELEMENTS = 1 << 20  # of each size, in all
MODELS: dict[str, tuple[list[int], int]] = {  # widths of the layers, and the batch
    "small-many": ([96, 128] * 30, 2048),
    "narrow-deep": ([192, 256] * 24, 1536),
    "pyramid": ([1536, 1024, 768, 512, 384, 256, 192, 128, 96, 64], 1024),
    "wide": ([640, 512, 768] * 4, 1024),
    "mixed": ([512, 64, 768, 32] * 8, 1536),
    "large-batch": ([320, 448] * 12, 2048),
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
    """Time of an all-reduce of each size, one behind the other as buckets are, nothing else running.

    A link that was idle passes the first bytes faster: its shaper has saved up some.
    """
    points = []
    for elements in TRANSFER_ELEMENTS:
        buffer = torch.ones(elements)
        count = max(3, TRANSFERRED_ELEMENTS // elements)
        for _ in range(WARM_UP):
            dist.all_reduce(buffer[: TRANSFER_ELEMENTS[-2]])
        dist.barrier()
        started = time.perf_counter()
        for _ in range(count):
            dist.all_reduce(buffer)
        points.append({"bytes": 4 * elements, "ms": median([1000 * (time.perf_counter() - started) / count])})
    return points


def untransferred(_: None, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """A bucket as it is, at once."""
    done: torch.futures.Future[Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


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
        """The gradients in order of readiness, in buckets that are not transferred, and what follows the last one."""
        self.distribute(0)
        self.model.register_comm_hook(None, untransferred)
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
