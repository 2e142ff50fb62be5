"""Joins the columns that several processes collected from one file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tools.sources.columns import Columns
from tools.sources.values import Codes

Key = TypeVar("Key")

PLAIN = ("start_ns", "end_ns", "kind", "correlation", "external")


def compact(columns: Columns) -> Columns:
    """The same columns with one array each, which travel between processes at little cost."""
    for name in (*PLAIN, "name", "track"):
        setattr(columns, name, _one(getattr(columns, name)))
    for name in ("starting", "identity", "time_ns", "track"):
        setattr(columns.flows, name, _one(getattr(columns.flows, name)))
    for table in columns.details.tables.values():
        for column, parts in table.items():
            table[column] = _one(parts)
    return columns


def absorb(into: Columns, other: Columns) -> None:
    """Append ``other``, with its codes translated, to ``into``."""
    names, tracks = _translate(into.names, other.names), _translate(into.tracks, other.tracks)
    for name in PLAIN:
        getattr(into, name).extend(getattr(other, name))
    into.name += [names[part] for part in other.name]
    into.track += [tracks[part] for part in other.track]
    for code, where in other.devices.items():
        into.devices.setdefault(int(tracks[code]), where)
    into.labels |= other.labels
    flow_ids = _translate(into.flow_ids, other.flow_ids).astype(np.int64)
    into.flows.starting += other.flows.starting
    into.flows.time_ns += other.flows.time_ns
    into.flows.identity += [flow_ids[part] for part in other.flows.identity]
    into.flows.track += [tracks[part] for part in other.flows.track]
    _absorb_details(into, other)
    into.excluded += other.excluded
    into.rows += other.rows
    into.spans += other.spans
    into.seen += other.seen


def _absorb_details(into: Columns, other: Columns) -> None:
    for table, columns in other.details.tables.items():
        own = into.details.tables[table]
        for column, parts in columns.items():
            key = f"{table}.{column}"
            if column == "row":
                own[column] += [part + into.rows for part in parts]
            elif key in other.details.vocabularies:
                words = into.details.vocabularies.setdefault(key, Codes())
                codes = _translate(words, other.details.vocabularies[key])
                own[column] += [codes[part] for part in parts]
            else:
                own[column] += parts
    into.details.groups |= other.details.groups


def _translate(into: Codes[Key], other: Iterable[Key]) -> NDArray[np.int32]:
    return np.array([into[key] for key in other], dtype=np.int32)


def _one(parts: list[NDArray[Any]]) -> list[NDArray[Any]]:
    return [np.concatenate(parts)] if parts else []
