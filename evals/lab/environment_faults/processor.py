"""Control groups of version 1 and 2: made for one launch and removed with whatever still runs in them."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from evals.lab.environment_faults.placement import (
    END_LIMIT_S,
    NAME,
    POLL_S,
    EnvironmentFaultError,
    Placement,
    background,
    entering,
    is_abandoned,
    kill_members,
    mark,
    own_folder,
)

ROOT = Path("/sys/fs/cgroup")
_serial = itertools.count()


def controller_home(controller: str, root: Path = ROOT) -> tuple[Path, int] | None:
    """The folder in which groups of ``controller`` can be made, and its version; None where there is none."""
    first = root / controller
    if (first / "cgroup.procs").is_file():
        return first, 1
    controllers = root / "cgroup.controllers"
    if controllers.is_file() and controller in controllers.read_text(encoding="ascii").split():
        return root, 2
    return None


@contextmanager
def group(controller: str, settings: Mapping[str, str], root: Path = ROOT) -> Iterator[Path]:
    """A new control group with ``settings`` (file name: content); its folder. Raises EnvironmentFaultError.

    At the end every process still in it is killed and the group removed.
    """
    home = controller_home(controller, root)
    if home is None:
        raise EnvironmentFaultError(f"no control group hierarchy with the {controller} controller is mounted")
    parent, version = home
    for left in filter(lambda each: is_abandoned(each.name), parent.glob(f"{NAME}-*")):
        remove(left)  # by a lab process that was killed before it could
    folder = parent / f"{mark()}{next(_serial)}"
    try:
        handed = parent / "cgroup.subtree_control"  # version 2 gives a controller to the groups below only on request
        if version == 2 and controller not in handed.read_text(encoding="ascii").split():
            handed.write_text(f"+{controller}", encoding="ascii")
        folder.mkdir()
    except OSError as error:
        raise EnvironmentFaultError(
            f"control groups of {controller} may not be made here ({error.strerror})"
        ) from error
    try:
        for name, content in settings.items():
            try:
                (folder / name).write_text(content, encoding="ascii")
            except OSError as error:
                message = f"{name} of a control group refuses {content!r} ({error.strerror})"
                raise EnvironmentFaultError(message) from error
        yield folder
    finally:
        remove(folder)


def remove(folder: Path) -> None:
    """Kill what runs in the group and remove it; raises EnvironmentFaultError where it holds what cannot be ours."""
    kill_members(f"control group {folder.name}", lambda: _members(folder))
    deadline = time.monotonic() + END_LIMIT_S
    while folder.is_dir():  # the kernel may need a moment after the last process
        with suppress(OSError):
            folder.rmdir()
            return
        if time.monotonic() > deadline:
            raise EnvironmentFaultError(f"the control group {folder.name} could not be removed: processes remain in it")
        time.sleep(POLL_S)


def _members(folder: Path) -> list[int]:
    with suppress(FileNotFoundError):
        return [int(line) for line in (folder / "cgroup.procs").read_text(encoding="ascii").split()]
    return []


QUOTA_PERIOD_US = 100_000  # the kernel's and every container runtime's default


@dataclass(frozen=True)
class CpuQuota:
    """Each of ``ranks``, with its children, may use ``cores`` of processor time (0.5: 50 ms of every 100 ms)."""

    ranks: tuple[int, ...]
    cores: float
    root: Path = ROOT

    def missing(self) -> str:
        try:
            with group("cpu", {}, self.root):
                return ""
        except EnvironmentFaultError as error:
            return str(error)

    @contextmanager
    def around(self, ranks: int, folder: Path) -> Iterator[tuple[Placement, ...]]:
        with ExitStack() as stack:
            groups = {rank: stack.enter_context(group("cpu", self._settings(), self.root)) for rank in self.ranks}
            yield _placed(ranks, {rank: entering("--group", str(made)) for rank, made in groups.items()})

    def _settings(self) -> dict[str, str]:
        quota_us = round(self.cores * QUOTA_PERIOD_US)
        home = controller_home("cpu", self.root)
        if home is not None and home[1] == 2:
            return {"cpu.max": f"{quota_us} {QUOTA_PERIOD_US}"}
        return {"cpu.cfs_period_us": str(QUOTA_PERIOD_US), "cpu.cfs_quota_us": str(quota_us)}


@dataclass(frozen=True)
class BoundCores:
    """Each of ``ranks``, with its children, may run on ``cores`` only."""

    ranks: tuple[int, ...]
    cores: tuple[int, ...]

    def missing(self) -> str:
        return _absent_cores(self.cores)

    @contextmanager
    def around(self, ranks: int, folder: Path) -> Iterator[tuple[Placement, ...]]:
        yield _placed(ranks, dict.fromkeys(self.ranks, entering("--cores", _listed(self.cores))))


@dataclass(frozen=True)
class ForeignLoad:
    """``processes`` that have nothing to do with the training burn a core each, on ``cores`` or anywhere."""

    processes: int
    cores: tuple[int, ...] | None = None

    def missing(self) -> str:
        return _absent_cores(self.cores or ())

    @contextmanager
    def around(self, ranks: int, folder: Path) -> Iterator[tuple[Placement, ...]]:
        with ExitStack() as stack:
            for _ in range(self.processes):
                stack.enter_context(background("busy", _listed(self.cores or ())))
            yield _placed(ranks, {})


@dataclass(frozen=True)
class PausedRank:
    """``rank``, with its children, is stopped for ``share`` of every ``period_ms``: a slower machine."""

    rank: int
    share: float  # 0 to 1, exclusive
    period_ms: float = 20.0

    def missing(self) -> str:
        return ""

    @contextmanager
    def around(self, ranks: int, folder: Path) -> Iterator[tuple[Placement, ...]]:
        with own_folder() as own:
            announced = own / "pid"
            try:
                with background("pausing", str(announced), str(self.share), str(self.period_ms)):
                    yield _placed(ranks, {self.rank: entering("--announce", str(announced))})
            finally:
                end_group(announced)


def end_group(announced: Path) -> None:
    """Continue and kill the rest of the group, which stays stopped where its pacer was killed."""
    try:
        leader = int(announced.read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        return
    if leader > 1:
        with suppress(ProcessLookupError):
            os.killpg(leader, signal.SIGCONT)
            os.killpg(leader, signal.SIGKILL)


def _placed(ranks: int, prefixes: Mapping[int, tuple[str, ...]]) -> tuple[Placement, ...]:
    return tuple(Placement(prefixes.get(rank, ())) for rank in range(ranks))


def _listed(cores: tuple[int, ...]) -> str:
    return ",".join(map(str, cores))


def _absent_cores(cores: tuple[int, ...]) -> str:
    absent = set(cores) - os.sched_getaffinity(0)
    return f"core {_listed(tuple(sorted(absent)))} may not be used here" if absent else ""
