"""The parallel layout of a job, as far as its traces say."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tools.documents import parse_json
from tools.run.model import Layout, ProcessGroup

# Words in the names that frameworks give their groups (Megatron-LM, DeepSpeed, PyTorch device meshes).
DIMENSION_WORDS: dict[str, re.Pattern[str]] = {
    "data_parallel": re.compile(r"data_parallel|(?:^|[_\W])(?:dp|ddp|fsdp|dp_shard|dp_replicate)(?:$|[_\W\d])", re.I),
    "tensor_parallel": re.compile(r"tensor_(?:model_)?parallel|(?:^|[_\W])tp(?:$|[_\W\d])", re.I),
    "pipeline_parallel": re.compile(r"pipeline_(?:model_)?parallel|(?:^|[_\W])pp(?:$|[_\W\d])", re.I),
    "expert_parallel": re.compile(r"expert_(?:model_)?parallel|(?:^|[_\W])ep(?:$|[_\W\d])", re.I),
}
# A group that spans two dimensions gives the size of neither.
COMPOUND = re.compile(r"_with_|_and_|expert_data|expert_tensor|context|(?:^|_)cp(?:$|_)|embedding", re.I)
Value = TypeVar("Value", int, str)
MAX_LISTED_RANKS = 1 << 20


@dataclass(frozen=True)
class JobFacts:
    """The job as one trace describes it."""

    world_size: int | None
    backend: str | None
    configured: Sequence[Mapping[str, Any]]  # pg_config
    seen: Mapping[str, tuple[str, str, int]]  # group -> description, ranks as text, size


def describe(facts: Iterable[JobFacts]) -> Layout:
    """Combine what the traces of all ranks say; where they contradict each other, the size is unknown."""
    groups: dict[ProcessGroup, None] = {}
    sizes: set[int | None] = set()
    backends: set[str | None] = set()
    for each in facts:  # read once: of thousands of traces only what differs is kept
        groups.update(dict.fromkeys(_groups(each)))
        sizes.add(each.world_size)
        backends.add(each.backend)
    listed = tuple(sorted(groups, key=lambda group: (group.name, group.ranks)))
    return Layout(
        world_size=_agreed(sizes),
        backend=_agreed(backends),
        groups=listed,
        **{dimension: _dimension(listed, pattern) for dimension, pattern in DIMENSION_WORDS.items()},
    )


def pipeline_stages(layout: Layout) -> dict[int, int]:
    """The stage of every rank that a pipeline group lists: its place there; empty without such groups."""
    return {
        rank: stage
        for group in layout.groups
        if DIMENSION_WORDS["pipeline_parallel"].search(group.description) and not COMPOUND.search(group.description)
        for stage, rank in enumerate(group.ranks)
    }


def _agreed(values: Iterable[Value | None]) -> Value | None:
    distinct = {value for value in values if value is not None}
    return distinct.pop() if len(distinct) == 1 else None


def _groups(facts: JobFacts) -> list[ProcessGroup]:
    found: dict[str, ProcessGroup] = {}
    for entry in facts.configured:
        name, described = str(entry.get("pg_name", "")), str(entry.get("pg_desc", ""))
        backend = str(entry.get("backend_config") or facts.backend or "")
        ranks, size = ranks_of(entry.get("ranks")), entry.get("pg_size")
        found[name] = ProcessGroup(name, described, backend, ranks, size if isinstance(size, int) else len(ranks))
    for name, (described, text, size) in facts.seen.items():
        if name and name not in found:
            ranks = ranks_of(text)
            found[name] = ProcessGroup(name, described, facts.backend or "", ranks, size if size > 0 else len(ranks))
    return list(found.values())


def ranks_of(value: object) -> tuple[int, ...]:
    """Ranks from a list or its text; () where it is none, or was cut short by the profiler ("[0, 1, ...]")."""
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except ValueError:
            return ()
    if not isinstance(value, list) or len(value) > MAX_LISTED_RANKS:
        return ()
    return tuple(rank for rank in value if isinstance(rank, int)) if all(isinstance(r, int) for r in value) else ()


def _dimension(groups: Sequence[ProcessGroup], pattern: re.Pattern[str]) -> int | None:
    """The size that all groups named after the dimension share."""
    named = [each for each in groups if pattern.search(each.description) and not COMPOUND.search(each.description)]
    return _agreed(group.size for group in named if group.size > 0)
