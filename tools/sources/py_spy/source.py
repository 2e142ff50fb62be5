"""The declarations of what py-spy writes: JSON, which is named as traces are, and text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tools.errors import InputError
from tools.run.kinds import STACKS_FORMAT
from tools.sources.formats import Anchor, Contribution, FolderFiles, RecordFormat


def _is_json(path: Path) -> bool:
    from tools.sources.py_spy.recognise import form_of_file

    return form_of_file(path) in ("speedscope", "dump json")


def _is_text(path: Path) -> bool:
    from tools.sources.py_spy.recognise import form_of_file

    return form_of_file(path) in ("dump", "folded")


def _read(found: Sequence[FolderFiles], anchor: Anchor) -> Contribution:
    """The stacks of all files; one that cannot be used is left out with a note."""
    from tools.run.model import Source
    from tools.run.recorded.host_stacks import HostStacks, joined_stacks
    from tools.sources.py_spy.reader import read_stacks

    parts: list[HostStacks] = []
    sources: list[Source] = []
    for path in (file for each in found for file in each.files):
        try:
            read = read_stacks(path)
        except InputError as error:
            sources.append(Source(path, STACKS_FORMAT, (), "excluded", str(error)))
            continue
        ranks = tuple(rank for rank in read.ranks if rank >= 0)
        events = int(read.rows["samples"].sum())
        sources.append(Source(path, STACKS_FORMAT, ranks, "complete", bytes=path.stat().st_size, events=events))
        parts.append(read)
    notes = tuple(f"{each.note}; it was left out" for each in sources if each.note)
    return Contribution(host_stacks=joined_stacks(parts), sources=tuple(sources), notes=notes)


# Names only where the content is out of reach.
PY_SPY = RecordFormat(
    STACKS_FORMAT, re.compile(r".+\.speedscope(?:\.json)?\Z"), _read, recognises=_is_json, nested=True
)
PY_SPY_TEXT = RecordFormat(
    f"{STACKS_FORMAT} (text)", re.compile(r"py-?spy.+\.(?:txt|raw|folded)\Z"), _read, recognises=_is_text
)
