"""Cost that the monitor adds to a real training: ``python -m evals.benchmarks.monitor_overhead`` (extra ``lab``).

A pair is two neighbouring blocks of steps in random order, so that a machine that changes its speed changes it for
both; a block is one step unless set otherwise. In the bare ones neither the fetch is timed nor ``step`` called. The
monitor's own thread goes on through both: its CPU is read from its clock and added as if the training had waited
meanwhile, which is the most that it can cost.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from evals.benchmarks.monitor_cost import own_thread
from hermes_agent.monitor.procfs import thread_cpu_us
from hermes_agent.monitor.session import Monitor, Options

RESAMPLES = 2000
OUTSIDE = 0.025  # on each side of a 95 % interval


@dataclass(frozen=True)
class Median:
    """A median with its bootstrap interval of 95 %."""

    value: float
    low: float
    high: float

    def plus(self, more: float) -> Median:
        """With what is known for certain added."""
        return Median(self.value + more, self.low + more, self.high + more)

    def times(self, factor: float) -> Median:
        """In another unit; the factor is not negative."""
        return Median(self.value * factor, self.low * factor, self.high * factor)

    def text(self, digits: int) -> str:
        """As it is shown."""
        return f"{self.value:+.{digits}f} ({self.low:+.{digits}f} to {self.high:+.{digits}f})"


def median_with_interval(differences: Sequence[float]) -> Median:
    """Resamples the differences, the same way each time."""
    random = Random(1)
    medians = sorted(statistics.median(random.choices(differences, k=len(differences))) for _ in range(RESAMPLES))
    low, high = medians[int(OUTSIDE * RESAMPLES)], medians[RESAMPLES - 1 - int(OUTSIDE * RESAMPLES)]
    return Median(statistics.median(differences), low, high)


MODULE = "evals.benchmarks.monitor_overhead"
# Memory that goes back to the system after one step and is faulted in again in the next makes steps jump by a third.
KEPT_MEMORY = {name: str(1 << 30) for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")}
EPOCH_STEPS = 64
STARTING_S = 2.0  # what torch and the monitor do once is not a cost of each step
Train = Callable[[Any], None]


@dataclass(frozen=True)
class Block:
    """Mean wall time of a step, and mean CPU of the training thread."""

    wall_us: float
    cpu_us: float


@dataclass(frozen=True)
class Found:
    """Pairs of a bare and a monitored block, and CPU per step of all threads of the monitor but the training one."""

    pairs: list[tuple[Block, Block]]
    own_us: float


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark and prints its table as Markdown."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description=__doc__)
    parser.add_argument("--batch", type=int, default=128, help="images of a step, which say how long it takes")
    parser.add_argument("--block", type=int, default=1, help="steps of a block")
    parser.add_argument("--minutes", type=float, default=5.0)
    args = parser.parse_args(argv)
    if argv is None and not KEPT_MEMORY.keys() <= os.environ.keys():
        os.execve(sys.executable, [sys.executable, "-m", MODULE, *sys.argv[1:]], {**os.environ, **KEPT_MEMORY})
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    print(table(measured(args.batch, args.block, args.minutes)))
    return 0


def table(found: Found) -> str:
    """Medians of the pairs' differences with their intervals, in us and in per cent of the bare step."""
    lines = [
        f"{len(found.pairs)} pairs\n",
        "| per step | bare, ms | difference, us | difference, % |",
        "|---|---|---|---|",
    ]
    rows: dict[str, Callable[[Block], float]] = {
        "wall time": lambda block: block.wall_us,
        "CPU of the training thread": lambda block: block.cpu_us,
    }
    for name, of in rows.items():
        bare_us = statistics.median(of(bare) for bare, _ in found.pairs)
        added = median_with_interval([of(other) - of(bare) for bare, other in found.pairs])
        for title, each in ((name, added), (f"{name}, and CPU of the monitor's thread", added.plus(found.own_us))):
            share = each.times(100 / bare_us)
            lines.append(f"| {title} | {bare_us / 1e3:.2f} | {each.text(1)} | {share.text(3)} |")
    return "\n".join([*lines, f"| CPU of the monitor's thread | | {found.own_us:.1f} | |"])


def measured(batch: int, block: int, minutes: float) -> Found:
    """Pairs of blocks for so many minutes."""
    train, batches = training(batch)
    random, pairs = Random(1), []
    with (
        tempfile.TemporaryDirectory(prefix="hermes-bench-") as folder,
        Monitor(folder, options=Options(watch_loaders=False)) as monitor,
    ):
        watched = iter(monitor.loader(batches))
        started = time.monotonic() + STARTING_S
        while time.monotonic() < started:
            _block(train, watched, monitor.step, block)
        thread = own_thread()
        until, own_us = time.monotonic() + 60 * minutes, thread_cpu_us(thread)
        while time.monotonic() < until:
            blocks: dict[bool, Block] = {}
            for on in random.sample((True, False), 2):
                source, call = (watched, monitor.step) if on else (batches, lambda: None)
                blocks[on] = _block(train, source, call, block)
            pairs.append((blocks[False], blocks[True]))
        # Half of the steps were recorded; what the thread does by the clock is counted twice, which is too much.
        return Found(pairs, (thread_cpu_us(thread) - own_us) / (len(pairs) * block))


def _block(train: Train, batches: Iterator[Any], after_step: Callable[[], None], steps: int) -> Block:
    begun_ns, cpu_ns = time.perf_counter_ns(), time.thread_time_ns()
    for _ in range(steps):
        train(next(batches))
        after_step()
    wall_ns = time.perf_counter_ns() - begun_ns
    return Block(wall_ns / steps / 1e3, (time.thread_time_ns() - cpu_ns) / steps / 1e3)


def training(batch: int) -> tuple[Train, Iterator[Any]]:
    """A small classifier, one thread: what trains one step, and its batches without end."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    torch.manual_seed(1)
    layers = [nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    count = EPOCH_STEPS * batch
    points = TensorDataset(torch.randn(count, 3, 32, 32), torch.randint(0, 10, (count,)))

    def train(found: Any) -> None:  # noqa: ANN401 - tensors: torch is not there for the type checker
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(found[0]), found[1]).backward()
        optimizer.step()

    def batches() -> Iterator[Any]:
        while True:
            yield from DataLoader(points, batch_size=batch)

    return train, batches()


if __name__ == "__main__":
    raise SystemExit(main())
