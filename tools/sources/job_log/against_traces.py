"""Notes where a job's output and the traces next to it disagree: on the job's size, its hosts, the time of a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tools.run.job_log import JobLog
from tools.run.model import Layout, Rank

# A profiler makes steps longer, with Python frames and small operators two to three times; nothing makes them shorter
# but steps that are counted otherwise. What a script prints may hold a little more than a step: logging, the loader.
MOST_PROFILED, MOST_PRINTED = 3.0, 1.5
LEAST_STEPS = 2
OTHER_RUN = "it may be the output of another run"


def conflicts(log: JobLog, ranks: Sequence[Rank], layout: Layout) -> tuple[str, ...]:
    """One sentence for each disagreement; none where neither source states enough."""
    if not ranks:
        return ()
    name = log.files[0] if len(log.files) == 1 else "the job's output"
    return tuple(f"{name} {each}" for each in (*_size(log, layout), *_hosts(log, ranks), *_steps(log, ranks)))


def _size(log: JobLog, layout: Layout) -> Iterator[str]:
    stated, traced = log.whole("world_size"), layout.world_size
    if traced is None:
        return
    if stated is not None and stated != traced:
        yield f"states {stated} ranks, the traces are of a job of {traced}: {OTHER_RUN}"
    elif beyond := [rank for rank in log.ranks if rank >= traced]:
        yield f"holds lines of rank {beyond[-1]}, the traces are of a job of {traced} ranks: {OTHER_RUN}"


def _hosts(log: JobLog, ranks: Sequence[Rank]) -> Iterator[str]:
    """Hosts of NCCL's lines against those of the traces, without their domains."""
    printed = {_short(host) for host in log.nccl.hosts}
    traced = {_short(rank.host) for rank in ranks if rank.host}
    if printed and traced and printed.isdisjoint(traced):
        yield f"holds NCCL lines of {min(printed)}, the traces are of {min(traced)}: {OTHER_RUN}"


def _short(host: str) -> str:
    return host.partition(".")[0].lower()


def _steps(log: JobLog, ranks: Sequence[Rank]) -> Iterator[str]:
    """Median steps: the usual ones of the log against those of the traces that are marked as steps."""
    walls = log.steps["wall_ms"].dropna().to_numpy(dtype=np.float64)
    traced = [step.wall_ns / 1e6 for rank in ranks if rank.step_origin != "window" for step in rank.steps]
    if min(len(walls), len(traced)) < LEAST_STEPS:
        return
    printed_ms, traced_ms = float(np.median(walls)), float(np.median(traced))
    if printed_ms > 0 and not printed_ms / MOST_PRINTED <= traced_ms <= MOST_PROFILED * printed_ms:
        yield (
            f"prints steps of {printed_ms:.4g} ms, those of the traces take {traced_ms:.4g} ms, more than a profiler "
            "explains: they count steps differently, or it is the output of another run"
        )
