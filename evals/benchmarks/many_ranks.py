"""A run of many traced ranks with a straggler and a slow host: written in seconds, for tests and for the benchmark.

Three hosts are simulated (``evals.synthetic``): a healthy one, that of the straggler, and the slow one. Every other
host is the healthy one again under its own rank numbers, groups and processes, its collectives joined a little later
by chance, so that no two ranks are alike. Rank = host x ranks per host + shard; the ranks of a host share each layer
(tensor parallel), the ranks of one shard reduce gradients together (data parallel).

``python -m evals.benchmarks.many_ranks FOLDER --ranks 512`` writes one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evals.synthetic.generate import generate
from evals.synthetic.kineto import process_number
from evals.synthetic.spec import FaultSpec, SyntheticSpec

ARRIVAL_US = 8.0  # scale of the delay by chance with which a copied rank joins a collective
LEAST_LEFT_US = 5.0  # of a collective's duration after that delay
ADJOINING_US = 2.0  # between a kernel and the collective that waits for it
TENSOR, DESCRIPTION = "tensor_parallel", "Process Group Description"
PROCESS, THREAD, RANK, NAME, MEMBERS, MOMENT = "@process@", "@thread@", "@rank@", "@name@", "@members@", "@moment@"
VARIABLE = re.compile(rb'"@moment@(\d+)"')

Event = dict[str, Any]


@dataclass(frozen=True)
class ManyRanks:
    """The size of the run and its faults; rank numbers of both hosts hit have to exist."""

    ranks: int = 64
    per_host: int = 8  # ranks of one host, which share tensors
    steps: int = 4
    layers: int = 3
    straggler: int = 13  # its device is slow
    straggler_strength: float = 0.3  # share of the healthy step that it adds
    slow_host: int = -1  # host whose ranks wait for storage; -1: the last one
    slow_host_strength: float = 0.15
    seed: int = 0

    @property
    def hosts(self) -> int:
        """The number of hosts."""
        return self.ranks // self.per_host

    @property
    def slow_ranks(self) -> tuple[int, ...]:
        """The ranks of the slow host."""
        return self.of_host(self.slow_host % self.hosts)

    @property
    def healthy_host(self) -> int:
        """The lowest host without a fault."""
        hit = {self.straggler // self.per_host, self.slow_host % self.hosts}
        return next(host for host in range(self.hosts) if host not in hit)

    def of_host(self, host: int) -> tuple[int, ...]:
        """The ranks of a host."""
        return tuple(range(host * self.per_host, (host + 1) * self.per_host))

    @property
    def spec(self) -> SyntheticSpec:
        """The same run as a synthetic one of which three hosts are traced."""
        hosts = {self.healthy_host, self.straggler // self.per_host, self.slow_host % self.hosts}
        return SyntheticSpec(
            ranks=self.ranks,
            tensor=self.per_host,
            steps=self.steps,
            layers=self.layers,
            seed=self.seed,
            traced_ranks=tuple(rank for host in sorted(hosts) for rank in self.of_host(host)),
            faults=(
                FaultSpec(kind="slow_device", strength=self.straggler_strength, ranks=(self.straggler,)),
                FaultSpec(kind="loader_reading", strength=self.slow_host_strength, ranks=self.slow_ranks),
            ),
        )


def write(run: ManyRanks, folder: Path) -> tuple[Path, ...]:
    """Write one trace for each rank of the run into the folder; equal runs give equal files."""
    spec = run.spec
    simulated = dict(zip(spec.traced_ranks or (), generate(spec, folder).paths, strict=True))
    models = [_Model.of(simulated[rank]) for rank in run.of_host(run.healthy_host)]
    paths = []
    for rank in range(run.ranks):
        path = folder / f"rank{rank}.pt.trace.json.gz"
        if rank not in simulated:
            text = models[rank % run.per_host].of_rank(rank, run)
            path.write_bytes(gzip.compress(text, compresslevel=1, mtime=0))
        paths.append(path)
    return tuple(paths)


@dataclass(frozen=True)
class _Moment:
    """A time in a trace that moves with the delay of a collective."""

    delay: int  # number of the delay
    us: float  # the time without it
    sign: int  # 1 where the delay makes it later or longer, -1 where shorter


@dataclass(frozen=True)
class _Model:
    """The trace of one healthy rank as text around what differs from rank to rank."""

    pieces: tuple[bytes, ...]  # text, number of a moment, text, ...
    moments: tuple[_Moment, ...]
    longest_us: tuple[float, ...]  # of each delay

    @classmethod
    def of(cls, path: Path) -> _Model:
        """Read a trace and take out its rank, its processes, its tensor group and when it joins collectives."""
        document = json.loads(gzip.decompress(path.read_bytes()))
        own = process_number(document["distributedInfo"]["rank"])
        document["distributedInfo"]["rank"] = RANK
        events: list[Event] = document["traceEvents"]
        for event in events:
            for key in ("pid", "tid"):
                event[key] = {own: PROCESS, own + 1: THREAD}.get(event[key], event[key])
            if event.get("args", {}).get(DESCRIPTION) == TENSOR:
                event["args"] |= {"Process Group Name": NAME, "Process Group Ranks": MEMBERS}
        moments: list[_Moment] = []
        longest: list[float] = []
        for collective, before in _collectives(events):
            changes = [(collective, "ts", 1), (collective, "dur", -1), *([(before, "dur", 1)] if before else [])]
            for event, key, sign in changes:
                moments.append(_Moment(len(longest), event[key], sign))
                event[key] = f"{MOMENT}{len(moments) - 1}"
            longest.append(max(moments[-len(changes) + 1].us - LEAST_LEFT_US, 0.0))
        return cls(tuple(VARIABLE.split(json.dumps(document).encode())), tuple(moments), tuple(longest))

    def of_rank(self, rank: int, run: ManyRanks) -> bytes:
        """The trace as that rank of the run would have written it."""
        rng = np.random.default_rng([run.seed, rank, 7])
        delays = np.minimum(np.abs(rng.normal(0.0, ARRIVAL_US, len(self.longest_us))), self.longest_us)
        texts = [b"%.3f" % (each.us + each.sign * delays[each.delay]) for each in self.moments]
        pieces = [texts[int(piece)] if at % 2 else piece for at, piece in enumerate(self.pieces)]
        group = run.of_host(rank // run.per_host)
        process = process_number(rank)
        numbers = {RANK: rank, PROCESS: process, THREAD: process + 1}
        text = b"".join(pieces)
        for mark, value in (numbers | {NAME: f"{TENSOR}:{group[0]}", MEMBERS: str(list(group))}).items():
            text = text.replace(json.dumps(mark).encode(), json.dumps(value).encode())
        return text


def _collectives(events: Sequence[Event]) -> Iterator[tuple[Event, Event | None]]:
    """Each collective's kernel, with the kernel that ends where it begins if the device waits for the collective."""
    kernels = sorted((event for event in events if event.get("cat") == "kernel"), key=lambda event: float(event["ts"]))
    computing = [event for event in kernels if "Collective name" not in event["args"]]
    ends = np.array([event["ts"] + event["dur"] for event in computing])
    for event in kernels:
        if "Collective name" not in event["args"]:
            continue
        at = int(np.searchsorted(ends, event["ts"], side="right")) - 1
        adjoining = at >= 0 and event["ts"] - ends[at] <= ADJOINING_US and event["args"][DESCRIPTION] == TENSOR
        yield event, computing[at] if adjoining else None


def main(argv: Sequence[str] | None = None) -> int:
    """Write a run into a folder."""
    parser = argparse.ArgumentParser(prog="python -m evals.benchmarks.many_ranks", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", type=int, default=ManyRanks.ranks)
    parser.add_argument("--steps", type=int, default=ManyRanks.steps)
    parser.add_argument("--layers", type=int, default=ManyRanks.layers)
    args = parser.parse_args(argv)
    paths = write(ManyRanks(ranks=args.ranks, steps=args.steps, layers=args.layers), args.folder)
    print(f"{len(paths)} traces, {sum(path.stat().st_size for path in paths) / 1e6:.1f} MB", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
