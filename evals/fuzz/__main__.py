"""Fuzzes the readers: ``python -m evals.fuzz [--executions N] [--seed S] [--target NAME...] [--input FILE]``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from evals.fuzz.campaign import execute, fuzz, keep
from evals.fuzz.targets import TARGETS

EXECUTIONS = 100_000
KEPT = Path("results/fuzz")


def main(argv: Sequence[str] | None = None) -> int:
    """Print a line per target; 1 where any execution failed, with its inputs in ``--out``."""
    parser = argparse.ArgumentParser(prog="python -m evals.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--executions", type=int, default=EXECUTIONS, help="mutated inputs over all targets together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", nargs="+", choices=[each.name for each in TARGETS], metavar="NAME")
    parser.add_argument("--input", type=Path, help="execute this input once, of one --target")
    parser.add_argument("--out", type=Path, default=KEPT, help="folder for the inputs that failed")
    args = parser.parse_args(argv)
    chosen = [each for each in TARGETS if not args.target or each.name in args.target]
    if args.input is not None:
        with TemporaryDirectory() as folder:
            verdict = execute(chosen[0], Path(folder), args.input.read_bytes())
        print(f"{verdict.kind} {verdict.detail}")
        return int(verdict.failed)
    whole, done, failed = sum(each.share for each in chosen), 0, 0
    for target in chosen:
        began_s, cpu_s = time.perf_counter(), time.process_time()
        counts = fuzz(target, round(args.executions * target.share / whole), args.seed)
        cpu_s, done = time.process_time() - cpu_s, done + counts.executions
        failed += counts.kinds["failure"]
        kinds = ", ".join(f"{counts.kinds[kind]:,} {kind}s" for kind in ("result", "sentence", "failure"))
        took = f"{time.perf_counter() - began_s:.0f} s, {1e3 * cpu_s / max(counts.executions, 1):.2f} ms of CPU each"
        print(f"{target.name}: {counts.executions:,} executions: {kinds} ({took})", flush=True)
        print("\n".join(keep(target, counts, args.out)), end="\n" if counts.failures else "", flush=True)
    print(f"{done:,} executions, seed {args.seed}: {failed:,} failures")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
