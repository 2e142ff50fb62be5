"""Which rank uses a sampled device, as far as NCCL's lines in the job's output state host and device of each rank."""

from __future__ import annotations

from collections.abc import Mapping

from tools.run.model import Run

SHOWN = 8
UNKNOWN = (
    "which rank uses which sampled device is not stated, and an index is not taken for a rank; NCCL_DEBUG=INFO in the "
    "job's output states both"
)


def ranks_of_devices(run: Run) -> Mapping[tuple[str, int], int]:
    """The rank of each sampled device, by host ("" where samples state none, of a job on one host) and index."""
    if run.counters is None or run.job_log is None:
        return {}
    places = run.job_log.nccl.places
    hosts = {host for host, _ in places.values()}
    by_place = {(_short(host), device): rank for rank, (host, device) in places.items()}
    only = _short(next(iter(hosts))) if len(hosts) == 1 else None
    found = {}
    for host, device in sorted(_sampled(run)):
        rank = by_place.get((_short(host) if host else only or "", device))
        if rank is not None:
            found[(host, device)] = rank
    return found


def device_rank_notes(run: Run) -> tuple[str, ...]:
    """One sentence on which rank uses which sampled device; nothing without sampled devices or with one rank alone."""
    sampled = _sampled(run)
    if not sampled or (run.layout.world_size or 0) == 1:
        return ()
    known = ranks_of_devices(run)
    if not known:
        return (UNKNOWN,) if len(sampled) > 1 else ()
    shown = [f"device {device}{f' of {host}' if host else ''} is rank {rank}" for (host, device), rank in known.items()]
    more = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
    return (f"by NCCL's lines {', '.join(shown[:SHOWN])}{more}",)


def _sampled(run: Run) -> set[tuple[str, int]]:
    if run.counters is None:
        return set()
    own = run.counters.samples[run.counters.samples["device"] >= 0]
    places = own[["host", "device"]].drop_duplicates()
    return set(zip(places["host"].astype(str).tolist(), places["device"].astype(int).tolist(), strict=True))


def _short(host: str) -> str:
    return host.partition(".")[0].lower()
