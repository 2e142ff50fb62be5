"""How long typing in the chat waits while a run is diagnosed: ``python -m evals.benchmarks.chat_blocking RUN``."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hermes_agent.cli.commands.chat import openings, search_garbage_in_short_passes
from hermes_agent.config.settings import Settings
from hermes_agent.model.request import Request
from hermes_agent.tui.app import HermesChat

BEAT_S = 0.002
TYPED = "why is it slow"
LIMITS_MS = (16.0, 50.0, 100.0)
HALVINGS = 40


@dataclass(frozen=True)
class Blocking:
    """Gaps between two turns of the event loop over the beat, in ms, and how long the diagnosis took."""

    longest_ms: float
    median_ms: float  # of the time that a key waits which is pressed at a random moment
    p95_ms: float
    over: dict[float, int]  # limit in ms -> gaps that are longer
    diagnosis_s: float


async def blocking(run: Path) -> Blocking:
    """Diagnose a run in the chat with an empty cache while somebody types, and watch the event loop."""
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as folder:
        cache = Path(folder)
        app = HermesChat(lambda: openings(Request(paths=(run,), cache_dir=cache), Settings(cache_dir=cache)))
        async with app.run_test(size=(120, 40)) as pilot:
            gaps: list[float] = []
            beating = asyncio.create_task(_beat(gaps))
            begun = time.perf_counter()
            await pilot.pause()
            while app.controller.busy or not app.controller.runs.open:
                for key in TYPED:
                    app.prompt.insert_text_at_cursor(key)
                    await asyncio.sleep(0.05)
                app.prompt.value = ""
            took_s = time.perf_counter() - begun
            beating.cancel()
    return Blocking(
        max(gaps), *_waits_of_a_key(gaps), {limit: sum(gap > limit for gap in gaps) for limit in LIMITS_MS}, took_s
    )


def _waits_of_a_key(gaps_ms: list[float]) -> tuple[float, float]:
    """Median and 95th percentile of the wait of a key pressed at any moment: one in a gap waits for the rest of it."""
    gaps = np.maximum(np.array(gaps_ms), 0.0) + BEAT_S * 1e3
    order = np.sort(gaps)
    found = []
    for share in (0.5, 0.95):
        low, high = 0.0, float(order[-1])
        for _ in range(HALVINGS):  # the share of moments that wait at most ``middle``
            middle = (low + high) / 2
            within = float(np.minimum(order, middle).sum() / order.sum())
            low, high = (middle, high) if within < share else (low, middle)
        found.append(high)
    return found[0], found[1]


async def _beat(gaps: list[float]) -> None:
    last = time.perf_counter()
    while True:
        await asyncio.sleep(BEAT_S)
        now = time.perf_counter()
        gaps.append((now - last - BEAT_S) * 1e3)
        last = now


def main() -> None:
    """Print the figures of the run named on the command line."""
    search_garbage_in_short_passes()
    found = asyncio.run(blocking(Path(sys.argv[1])))
    over = ", ".join(f"{count} over {limit:g} ms" for limit, count in found.over.items())
    typical = (
        f"a key waits {found.median_ms:.1f} ms (median), {found.p95_ms:.1f} ms (p95), {found.longest_ms:.0f} ms at most"
    )
    print(f"{typical} ({over}); the diagnosis took {found.diagnosis_s:.1f} s")


if __name__ == "__main__":
    main()
