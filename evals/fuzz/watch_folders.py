"""Run folders that change in every hostile way while the watcher looks: nothing ends or blocks it, or writes elsewhere.

``python -m evals.fuzz.watch_folders --executions 20000 --seed 1``. An execution changes one file of a recorded run
folder and lets the agent look; every twentieth also reads the folder as ``diagnose`` does. Allowed is a look that ends
within seconds, and for reading a run or one InputError. What lies outside of the folder must stay as it is. A fifth of
the folders is changed by another process during each look as well; there only what is raised or blocks counts.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import stat
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from hermes_agent.monitor import format as layout
from hermes_agent.monitor.format import Description, RawStep, Workload
from hermes_agent.watch.agent import AgentOptions, NodeAgent
from hermes_agent.watch.rings import CaptureRequests, RequestLimits, RunRings
from tools.errors import InputError
from tools.sources.load import load_run
from tools.sources.options import LoadOptions

TICK_S, MOST_TICKS = 2.0, 15  # of a look, on a busy machine; while the process is stopped nothing is counted
CHANGES = 40  # to one folder, then a new one
READ_EVERY = 20
RACED = 0.2  # of the folders: another process changes them while the watcher looks
RACING_CHANGES = 200
CAPACITY = 64
ROWS = 40
STEP_NS = 10_000_000
EXTREMES = (0, 1, -1, 1 << 31, (1 << 32) - 1, 1 << 53, (1 << 63) - 1, -(1 << 63), 10**18)
NUMBERS = (b"-1", b"0", b"NaN", b"1e999", b"99999999999999999999", b'"x"', b"null", b"[[[[]]]]", b"true", b"1.5")
NAMES = ("rank-1.ring", "rank\udcff.ring", "rank\n.ring", "agent-x.json", "anomalies-x.jsonl", "rank00009-1-1.steps")
CAPTURES = ("capture-²", "capture-" + "9" * 100, "capture-999999999", "capture-٣", "capture-", "capture-0007")
Clock = list[float]


class BlockedError(Exception):
    """A look took longer than any may."""


@dataclass
class Folder:
    """A run folder under attack, next to files that must not change."""

    run: Path
    outside: Path
    chance: random.Random
    rows: dict[str, int] = field(default_factory=dict)  # written so far, by ring

    @property
    def records(self) -> Path:
        """The folder of its records."""
        return self.run / layout.RECORDS

    def any_file(self, *endings: str) -> Path | None:
        """One of the files of the run, None where there is none."""
        with suppress(OSError):
            places = [self.records, *self.run.glob("capture-*")]
            found = sorted(each for place in places for each in place.iterdir() if each.name.endswith(endings or ("",)))
            return self.chance.choice(found) if found else None
        return None


def record(folder: Path, rank: int) -> None:
    """Write a ring of a rank that runs, its files, and an agent's summary and journal."""
    folder.mkdir(parents=True, exist_ok=True)
    start_ns = time.time_ns() - 10**9
    about = Description(rank, 2, None, "host", os.getpid(), start_ns, CAPACITY, Workload(8))
    ring = bytearray(layout.RECORDS_AT + (CAPACITY + 1) * layout.RAW.size)
    head = about.pack(layout.RING_MAGIC)
    ring[: len(head)] = head
    path = folder / f"{about.stem}{layout.RING}"
    path.write_bytes(ring)
    path.chmod(0o600)
    (folder / f"{about.stem}{layout.STEPS}").write_bytes(about.pack(layout.STEPS_MAGIC))
    event = f'{{"event":"system","unix_ns":{start_ns},"step":1,"load_1min":1.5}}\n'
    (folder / f"{about.stem}{layout.EVENTS}").write_text(event * 3, encoding="utf-8")
    summary = f'{{"host":"o","unix_ns":{start_ns},"steps":{{"9":3}}}}'
    (folder / f"agent-other{rank}.json").write_text(summary, encoding="utf-8")
    line = '{"unix_ns":1,"kind":"change","rank":0,"step":1,"usual_ms":1.0,"seen_ms":2.0,"excess_pct":100.0}\n'
    (folder / "anomalies-other.jsonl").write_text(line * 2, encoding="utf-8")


def train(folder: Folder) -> None:
    """Let all rings that can take it go on by some steps, and beat."""
    with suppress(OSError):
        for path in folder.records.glob(f"*{layout.RING}"):
            if not stat.S_ISREG(path.lstat().st_mode) or path.stat().st_size < layout.RECORDS_AT:
                continue
            first = folder.rows.get(path.name, 0)
            folder.rows[path.name] = first + ROWS
            with path.open("r+b") as file:
                if not first:
                    file.seek(layout.BEGIN_AT)
                    file.write(layout.RAW.pack(*RawStep(-1, -1, *[0] * 12)))
                for number in range(first, first + ROWS):
                    slow = 3 if number > 200 and path.name.startswith("rank00001") else 1
                    clock_ns = (number + 1) * STEP_NS * slow
                    row = RawStep(number, number, clock_ns, clock_ns // 2, 0, number * 1000, *[0] * 8)
                    file.seek(layout.RECORDS_AT + number % (CAPACITY + 1) * layout.RAW.size)
                    file.write(layout.RAW.pack(*row))
                now_ns = time.perf_counter_ns()
                file.seek(layout.STATE_AT)
                file.write(layout.STATE.pack(first + ROWS, now_ns + 10**18, 0, 10**18))


def flip(folder: Folder) -> None:
    """Flip some bits, often in the head."""
    if (path := folder.any_file()) is None or not path.is_file() or path.is_symlink():
        return
    data = bytearray(path.read_bytes())
    for _ in range(folder.chance.randint(1, 8) if data else 0):
        most = len(data) if folder.chance.random() < 0.5 else min(len(data), 9000)
        data[folder.chance.randrange(most)] ^= 1 << folder.chance.randrange(8)
    path.write_bytes(data)


def cut(folder: Folder) -> None:
    """Cut a file anywhere."""
    if (path := folder.any_file()) is not None and path.is_file() and not path.is_symlink():
        os.truncate(path, folder.chance.randint(0, path.stat().st_size))


def grow(folder: Folder) -> None:
    """Append zeros, or a piece of another file."""
    path, other = folder.any_file(), folder.any_file()
    if path is not None and path.is_file() and not path.is_symlink():
        piece = bytes(folder.chance.randint(1, 5000))
        if other is not None and other.is_file() and folder.chance.random() < 0.5:
            piece = other.read_bytes()[-5000:]
        with path.open("ab") as file:
            file.write(piece)


def swap(folder: Folder) -> None:
    """Exchange two files."""
    first, second = folder.any_file(), folder.any_file()
    if first is not None and second is not None and first != second:
        aside = first.with_name("aside")
        first.rename(aside)
        second.rename(first)
        aside.rename(second)


def put_number(folder: Folder) -> None:
    """Replace a number of a description or a line by another text."""
    if (path := folder.any_file(layout.RING, layout.STEPS, ".json", ".jsonl")) is None or not path.is_file():
        return
    data = path.read_bytes()
    places = [at for at in range(min(len(data), 2000)) if data[at : at + 1].isdigit() and data[at - 1 : at] in b" :"]
    if places:
        at = folder.chance.choice(places)
        end = next((each for each in range(at, len(data)) if not data[each : each + 1].isdigit()), len(data))
        text = folder.chance.choice(NUMBERS)
        kept = text.ljust(end - at) if folder.chance.random() < 0.7 else text
        _overwrite(path, data[:at] + kept + data[end:])


def put_word(folder: Folder) -> None:
    """Put an extreme number into the state, the begin, an answer, a request or a row of a ring."""
    if (path := folder.any_file(layout.RING)) is None or not path.is_file():
        return
    data = bytearray(path.read_bytes())
    areas = (layout.STATE_AT, layout.BEGIN_AT, layout.ANSWER_AT, layout.REQUEST_AT, layout.RECORDS_AT)
    at = folder.chance.choice(areas) + 8 * folder.chance.randrange(16)
    if at + 8 <= len(data):
        struct.pack_into("<q", data, at, folder.chance.choice(EXTREMES))
        _overwrite(path, bytes(data))


def _overwrite(path: Path, data: bytes) -> None:
    if not path.is_symlink():
        path.write_bytes(data)


def replace(folder: Folder) -> None:
    """Put something that is no file, or leads elsewhere, in the place of a file."""
    if (path := folder.any_file()) is None:
        return
    _remove(path)
    target = folder.chance.choice(("canary.txt", "nothing", "folder"))
    kinds: tuple[Callable[[], object], ...] = (
        lambda: path.symlink_to(folder.outside / target),
        lambda: path.symlink_to(path.name),
        lambda: path.symlink_to(".."),
        lambda: path.hardlink_to(folder.outside / "canary.txt"),
        lambda: os.mkfifo(path),
        lambda: path.mkdir(),
        lambda: os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 5)),
    )
    folder.chance.choice(kinds)()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def remove(folder: Folder) -> None:
    """Remove a file."""
    if (path := folder.any_file()) is not None:
        _remove(path)


def rename(folder: Folder) -> None:
    """Give a file a hostile name."""
    if (path := folder.any_file()) is not None:
        path.rename(path.with_name(folder.chance.choice(NAMES)))


def forbid(folder: Folder) -> None:
    """Change a file's mode or owner."""
    if (path := folder.any_file()) is not None and path.is_file() and not path.is_symlink():
        path.chmod(folder.chance.choice((0, 0o400, 0o666, 0o600)))
        if os.geteuid() == 0 and folder.chance.random() < 0.3:
            os.chown(path, folder.chance.choice((0, 4321)), -1)


def plant_part(folder: Folder) -> None:
    """Put a link where the agent writes its own files."""
    host = layout.file_name_of(os.uname().nodename)
    name = folder.chance.choice(
        (f"agent-{host}.json", f"agent-{host}.{os.getpid()}.part", f".agent-{host}.json.{os.getpid()}.part")
    )
    path = folder.records / folder.chance.choice((name, f"anomalies-{host}.jsonl"))
    _remove(path)
    path.symlink_to(folder.outside / folder.chance.choice(("canary.txt", "nothing")))


def plant_capture(folder: Folder) -> None:
    """Make a folder with the name of a capture, or a link of that name."""
    path = folder.run / folder.chance.choice(CAPTURES)
    _remove(path)
    if folder.chance.random() < 0.3:
        path.symlink_to(folder.outside / "folder")
        return
    path.mkdir()
    (path / "rank0.pt.trace.json.gz").symlink_to(folder.outside / "nothing")
    (path / "rank1.pt.trace.json").write_text('{"traceEvents": [', encoding="utf-8")


def move_records(folder: Folder) -> None:
    """Put a link to the records, or to another folder, in place of the records, or the other way round."""
    aside = folder.run / "aside"
    if folder.records.is_symlink():
        folder.records.unlink()
        aside.rename(folder.records)
    elif folder.records.exists():
        folder.records.rename(aside)
        folder.records.symlink_to(folder.chance.choice(("aside", "monitor", str(folder.outside / "folder"))))


def crowd(folder: Folder) -> None:
    """Add very many files."""
    if folder.records.is_symlink():
        return
    for number in range(300):
        ending = folder.chance.choice((layout.RING, layout.STEPS, ".json", ".x"))
        (folder.records / f"rank{number:05d}-1-1{ending}").touch()


MUTATIONS: tuple[Callable[[Folder], None], ...] = (
    *(flip, flip, cut, grow, swap, put_number, put_number, put_word, put_word, replace, remove, rename),
    *(forbid, plant_part, plant_capture, move_records, crowd),
)


@dataclass
class Counts:
    """What was done, and what went wrong."""

    executions: int = 0
    looks: int = 0
    captures: int = 0
    readings: int = 0
    refused: int = 0
    left_out: int = 0
    noticed: int = 0
    slowest_s: float = 0.0
    by_kind: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


@contextmanager
def limited() -> Iterator[None]:
    """Raise BlockedError where what is inside does not end."""

    ticks = 0

    def tick(number: int, frame: FrameType | None) -> None:
        nonlocal ticks
        ticks += 1
        if ticks >= MOST_TICKS:
            raise BlockedError

    before = signal.signal(signal.SIGALRM, tick)
    signal.setitimer(signal.ITIMER_REAL, TICK_S, TICK_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def racing(folder: Folder) -> Iterator[None]:
    """Another process changes the folder on and on meanwhile."""
    seed = folder.chance.getrandbits(64)
    child = os.fork()
    if child == 0:
        folder.chance.seed(seed)
        for _ in range(RACING_CHANGES):
            with suppress(Exception):  # whatever happens, nothing of the parent may go on here
                folder.chance.choice(MUTATIONS)(folder)
        os._exit(0)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def new_folder(place: Path, chance: random.Random) -> Folder:
    """A recorded run of two ranks, and the files next to it that must not change."""
    shutil.rmtree(place, ignore_errors=True)
    run, outside = place / "run", place / "outside"
    for rank in (0, 1):
        record(run / layout.RECORDS, rank)
    (outside / "folder").mkdir(parents=True)
    (outside / "canary.txt").write_text("canary\n", encoding="utf-8")
    (run / "capture-0001").mkdir()
    (run / "capture-0001" / "rank0.pt.trace.json.gz").write_bytes(b"\x1f\x8bnothing")
    return Folder(run, outside, chance)


def outside_of(folder: Folder) -> dict[str, bytes]:
    """The files outside of the run; a change may reach them through a link that it made itself, a look must not."""
    found = sorted(folder.outside.rglob("*"))
    return {each.relative_to(folder.outside).as_posix(): each.read_bytes() for each in found if each.is_file()}


def attack(place: Path, chance: random.Random, changes: int, counts: Counts) -> None:
    """One folder with so many changes, watched by one agent from the first on."""
    folder, clock = new_folder(place, chance), [0.0]
    raced = chance.random() < RACED
    agent = NodeAgent(
        folder.run, AgentOptions(foreign=lambda _: (), clock=lambda: clock[0], limits=RequestLimits(apart_s=0.0))
    )
    said: list[str] = []
    done: list[str] = []
    for _ in range(changes):
        mutation = chance.choice(MUTATIONS)
        if chance.random() < 0.7:
            train(folder)
        with suppress(OSError):  # the change itself may meet what an earlier one has put there
            mutation(folder)
        counts.executions += 1
        counts.by_kind[mutation.__name__] += 1
        done.append(mutation.__name__)
        before, begun_s = outside_of(folder), time.process_time()
        try:
            with limited(), racing(folder) if raced else nullcontext():
                _look(folder, agent, counts)
                said += agent.left_out.take()
        except Exception:  # the boundary of an execution: everything that is raised is a finding
            counts.failures.append(f"after {', '.join(done)}:\n{traceback.format_exc()}")
            return
        counts.slowest_s = max(counts.slowest_s, time.process_time() - begun_s)
        clock[0] += 3.0
        if not raced and outside_of(folder) != before:
            counts.failures.append(f"after {', '.join(done)}: a file outside of the run was changed")
            return
    counts.left_out += len(said)
    if len(said) != len(set(said)):
        counts.failures.append(f"after {', '.join(done)}: a sentence was said twice")


def _look(folder: Folder, agent: NodeAgent, counts: Counts) -> None:
    counts.looks += 1
    noticed = agent.poll()
    counts.noticed += len(noticed)
    counts.captures += sum(each.capture is not None for each in noticed)
    agent.snapshot()
    if counts.executions % READ_EVERY:
        return
    rings = RunRings(folder.run)
    rings.refresh()
    if ranks := rings.ranks():
        last = max((row.step for rows in rings.new().values() for row in rows), default=-1)
        CaptureRequests(folder.run, rings, RequestLimits()).by_hand(ranks, 1, last)
    counts.readings += 1
    try:
        read = load_run([folder.run], LoadOptions(workers=1))
    except InputError:
        counts.refused += 1
        return
    if read.records is not None and not (read.records.steps["wall_ms"] > 0).all():
        raise AssertionError("a step without a duration was read")


def main(argv: Sequence[str] | None = None) -> int:
    """Run so many executions; 1 where anything was raised, blocked, or written elsewhere."""
    parser = argparse.ArgumentParser(prog="python -m evals.fuzz.watch_folders", description=__doc__)
    parser.add_argument("--executions", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    counts = Counts()
    place = Path(tempfile.mkdtemp(prefix="hermes-dx-fuzz-", dir=_memory()))
    try:
        number = 0
        while counts.executions < args.executions and len(counts.failures) < 5:
            number += 1
            chance = random.Random(f"{args.seed} {number}")
            before = len(counts.failures)
            attack(place, chance, min(CHANGES, args.executions - counts.executions), counts)
            for failure in counts.failures[before:]:
                print(f"seed {args.seed}, folder {number}: {failure}", file=sys.stderr)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    kinds = ", ".join(f"{name} {count}" for name, count in sorted(counts.by_kind.items()))
    print(
        f"watch_folders: {counts.executions} executions in {number} folders (seed {args.seed}), "
        f"{len(counts.failures)} failures; {counts.noticed} anomalies, {counts.captures} captures asked for, "
        f"{counts.left_out} sentences on what was left out; {counts.readings} readings, {counts.refused} refused; "
        f"slowest look {counts.slowest_s:.2f} CPU s; {kinds}"
    )
    return 1 if counts.failures else 0


def _memory() -> str | None:
    return str(layout.SHARED_MEMORY) if os.access(layout.SHARED_MEMORY, os.W_OK) else None


if __name__ == "__main__":
    raise SystemExit(main())
