"""``python -m evals.benchmarks``: the speed of Hermes, next to HTA's where HTA does the same.

Parts: the four big traces (pairs against HTA), ``checks`` (CPU time of every check on them), ``commands`` (what each
command costs to start), ``many`` (runs of many ranks) and ``join`` (of the collectives of 10,000 ranks). Compares the
ratios with the committed ones and fails where one has become worse by more than a quarter; ``--out`` stores what was
measured, part by part.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from evals.benchmarks import results as stored
from evals.benchmarks.against_hta import measured_pair
from evals.benchmarks.big_traces import SHAPES, Enlarged, enlarge
from evals.benchmarks.command_cost import measured_commands
from evals.benchmarks.join import measured_join
from evals.benchmarks.process import surroundings
from evals.benchmarks.reduce_cost import measured_ranks
from evals.benchmarks.report import report, summary
from evals.benchmarks.results import CheckCosts, ChecksResult, CommandsResult, Results, ShapeResult

SLOWER = 5  # exit code, as of `compare --fail-on-regression`
CHECKS, COMMANDS, MANY, JOIN = "checks", "commands", "many", "join"
PARTS = (*(shape.name for shape in SHAPES), CHECKS, COMMANDS, MANY, JOIN)
JOINED = (10_000, 2_500)  # ranks, and collectives of each


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the chosen parts, print the tables, and return ``SLOWER`` where a ratio has become worse."""
    parser = argparse.ArgumentParser(prog="python -m evals.benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"all by default: {', '.join(PARTS)}")
    parser.add_argument("--megabytes", type=int, default=460, help="size of each enlarged trace, uncompressed")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--runs", type=int, default=5, help="runs of each command")
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 512, 1024], help="sizes of the runs of many ranks")
    parser.add_argument("--peer-python", default=sys.executable, help="python with HolisticTraceAnalysis installed")
    parser.add_argument("--traces", type=Path, help="folder to make the big traces in, and to find them again")
    parser.add_argument("--out", type=Path, help="folder to write RESULTS.md and results.json to")
    args = parser.parse_args(argv)
    if unknown := set(args.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    committed = stored.read()
    print(f"commit {stored.commit()}, load {stored.load()}", file=sys.stderr)
    found = Results()
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as folder:
        for part in _measured(args.parts or PARTS, args, args.traces or Path(folder), Path(folder) / "cache"):
            found = found.updated(part)
            if args.out:
                _store(part, args.out)
    print(report(found))
    slower = stored.worse(found.shapes, committed.shapes)
    for line in slower:
        print(f"slower than before: {line}", file=sys.stderr)
    return SLOWER if slower else 0


def _store(part: Results, folder: Path) -> None:
    """Put a part in the place of the one that was stored before; the others stay."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = stored.read(folder / stored.COMMITTED.name).updated(part)
    stored.write(whole, folder / stored.COMMITTED.name)
    (folder / "RESULTS.md").write_text(report(whole), encoding="utf-8")


def _measured(parts: Sequence[str], args: argparse.Namespace, traces: Path, cache: Path) -> Iterator[Results]:
    """The results of one part after the other."""
    yield from _on_big_traces(parts, args, traces, cache)
    if COMMANDS in parts:
        begun = stored.load()
        costs = measured_commands(args.runs)
        yield Results(commands=CommandsResult(stored.conditions(begun), args.runs, costs))
    if MANY in parts:
        for ranks in args.ranks:
            yield Results(ranks={ranks: measured_ranks(ranks, traces / f"many-{ranks}")})
    if JOIN in parts:
        yield Results(join=measured_join(traces / JOIN, *JOINED))


def _on_big_traces(parts: Sequence[str], args: argparse.Namespace, traces: Path, cache: Path) -> Iterator[Results]:
    checks: dict[str, CheckCosts] = {}
    begun = stored.load()
    for shape in SHAPES:
        if shape.name not in parts and CHECKS not in parts:
            continue
        missing = [path for path in shape.paths if not path.exists()]
        if missing:
            print(f"{shape.name} is left out: {missing[0]} is missing (HERMES_TRACES)", file=sys.stderr)
            continue
        trace = _made(shape.paths, traces / shape.name, args.megabytes)
        if shape.name in parts:
            yield Results({shape.name: _pairs(shape.name, trace, cache, args)})
        if CHECKS in parts:
            checks[shape.name] = _check_costs(trace)
    if checks:
        yield Results(checks=ChecksResult(stored.conditions(begun), checks))


def _made(sources: Sequence[Path], folder: Path, megabytes: int) -> Enlarged:
    """The enlarged trace, made before or now."""
    about = folder.with_suffix(".made.json")
    if about.exists():
        return msgspec.json.decode(about.read_bytes(), type=Enlarged)
    print(f"making {folder.name}, {megabytes} MB ...", file=sys.stderr)
    made = enlarge(sources, folder, megabytes * 1_000_000)
    about.write_bytes(msgspec.json.encode(made))
    return made


def _pairs(name: str, trace: Enlarged, cache: Path, args: argparse.Namespace) -> ShapeResult:
    load, pairs, failure = stored.load(), [], ""
    for number in range(args.pairs):
        pair, failure = measured_pair(trace, cache, args.peer_python)
        pairs.append(pair)
        peer = f"HTA {pair.peer.seconds:.1f} s" if pair.peer else f"HTA fails ({failure})"
        own = f"cold {pair.cold.seconds:.2f} s, warm {pair.warm.seconds:.2f} s"
        print(f"{name} {number + 1}: {peer}, {own}", file=sys.stderr)
    sizes = (len(trace.files), trace.events, trace.json_bytes, trace.compressed_bytes)
    result = ShapeResult(stored.conditions(load), *sizes, tuple(pairs), failure)
    print(summary(name, result), file=sys.stderr)
    return result


def _check_costs(trace: Enlarged) -> CheckCosts:
    words = [sys.executable, "-m", "evals.benchmarks.check_cost", *trace.files]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True, env=surroundings({}))
    return msgspec.json.decode(done.stdout, type=CheckCosts)


if __name__ == "__main__":
    sys.exit(main())
