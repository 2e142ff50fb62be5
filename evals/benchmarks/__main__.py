"""``python -m evals.benchmarks``: Hermes against HTA on one large trace, pair by pair, in one run.

HTA (HolisticTraceAnalysis) loads the trace and prints its temporal breakdown; Hermes makes its whole diagnosis, cold
(nothing kept) and warm (the same again). Each pair runs back to back, so that a machine that changes its speed changes
it for both.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import os
import platform
import re
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals.benchmarks.process import Cost, cost_of

ID_ARGUMENTS = (
    "correlation",
    "External id",
    "external id",
    "Ev Idx",
    "Python id",
    "Python parent id",
    "Record function id",
)
SYNC_ARGUMENT = "wait_on_cuda_event_record_corr_id"
STEP = re.compile(r"^ProfilerStep#(\d+)$")

Event = dict[str, Any]


def enlarge(source: Path, target: Path, target_bytes: int) -> int:
    """Write ``target`` (plain, or gzip by suffix) with at least ``target_bytes`` of JSON; return the events written.

    Each copy is shifted behind the one before by the trace's span, and its ids by more than the largest id, so that
    no correlation id and no step number occurs twice.
    """
    opener = gzip.open if source.suffix == ".gz" else open
    with opener(source, "rt", encoding="utf-8") as file:
        trace = json.load(file)
    events: list[Event] = trace["traceEvents"]
    timed = [event for event in events if event.get("ph") != "M" and "ts" in event]
    begin = min(float(event["ts"]) for event in timed)
    span = max(float(event["ts"]) + float(event.get("dur", 0)) for event in timed) - begin + 1000.0
    shift = max(_largest_id(event) for event in timed) + 1
    steps = [int(match[1]) for event in timed if (match := STEP.match(str(event.get("name", ""))))]
    step_shift = max(steps) - min(steps) + 1 if steps else 1
    written = 0
    head = json.dumps({key: value for key, value in trace.items() if key != "traceEvents"})
    with gzip.open(target, "wt", compresslevel=3) if target.suffix == ".gz" else target.open("w") as out:
        size = out.write(head[:-1] + ', "traceEvents": [\n')
        size += out.write(",\n".join(json.dumps(event) for event in events if event.get("ph") == "M"))
        for copy in itertools.count():
            for event in timed:
                size += out.write(",\n" + json.dumps(_moved(event, copy, span, shift, step_shift)))
                written += 1
            if size >= target_bytes:
                break
        out.write("\n]}")
    return written


def _largest_id(event: Event) -> int:
    arguments = event.get("args") or {}
    ids = [event.get("id"), *(arguments.get(name) for name in ID_ARGUMENTS)]
    return max((each for each in ids if isinstance(each, int)), default=0)


def _moved(event: Event, copy: int, span: float, shift: int, step_shift: int) -> Event:
    moved, ts = dict(event), event["ts"]
    if not isinstance(ts, str):
        moved["ts"] = ts + copy * (int(span) if isinstance(ts, int) else round(span))
    if isinstance(event.get("id"), int):
        moved["id"] = event["id"] + copy * shift
    arguments = event.get("args")
    if arguments:
        moved["args"] = {
            name: value + copy * shift
            if isinstance(value, int) and (name in ID_ARGUMENTS or (name == SYNC_ARGUMENT and value >= 0))
            else value
            for name, value in arguments.items()
        }
    if match := STEP.match(str(event.get("name", ""))):
        moved["name"] = f"ProfilerStep#{int(match[1]) + copy * step_shift}"
    return moved


PEER = (
    "import sys; from hta.trace_analysis import TraceAnalysis; "
    "a = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir=''); "
    "print(a.get_temporal_breakdown(visualize=False).to_string())"
)
ROOT = Path(__file__).resolve().parents[2]
DEFAULT_SOURCE = (
    Path(os.environ.get("HERMES_TRACES", ROOT.parent / "shared" / "traces")) / "hta/trace_diff_test.json.gz"
)


@dataclass(frozen=True)
class Pair:
    """One round: the peer, Hermes cold, Hermes warm."""

    peer: Cost
    cold: Cost
    warm: Cost


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark and write the table."""
    parser = argparse.ArgumentParser(prog="python -m evals.benchmarks", description=__doc__)
    parser.add_argument("--source", type=Path, default=DEFAULT_SOURCE, help="real trace to enlarge")
    parser.add_argument("--megabytes", type=int, default=460, help="size of the enlarged trace, uncompressed")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--peer-python", default=sys.executable, help="python with HolisticTraceAnalysis installed")
    parser.add_argument("--out", type=Path, help="file to write the table to")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as folder:
        trace = Path(folder) / "large.json.gz"
        print(f"enlarging {args.source.name} to {args.megabytes} MB ...", file=sys.stderr)
        events = enlarge(args.source, trace, args.megabytes * 1_000_000)
        pairs = [_pair(trace, Path(folder) / f"cache{number}", args.peer_python) for number in range(args.pairs)]
        text = report(pairs, events, trace.stat().st_size, args)
    print(text)
    if args.out:
        args.out.write_text(text, encoding="utf-8")
    return 0


def _pair(trace: Path, cache: Path, peer_python: str) -> Pair:
    peer = cost_of([peer_python, "-c", PEER, str(trace)], {})
    hermes = [sys.executable, "-m", "hermes_agent.cli.main", "diagnose", str(trace), "--no-llm"]
    environment = {"HERMES_DX_CACHE_DIR": str(cache)}
    cold = cost_of(hermes, environment)
    warm = cost_of(hermes, environment)
    shutil.rmtree(cache, ignore_errors=True)
    print(f"peer {peer.seconds:.1f} s, cold {cold.seconds:.2f} s, warm {warm.seconds:.2f} s", file=sys.stderr)
    if cold.output != warm.output:
        raise RuntimeError("the warm answer differs from the cold one")
    return Pair(peer, cold, warm)


def report(pairs: Sequence[Pair], events: int, compressed: int, args: argparse.Namespace) -> str:
    """The table as Markdown: medians, and the ratios pair by pair."""
    lines = [
        "# Speed and memory",
        "",
        f"`{args.source.name}` enlarged to {args.megabytes} MB of JSON ({compressed / 1e6:.0f} MB compressed, "
        f"{events:,} events), {len(pairs)} pairs, {os.cpu_count()} cores, Python {platform.python_version()}.",
        "",
        f"Command: `python -m evals.benchmarks --megabytes {args.megabytes} --pairs {args.pairs} --peer-python PYTHON` "
        "(`make bench`).",
        "",
        "| command | median s | min to max s | median peak MiB |",
        "|---|---|---|---|",
    ]
    commands = {"HTA: load and temporal breakdown": "peer", "hermes-dx diagnose, cold": "cold"}
    for name, field in (commands | {"hermes-dx diagnose, warm": "warm"}).items():
        costs: list[Cost] = [getattr(pair, field) for pair in pairs]
        seconds = [cost.seconds for cost in costs]
        memory = statistics.median(cost.peak_mib for cost in costs)
        spread = f"{min(seconds):.2f} to {max(seconds):.2f}"
        lines.append(f"| {name} | {statistics.median(seconds):.2f} | {spread} | {memory:.0f} |")
    lines += ["", "| ratio, pair by pair | values | worst | wanted |", "|---|---|---|---|"]
    ratios: dict[str, tuple[str, Callable[[Pair], float]]] = {
        "cold time / HTA time": ("0.20", lambda pair: pair.cold.seconds / pair.peer.seconds),
        "cold memory / HTA memory": ("0.50", lambda pair: pair.cold.peak_mib / pair.peer.peak_mib),
        "warm time / cold time": ("0.10", lambda pair: pair.warm.seconds / pair.cold.seconds),
    }
    for name, (wanted, ratio) in ratios.items():
        values = [ratio(pair) for pair in pairs]
        texts = ", ".join(f"{value:.3f}" for value in values)
        lines.append(f"| {name} | {texts} | {max(values):.3f} | at most {wanted} |")
    lines += ["", "Memory is the largest sum over all processes of a command, shared pages counted once (PSS).", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
