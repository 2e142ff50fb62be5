"""The location of a run: a local path, or a URL that fsspec can list."""

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
    """Return a command's argument as a place; nothing is opened."""
    return RunUrl(text) if URL.match(text) else Path(text)


def name_of(where: Place) -> str:
    """Return a short name of the run."""
    return where.name or str(where) if isinstance(where, Path) else without_credentials(where.url)


def local(where: Place, cache_dir: Path | None) -> Path:
    """Return a path of this machine: the one given, or a copy of the files at the URL.

    Raises UsageError if the URL cannot be opened, InputError if it holds no run.
    """
    if isinstance(where, Path):
        return where
    from hermes_agent.locations.fetch import fetched

    return fetched(where.url, cache_dir)


def without_credentials(url: str) -> str:
    """Return the URL as it may be shown: without user, password, query and fragment.

    A password may hold anything: what stands before the last @ is not shown.
    """
    begin, slashes, rest = url.partition("//")
    before, _, after = rest.rpartition("@")
    if re.search(r"[?#]", before):  # a password or a query with an @ in it: which one is unclear
        return f"{begin}{slashes}..."
    cut = "...@" if "/" in before else ""
    return re.split(r"[?#]", f"{begin}{slashes}{cut}{after}", maxsplit=1)[0]


def error_text(error: Exception, url: str) -> str:
    """Return the error's text if it cannot hold a credential of the URL, else its class name."""
    return type(error).__name__ if re.search(r"[@?#]", url) else str(error)
