"""Show how large the cache is, or clear it."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import settings
from hermes_agent.cli.terminal import aligned, print_json
from tools.errors import ExitCode, UsageError
from tools.leftovers import PARTIAL_FOLDER, remove_leftovers

if TYPE_CHECKING:
    from hermes_agent.config.settings import Settings

SCHEMA = "hermes-dx/cache/1"
TRACES = "*.run"  # files of the cache folder itself
PARTS = {
    TRACES: "traces, decoded",
    "case-index": "search index of the case library",
    "diagnoses": "diagnoses",
    "fetched": "copies of runs from URLs",
    "latest": "last diagnosis of each folder",
    "measured": "figures measured for questions",
    "stamps": "fingerprints of files",
    "summaries": "summaries of ranks",
    "sessions": "conversations",
}
KEPT = ("sessions",)  # nobody can make them again
OTHERS = "other files"


@dataclass(frozen=True)
class CachePart:
    """One part of the cache; ``cleared``: whether ``cache clear`` removes it."""

    name: str
    holds: str
    files: int
    bytes: int
    cleared: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the actions of ``cache``."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    info = actions.add_parser("info", help="show its parts and their sizes", description="Show its parts and sizes.")
    info.add_argument("--json", action="store_true", help="print the rows as JSON")
    info.set_defaults(action=_info)
    text = "remove what can be made again; conversations and files of others stay"
    clear = actions.add_parser("clear", help=text, description=f"{text.capitalize()}.")
    clear.set_defaults(action=_clear, json=False)


def run(args: argparse.Namespace) -> int:
    """Carry the action out; raises UsageError where no cache is in use."""
    folder = cache_folder(settings(no_llm=True))
    if folder is None:
        raise UsageError("no cache is in use; name a folder of your own in HERMES_DX_CACHE_DIR")
    return int(args.action(args, folder))


def cache_folder(chosen: Settings) -> Path | None:
    """The cache in use; None where the settings refuse it."""
    return chosen.cache_dir


def cache_parts(folder: Path) -> list[CachePart]:
    """What lies in the cache, empty parts left out; links are counted as files and not followed."""
    sizes: dict[str, list[int]] = {}
    for path, size in _files(folder):
        sizes.setdefault(_part(path.relative_to(folder)), []).append(size)
    rows = {**PARTS, OTHERS: "not of Hermes, or of another version"}
    return [
        CachePart(name, holds, len(sizes[name]), sum(sizes[name]), name in PARTS and name not in KEPT)
        for name, holds in rows.items()
        if name in sizes
    ]


def clear_cache(folder: Path) -> None:
    """Remove the parts that can be made again, and what processes that were killed left; links are not followed."""
    remove_leftovers(folder)
    for path in folder.glob(TRACES):
        if path.is_file() and not path.is_symlink():
            path.unlink(missing_ok=True)
    for name in PARTS.keys() - {TRACES, *KEPT}:
        part = folder / name
        if part.is_symlink() or not part.is_dir():
            continue
        for entry in part.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                if not entry.name.startswith(PARTIAL_FOLDER):  # of a process that runs
                    shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)


def size_text(count: int) -> str:
    """``529.1 MB``."""
    return f"{count / 1e6:,.1f} MB"


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    for where, _, names in os.walk(folder):
        for name in names:
            path = Path(where) / name
            with suppress(OSError):  # another process may be clearing it
                yield path, path.lstat().st_size


def _part(path: Path) -> str:
    if len(path.parts) == 1:
        return TRACES if path.match(TRACES) else OTHERS
    return path.parts[0] if path.parts[0] in PARTS else OTHERS


def _info(args: argparse.Namespace, folder: Path) -> int:
    parts = cache_parts(folder)
    if args.json:
        print_json({"schema": SCHEMA, "folder": str(folder), "rows": [asdict(part) for part in parts]})
        return ExitCode.OK
    print(f"{folder}: {size_text(sum(part.bytes for part in parts))}")
    if parts:
        rows = [(part.holds, f"{part.files:,}", size_text(part.bytes)) for part in parts]
        print(aligned(("", "files", "size"), rows))
    return ExitCode.OK


def _clear(args: argparse.Namespace, folder: Path) -> int:
    before = sum(part.bytes for part in cache_parts(folder))
    try:
        clear_cache(folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be cleared: {error.strerror or error}; check its permissions") from None
    left = cache_parts(folder)
    print(f"{folder}: {size_text(before - sum(part.bytes for part in left))} removed")
    for part in left:
        print(f"kept: {part.holds} ({size_text(part.bytes)})")
    return ExitCode.OK
