"""A run of which no trace was made: its monitor records and step logs are all there is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tools.errors import InputError
from tools.run.model import Layout, Run, Source
from tools.sources.companions import Anchor, Companions, read_companions
from tools.sources.environment import read_environment

NO_TRACE = "no trace was read: what a step consists of is not known, only what records and logs tell of whole steps"


def load_records(paths: Sequence[Path], notes: Sequence[str] = ()) -> Run:
    """A run without ranks of a trace, read from what lies beside where traces would be.

    Raises InputError where nothing there can be read.
    """
    beside = read_companions(paths, Anchor((), None, None))
    if beside.records is None and beside.step_log is None:
        reasons = [_told(source) for source in beside.sources if source.note] or list(beside.notes)
        raise InputError(
            f"{', '.join(map(str, paths))}: holds no trace, and what else lies there cannot be used"
            + (f": {reasons[0]}" if reasons else "; capture some steps of the running training")
        )
    variables, environment_notes = read_environment(paths)
    return Run(
        ranks=(),
        sources=beside.sources,
        layout=Layout(world_size=_world_size(beside)),
        origin_unix_ns=None,
        notes=(*notes, NO_TRACE, *environment_notes, *beside.notes),
        records=beside.records,
        step_log=beside.step_log,
        variables=variables,
    )


def _told(source: Source) -> str:
    """What is wrong with a source, which is named."""
    return source.note if source.path.name in source.note else f"{source.path.name}: {source.note}"


def _world_size(beside: Companions) -> int | None:
    """What the ranks' own records say, where they agree."""
    told = set() if beside.records is None else {each.world_size for each in beside.records.ranks}
    return told.pop() if len(told) == 1 else None
