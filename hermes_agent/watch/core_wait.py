"""The time that training threads were ready to run and no core was free, as the kernel counts it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

PROC = Path("/proc")


class CoreWait:
    """Reads the run delay of processes' main threads (``/proc/PID/task/PID/schedstat``, second number, in ns)."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self._last_ns: dict[int, int] = {}

    def since_last_ms(self, pids: Mapping[int, int]) -> dict[int, float]:
        """Return by rank the wait in ms since the last call; 0 at the first and where the kernel does not count it.

        ``pids`` are the processes by rank.
        """
        now_ns = {
            rank: _run_delay_ns(self._proc / str(pid) / "task" / str(pid) / "schedstat") for rank, pid in pids.items()
        }
        known = {rank: each for rank, each in now_ns.items() if each is not None}
        waited = {rank: max(each - self._last_ns.get(rank, each), 0) / 1e6 for rank, each in known.items()}
        self._last_ns = known
        return waited


def _run_delay_ns(path: Path) -> int | None:
    try:
        words = path.read_text(encoding="ascii").split()
        return int(words[1])
    except (OSError, ValueError, IndexError):
        return None
