"""Where a run lies as the command line names it: a local path, or a URL that fsspec can list."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(::[A-Za-z][A-Za-z0-9+.-]*)*://")


@dataclass(frozen=True)
class RunUrl:
    """A run folder or trace file that has to be copied here before it can be read."""

    url: str


Place = Path | RunUrl


def place(text: str) -> Place:
    """The argument of a command as a place; nothing is opened."""
    return RunUrl(text) if URL.match(text) else Path(text)


def name_of(where: Place) -> str:
    """What a run is called where there is little room."""
    if isinstance(where, Path):
        return where.name or str(where)
    from hermes_agent.watch.publish import without_credentials

    return without_credentials(where.url)


def local(where: Place, cache_dir: Path | None) -> Path:
    """A path of this machine: the one given, or a copy of what lies at the URL.

    Raises UsageError where the URL cannot be opened, InputError where nothing of a run lies there.
    """
    if isinstance(where, Path):
        return where
    from hermes_agent.locations.fetch import fetched

    return fetched(where.url, cache_dir)
