"""Cost of the monitor: CPU per step of the training thread, and of all threads.

``python -m evals.benchmarks.monitor_cost``; what it adds to a real training: ``evals.benchmarks.monitor_overhead``.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from itertools import count

from hermes_agent.monitor.procfs import thread_cpu_us
from hermes_agent.monitor.session import Monitor, Options

STARTING = 50  # steps of 20 ms: what is written once at the start is not a cost of each step
SWEPT = 4 << 20  # numbers of 8 bytes


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark and prints the tables as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m evals.benchmarks.monitor_cost", description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000, help="steps of the empty loops")
    parser.add_argument("--paced", type=int, default=250, help="steps of the loop that sleeps")
    args = parser.parse_args(argv)
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()} {platform.machine()}\n")
    print("| CPU per step | us |\n|---|---|")
    for name, cost_us in (calls_cost(args.calls) | paced_cost(args.paced)).items():
        print(f"| {name} | {cost_us:.1f} |")
    return 0


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
            pairs = [(_after(pause, lambda: None), _after(pause, monitor.step)) for _ in range(steps)]
        empty, own = (statistics.median(each) for each in zip(*pairs, strict=True))
        found |= {f"an empty call {name}, median": empty, f"`monitor.step()` {name}, median": own}
        found[f"the difference {name}"] = own - empty
    return found | _all_threads(steps)


def _all_threads(steps: int) -> dict[str, float]:
    """CPU of the whole process per step: with the flushing and sampling thread."""
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as folder, Monitor(folder) as monitor:
        _paced(monitor.step, STARTING)
        thread = own_thread()
        own_us = thread_cpu_us(thread)
        monitored_us = _paced(monitor.step, steps)
        own_us = thread_cpu_us(thread) - own_us
    bare_us = _paced(lambda: None, steps)
    return {
        "all threads, steps of 20 ms (sleeping), with flushing and sampling": monitored_us - bare_us,
        "of it the monitor's own thread": own_us / steps,
    }


def own_thread() -> int:
    """The native id of the one thread of the one monitor that runs."""
    (found,) = (each.native_id for each in threading.enumerate() if each.name == "hermes-dx-monitor")
    assert found is not None
    return found


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


if __name__ == "__main__":
    raise SystemExit(main())
