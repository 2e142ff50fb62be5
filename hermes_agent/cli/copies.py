"""Where copies of runs lie: made in a folder of their own, then put where the URL has its place in the cache."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from hermes_agent.cli.interrupt import not_removed, removed_at_end

FOLDER = "fetched"
KEPT = 4  # copies in the cache; the oldest go first, none of this process
KEPT_ORIGINS = 256  # what the copies, also those that are gone, were copied from
ORIGIN = ".url"
PARTIAL = ".part-"
STALE_S = 86_400.0  # an unfinished copy that nothing was added to for so long belongs to no process any more
TRIES = 3

_made: set[Path] = set()  # by this process, which may be reading them


def begun(cache_dir: Path | None) -> Path:
    """An empty folder to copy into, for this user only; it goes when the process ends unless it is put in place."""
    folder = _in_cache(cache_dir) or Path(tempfile.mkdtemp(prefix="hermes-dx-"))
    removed_at_end(folder)
    return folder


def _in_cache(cache_dir: Path | None) -> Path | None:
    if cache_dir is None:
        return None
    try:
        kept = cache_dir / FOLDER
        kept.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=PARTIAL, dir=kept))
    except OSError:
        return None


def dropped(folder: Path) -> None:
    """Removes a copy that was not finished."""
    shutil.rmtree(folder, ignore_errors=True)
    not_removed(folder)


def placed(folder: Path, url: str, shown: str) -> Path:
    """Where the finished copy lies from now on: one place in the cache for each URL, where there is a cache."""
    if not folder.name.startswith(PARTIAL):
        return folder
    target = folder.with_name(hashlib.blake2b(url.encode(), digest_size=12).hexdigest())
    if not _moved(folder, target):
        return folder
    not_removed(folder)
    _made.add(target)
    with suppress(OSError):
        target.with_suffix(ORIGIN).write_text(shown, encoding="utf-8")
    with suppress(OSError):  # another process may be clearing the same folder
        _prune(target.parent)
    return target


def _moved(folder: Path, target: Path) -> bool:
    """Whether the copy took its place; another process may take the same place at the same time."""
    for _ in range(TRIES):
        with suppress(OSError):
            if target.exists():
                aside = Path(tempfile.mkdtemp(prefix=PARTIAL, dir=folder.parent))
                target.rename(aside)
                shutil.rmtree(aside, ignore_errors=True)
            folder.rename(target)
            return True
    return False


def _prune(kept: Path) -> None:
    entries = sorted((path for path in kept.iterdir() if path not in _made), key=lambda path: path.stat().st_mtime)
    origins = [path for path in entries if path.suffix == ORIGIN]
    partial = [path for path in entries if path.name.startswith(PARTIAL)]
    copies = [path for path in entries if path not in origins and path not in partial]
    stale = [path for path in partial if time.time() - path.stat().st_mtime > STALE_S]
    spare = max(KEPT - sum(path.parent == kept for path in _made), 0)
    for old in (*copies[: max(len(copies) - spare, 0)], *stale):
        shutil.rmtree(old, ignore_errors=True)
    for old in origins[:-KEPT_ORIGINS]:
        old.unlink(missing_ok=True)


def origin(path: Path) -> str:
    """The URL, without credentials, of which this is or was a copy; empty for any other path."""
    if path.parent.name != FOLDER:
        return ""
    try:
        return path.with_suffix(ORIGIN).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
