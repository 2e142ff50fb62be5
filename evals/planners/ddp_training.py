"""One rank of data-parallel trainings over gloo, and of the measurements that their steps are predicted from.

Needs torch. Run as a program, with RANK, MASTER_ADDR and MASTER_PORT set: ``python ddp_training.py MODEL CAP_MB...``
(0 is PyTorch's default). Rank 0 prints one JSON object: ``costs`` and the step with each bucket size in ms.
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
ROUNDS, WARM_UP, STEPS = 2, 1, 6  # in each round all is measured in turn, so that a slow moment hits all alike
QUIET = 0.25  # the quantile of all times that is taken: another process made the longer ones so long
BEHIND_TRANSFERS = 10  # added to the niceness of the computing thread: transfers go first, as on a device
LATENCY_ELEMENTS, BANDWIDTH_ELEMENTS = 1 << 10, 1 << 18  # float32: 4 KiB and 1 MiB
TRANSFERS = 4
MODELS: dict[str, tuple[list[int], int]] = {  # widths of the layers, and the batch
    "small-many": ([96, 128] * 30, 2048),
    "narrow-deep": ([192, 256] * 16, 1536),
    "pyramid": ([1024, 768, 512, 384, 256, 192, 128, 96, 64], 1536),
    "wide": ([512, 640] * 4, 1024),
    "mixed": ([512, 64, 768, 32] * 8, 1536),
    "large-batch": ([320, 448] * 5, 4096),
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


def quiet(values: list[float]) -> float:
    """The time when nothing else ran, the larger one of both ranks."""
    slower = torch.tensor(values, dtype=torch.float64).quantile(QUIET)
    dist.all_reduce(slower, op=dist.ReduceOp.MAX)
    return float(slower)


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


class Costs:
    """The gradients in order of readiness, in buckets that are not transferred, what follows the last one, the link."""

    def __init__(self, name: str) -> None:
        self.training = Training(name)
        self.sizes: dict[str, int] = {}
        self.ready_ms: dict[str, list[float]] = {}
        self.tails_ms: list[float] = []
        self.transfers_ms: dict[int, list[float]] = {LATENCY_ELEMENTS: [], BANDWIDTH_ELEMENTS: []}
        self.training.distribute(0)
        self.training.model.register_comm_hook(None, untransferred)
        for part, parameter in self.training.model.named_parameters():
            self.sizes[part] = parameter.numel() * parameter.element_size()
            self.ready_ms[part] = []
            parameter.register_post_accumulate_grad_hook(self._hook(part))
        self.step, self.started = self.training.stepper(), 0.0

    def _hook(self, part: str) -> Callable[[Tensor], None]:
        return lambda _: self.ready_ms[part].append(1000 * (time.perf_counter() - self.started))

    def _timed(self) -> None:
        self.started = time.perf_counter()
        self.step()

    def measure(self) -> None:
        """Add one round."""
        whole_ms = step_ms(self._timed)
        for times in self.ready_ms.values():
            del times[-WARM_UP - STEPS : -STEPS]
        self.tails_ms += [
            whole - max(times[place - STEPS] for times in self.ready_ms.values())
            for place, whole in enumerate(whole_ms)
        ]
        for elements, times in self.transfers_ms.items():
            times += transfer_ms(elements)

    def record(self) -> dict[str, object]:
        """All rounds together."""
        moments = {part: quiet(times) for part, times in self.ready_ms.items()}
        in_order = sorted(moments, key=lambda part: moments[part])
        return {
            "gradients": [{"ready_ms": moments[part], "bytes": self.sizes[part]} for part in in_order],
            "update_ms": quiet(self.tails_ms),
            "points": [{"bytes": 4 * elements, "ms": quiet(times)} for elements, times in self.transfers_ms.items()],
        }


def main() -> None:
    """Measure, and print what was measured."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo", rank=int(os.environ["RANK"]), world_size=RANKS)
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), BEHIND_TRANSFERS)  # gloo has its threads by now
    name, *caps = sys.argv[1:]
    costs, steps, times = Costs(name), {}, {cap: list[float]() for cap in caps}
    for cap in caps:
        training = Training(name)
        training.distribute(float(cap))
        steps[cap] = training.stepper()
    for _ in range(ROUNDS if caps else 1):
        costs.measure()
        for cap, step in steps.items():
            times[cap] += step_ms(step)
    measured = {"costs": costs.record(), "steps_ms": {cap: quiet(values) for cap, values in times.items()}}
    if dist.get_rank() == 0:
        print(json.dumps(measured))
    dist.barrier()  # no rank leaves while another still transfers
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
