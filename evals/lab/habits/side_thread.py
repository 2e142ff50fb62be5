"""A second Python thread that does work of its own."""

from __future__ import annotations

import threading
import time

TURN_S = 0.02


class SideThread:
    """Sums up texts for ``share`` of the time, until ended."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="statistics", daemon=True)
        if share:
            self._thread.start()

    def end(self) -> None:
        """Waits for the thread."""
        self._ended.set()
        if self._share:
            self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            until = time.perf_counter() + TURN_S * self._share
            seen: dict[str, int] = {}
            while time.perf_counter() < until:
                for word in ("loss", "rate", "norm"):
                    seen[word] = seen.get(word, 0) + len(word)
            if self._share < 1:
                time.sleep(TURN_S * (1 - self._share))
