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
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from random import Random

from hermes_agent.monitor.options import Options
from hermes_agent.monitor.session import Monitor

STARTING = 50  # steps of 20 ms: what is written once at the start is not a cost of each step
WAYS = ("bare", "monitor", "profiler")
SWEPT = 4 << 20  # numbers of 8 bytes
RESAMPLES = 2000


@dataclass(frozen=True)
class Block:
    """Some steps of one kind: mean wall time of a step, and CPU of the training thread per step."""

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
    parser.add_argument("--rounds", type=int, default=30, help="rounds of the training: bare, monitor, profiler")
    parser.add_argument("--steps", type=int, default=64, help="steps per round and way")
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
    """CPU per step in us where the caches have forgotten the last one: after 20 ms of sleep, and after a sweep.

    An empty call, as cold, is the part that no monitor can save. Calls of both kinds take turns.
    """
    sweep = array("d", [1.0]) * SWEPT
    found: dict[str, float] = {}
    pauses: dict[str, Callable[[], object]] = {
        "after 20 ms of sleep": lambda: time.sleep(0.02),
        "after a sweep over 32 MiB": lambda: sum(sweep[::16]),
    }
    for name, pause in pauses.items():
        with tempfile.TemporaryDirectory(prefix="hermes-bench-") as folder, Monitor(folder) as monitor:
            pairs = [(_after(pause, _nothing), _after(pause, monitor.step)) for _ in range(steps)]
        empty, own = (statistics.median(each) for each in zip(*pairs, strict=True))
        found |= {f"an empty call {name}, median": empty, f"`monitor.step()` {name}, median": own}
        found[f"the difference {name}"] = own - empty
    return found | _all_threads(steps)


def _all_threads(steps: int) -> dict[str, float]:
    """CPU of the whole process per step: with the flushing and sampling thread."""
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as folder, Monitor(folder) as monitor:
        _paced(monitor.step, STARTING)
        monitored_us = _paced(monitor.step, steps)
    return {
        "all threads, steps of 20 ms (sleeping), with flushing and sampling": monitored_us - _paced(_nothing, steps)
    }


def _paced(call: Callable[[], None], steps: int) -> float:
    begun_ns = time.process_time_ns()
    for _ in range(steps):
        _after(lambda: time.sleep(0.02), call)
    return (time.process_time_ns() - begun_ns) / steps / 1e3


def _after(pause: Callable[[], object], call: Callable[[], None]) -> float:
    pause()
    begun_ns = time.thread_time_ns()
    call()
    return (time.thread_time_ns() - begun_ns) / 1e3


def _nothing() -> None:
    return None


def training_table(rounds: int, steps: int) -> str:
    """Short blocks of the same training in turn: a machine that changes its speed changes it for neighbours alike."""
    train = _training()
    train(lambda: None, steps)  # warm-up
    blocks: dict[str, list[Block]] = {way: [] for way in WAYS}
    for turn in range(rounds):
        for way in WAYS if turn % 2 else reversed(WAYS):
            blocks[way].append(_block(way, train, steps))
    lines = [f"{rounds} rounds of {steps} steps each, in turn; 95 % intervals from {RESAMPLES} resamples", ""]
    lines += [
        "| training | step ms (median) | CPU of the training thread per step, ms | step time against bare | CPU |"
    ]
    lines.append("|---|---|---|---|---|")
    for way in WAYS:
        wall = statistics.median(each.wall_ms for each in blocks[way])
        cpu = statistics.median(each.thread_cpu_ms for each in blocks[way])
        pairs = list(zip(blocks[way], blocks["bare"], strict=True))
        against = _paired([100 * (one.wall_ms / bare.wall_ms - 1) for one, bare in pairs])
        cpu_against = _paired([100 * (one.thread_cpu_ms / bare.thread_cpu_ms - 1) for one, bare in pairs])
        shown = f"{against} | {cpu_against}" if way != "bare" else " | "
        lines.append(f"| {way} | {wall:.3f} | {cpu:.3f} | {shown} |")
    return "\n".join(lines)


def _paired(differences_pct: Sequence[float]) -> str:
    """The median of paired differences with its bootstrap interval."""
    random = Random(1)
    medians = sorted(
        statistics.median(random.choices(differences_pct, k=len(differences_pct))) for _ in range(RESAMPLES)
    )
    low, high = medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES) - 1]
    return f"{statistics.median(differences_pct):+.2f} % ({low:+.2f} to {high:+.2f})"


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
        return Block(statistics.fmean(walls), (time.thread_time_ns() - cpu_ns) / len(walls) / 1e6)

    return train


if __name__ == "__main__":
    raise SystemExit(main())
