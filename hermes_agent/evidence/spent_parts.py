"""The parts of a step in which a cause spends its time."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from types import MappingProxyType

from hermes_agent.model.diagnosis import CauseRecord, Diagnosis
from tools.findings import Fact
from tools.judgement.verdict import EXPLAINING
from tools.knowledge.taxonomy import causes
from tools.views.parts import PARTS

# Parts that a cause spends in addition to those that its family explains.
OF_CAUSE: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "straggler": ("compute", "host", "data_wait"),
        "data_skew": ("compute",),
        "moe_imbalance": ("compute",),
        "pipeline_bubble": ("idle",),
        "pipeline_imbalance": ("compute", "idle"),
        "evaluation_stall": ("host", "data_wait", "compute"),
        "memory_pressure": ("compute",),
    }
)
OF_FAMILY: Mapping[str, tuple[str, ...]] = MappingProxyType({"computation": ("compute",), "cpu": ("idle", "data_wait")})
OF_PARTS = ("part_ms", "part_pct")  # figures from the traces of their ranks


def ranks_of(found: CauseRecord) -> frozenset[int]:
    """The ranks of a cause, with those that its ranks stand for."""
    standing = (rank for first, last in found.stands_for for rank in range(first, last + 1))
    return frozenset((*found.ranks, *standing))


def spent_parts(diagnosis: Diagnosis, found: CauseRecord, ranks: frozenset[int]) -> frozenset[str]:
    """The parts that the cause's evidence names, else those of the taxonomy, that can hold its impact on its ranks.

    Where no single part can, the cause spends several: the largest of them stays.
    """
    named = {str(each.arguments.get("part")) for each in diagnosis.evidence if each.id in found.evidence}
    if not diagnosis.breakdown:
        return frozenset(named & {*PARTS})
    known = parts_of(found.cause)
    possible = (named & {*PARTS} or known) | known & {"exposed_communication"}  # where others wait for a late rank
    sizes_ms = {part: _size_ms(diagnosis, part, ranks) for part in possible}
    least_ms = min(found.impact_ms_per_step, max(sizes_ms.values(), default=0.0))
    return frozenset(part for part, size_ms in sizes_ms.items() if size_ms >= least_ms and size_ms > 0)


def stored_part(diagnosis: Diagnosis, part: str, rank: int | None) -> Fact | None:
    """The figure ``part_ms`` of a rank, or over all, from the steps that the diagnosis lists; None without any."""
    rows = [row for row in diagnosis.breakdown if row.step is not None and rank in (None, row.rank)]
    if not rows:
        return None
    ranks = sorted({row.rank for row in rows})
    alike = (each.source.path for each in diagnosis.evidence if each.metric in OF_PARTS and each.ranks == ranks)
    return Fact(
        metric="part_ms",
        arguments=(("part", part), *((("rank", rank),) if rank is not None else ())),
        value=fmean(float(getattr(row, f"{part}_ms")) for row in rows),
        unit="ms",
        ranks=tuple(ranks),
        steps=tuple(sorted({row.step for row in rows if row.step is not None})),
        path=next(alike, ""),
        selector=f"breakdown part {part}",
    )


def _size_ms(diagnosis: Diagnosis, part: str, ranks: frozenset[int]) -> float:
    """Milliseconds of the part in the mean step of the rank that has most; a late rank is waited for on the others."""
    everywhere = not ranks or part == "exposed_communication"
    rows = (row for row in diagnosis.breakdown if row.step is None and (everywhere or row.rank in ranks))
    return max((float(getattr(row, f"{part}_ms")) for row in rows), default=0.0)


def parts_of(cause: str) -> frozenset[str]:
    """The parts of a step in which a cause of the taxonomy can spend time."""
    known = causes().get(cause)
    if known is None:
        return frozenset()
    of_family = (part for part, families in EXPLAINING.items() if known.family in families)
    return frozenset((*of_family, *OF_FAMILY.get(known.family, ()), *OF_CAUSE.get(cause, ())))
