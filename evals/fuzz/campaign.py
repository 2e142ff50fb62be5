"""Runs the targets: so many executions each, the failures with their inputs, and how many inputs were read."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from evals.fuzz.mutations import Mutator
from evals.fuzz.oracle import Verdict, judged
from evals.fuzz.targets import Target

PARTS = 200  # every seed is also cut at every 1/200
IN_MEMORY = Path("/dev/shm")
MOST_KEPT = 20  # failures of a target whose inputs are kept


@dataclass
class Counts:
    """What came of the executions of one target."""

    kinds: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[Verdict, bytes]] = field(default_factory=list)

    @property
    def executions(self) -> int:
        """All of them."""
        return sum(self.kinds.values())


def fuzz(target: Target, executions: int, seed: int, cuts: bool = True) -> Counts:
    """Every seed as it is and, with ``cuts``, cut at every 1/200; then so many mutated inputs."""
    counts, random = Counts(), Random(f"{seed} {target.name}")
    sound = [each for each in target.seeds() if each]
    mutator = Mutator(sound, random)
    made: dict[str, Callable[[], bytes]] = {"text": mutator.text, "binary": mutator.binary, "packed": mutator.packed}
    with TemporaryDirectory(prefix="hermes-fuzz-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None) as folder:
        for data in _inputs(sound, made[target.form], executions, cuts):
            verdict = execute(target, Path(folder), data)
            counts.kinds[verdict.kind] += 1
            if verdict.failed and len(counts.failures) < MOST_KEPT:
                counts.failures.append((verdict, data))
    return counts


def execute(target: Target, folder: Path, data: bytes) -> Verdict:
    """Have an input read once, from a file in the folder where the target takes one."""
    given: Any = data
    if target.takes == "file":
        given = folder / target.file
        given.parent.mkdir(parents=True, exist_ok=True)
        given.write_bytes(data)
    named = given.name if target.named is None else target.named
    return judged(lambda: target.execute(given), named, target.allowed)


def _inputs(sound: Sequence[bytes], mutated: Callable[[], bytes], executions: int, cuts: bool) -> Iterator[bytes]:
    yield from sound
    for data in sound if cuts else ():
        yield from (data[: len(data) * part // PARTS] for part in range(PARTS))
    for _ in range(executions):
        yield mutated()


def keep(target: Target, counts: Counts, folder: Path) -> list[str]:
    """Write the inputs that failed, one file each with the reason next to it; returns one line for each."""
    lines = []
    for verdict, data in counts.failures:
        stem = f"{target.name.replace(' ', '_')}-{hashlib.blake2b(data, digest_size=6).hexdigest()}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{stem}.input").write_bytes(data)
        (folder / f"{stem}.txt").write_text(verdict.detail, "utf-8", "replace")
        lines.append(f"  {folder / stem}.input: {verdict.detail.strip().splitlines()[-1][:200]}")
    return lines
