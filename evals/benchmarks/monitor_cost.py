"""What the monitor costs: CPU per step, and the step time of a real training without it, with it and with a profiler.

``python -m evals.benchmarks.monitor_cost`` (the training needs the extra ``lab``; without torch it is left out and
said so).
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from pathlib import Path

from hermes_agent.monitor.options import Options
from hermes_agent.monitor.session import Monitor

WAYS = ("bare", "monitor", "profiler")


@dataclass(frozen=True)
class Block:
    """Some steps of one kind: median wall time of a step, and CPU time of the training thread per step."""

    wall_ms: float
    thread_cpu_ms: float


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark and prints the tables as Markdown."""
    args = _parser().parse_args(argv)
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()} {platform.machine()}\n")
    print("| CPU per step | us |\n|---|---|")
    for name, cost_us in (calls_cost(args.calls) | paced_cost(args.paced)).items():
        print(f"| {name} | {cost_us:.1f} |")
    print()
    if find_spec("torch") is None:
        print("The A/B of a training was left out: torch is not installed (extra `lab`).")
        return 0
    print(training_table(args.rounds, args.steps))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m evals.benchmarks.monitor_cost", description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000, help="steps of the empty loops")
    parser.add_argument("--paced", type=int, default=250, help="steps of the loop that sleeps")
    parser.add_argument("--rounds", type=int, default=8, help="rounds of the training: bare, monitor, profiler")
    parser.add_argument("--steps", type=int, default=40, help="steps per round and way")
    return parser


def calls_cost(calls: int) -> dict[str, float]:
    """CPU of the training thread per step in us, the empty loop taken off."""
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as folder:
        with Monitor(folder, options=Options(capacity=1 << 16)) as monitor:
            step = _per_call(monitor.step, calls)
        with Monitor(folder, options=Options(capacity=1 << 16)) as monitor:
            source = iter(monitor.loader(count()))
            fetched = _per_call(lambda: monitor.step(next(source)), calls)
    empty = _per_call(lambda: None, calls)
    return {"`monitor.step()`": step - empty, "`monitor.step()` and a timed fetch": fetched - empty}


def _per_call(call: Callable[[], object], calls: int) -> float:
    begun_ns = time.thread_time_ns()
    for _ in range(calls):
        call()
    return (time.thread_time_ns() - begun_ns) / calls / 1e3


def paced_cost(steps: int) -> dict[str, float]:
    """CPU per step in us where 20 ms lie between two steps, so that the caches have forgotten them.

    The reading of the clock, which is as cold, is taken off.
    """
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as folder, Monitor(folder) as monitor:
        begun_ns = time.process_time_ns()
        own = [_after_work(monitor.step) for _ in range(steps)]
        all_us = (time.process_time_ns() - begun_ns) / steps / 1e3
    begun_ns = time.process_time_ns()
    empty = [_after_work(lambda: None) for _ in range(steps)]
    empty_us = (time.process_time_ns() - begun_ns) / steps / 1e3
    return {
        "`monitor.step()` after 20 ms of sleep (cold caches), median": statistics.median(own)
        - statistics.median(empty),
        "all threads, steps of 20 ms (sleeping), with flushing and sampling": all_us - empty_us,
    }


def _after_work(call: Callable[[], None]) -> float:
    time.sleep(0.02)
    begun_ns = time.thread_time_ns()
    call()
    return (time.thread_time_ns() - begun_ns) / 1e3


def training_table(rounds: int, steps: int) -> str:
    """Blocks of the same training in turn, so that a machine that changes its speed changes it for all."""
    train = _training()
    train(lambda: None, steps)  # warm-up
    blocks: dict[str, list[Block]] = {way: [] for way in WAYS}
    for turn in range(rounds):
        for way in WAYS if turn % 2 else reversed(WAYS):
            blocks[way].append(_block(way, train, steps))
    lines = [f"{rounds} rounds of {steps} steps each, in turn", ""]
    lines += ["| training | step ms (median) | CPU of the training thread per step, ms | step time against bare |"]
    lines.append("|---|---|---|---|")
    for way in WAYS:
        wall = statistics.median(each.wall_ms for each in blocks[way])
        cpu = statistics.median(each.thread_cpu_ms for each in blocks[way])
        pairs = zip(blocks[way], blocks["bare"], strict=True)
        ratios = sorted(one.wall_ms / bare.wall_ms - 1 for one, bare in pairs)
        against = f"{100 * statistics.median(ratios):+.2f} % ({100 * ratios[0]:+.2f} to {100 * ratios[-1]:+.2f})"
        lines.append(f"| {way} | {wall:.3f} | {cpu:.3f} | {against if way != 'bare' else ''} |")
    return "\n".join(lines)


def _block(way: str, train: Callable[[Callable[[], None], int], Block], steps: int) -> Block:
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as folder:
        if way == "monitor":
            with Monitor(folder) as monitor:
                return train(monitor.step, steps)
        if way == "profiler":
            from torch.profiler import ProfilerActivity, profile

            with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as watching:
                block = train(watching.step, steps)
            watching.export_chrome_trace(str(Path(folder) / "trace.json"))
            return block
    return train(lambda: None, steps)


def _training() -> Callable[[Callable[[], None], int], Block]:
    """A small classifier, one thread; gives a function that trains some steps and calls back after each."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(1)
    torch.manual_seed(1)
    layers = [nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    points = TensorDataset(torch.randn(512, 3, 32, 32), torch.randint(0, 10, (512,)))

    def train(after_step: Callable[[], None], steps: int) -> Block:
        walls: list[float] = []
        cpu_ns = time.thread_time_ns()
        while len(walls) < steps:
            for images, labels in DataLoader(points, batch_size=32):
                begun_ns = time.perf_counter_ns()
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(images), labels).backward()
                optimizer.step()
                after_step()
                walls.append((time.perf_counter_ns() - begun_ns) / 1e6)
        return Block(statistics.median(walls), (time.thread_time_ns() - cpu_ns) / len(walls) / 1e6)

    return train


if __name__ == "__main__":
    raise SystemExit(main())
