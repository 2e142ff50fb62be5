"""The location of a run: a local path, or a URL that fsspec can list and the local copy of its files."""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tools.leftovers import PARTIAL_FOLDER, HeldFolder, private_folder

URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(::[A-Za-z][A-Za-z0-9+.-]*)*://")


@dataclass(frozen=True)
class RunUrl:
    """A run folder or trace file that has to be copied here before it can be read."""

    url: str


Place = Path | RunUrl
PASTED = Path("-")  # in place of a run on a command line: text from standard input


def place(text: str) -> Place:
    """Return a command's argument as a place; nothing is opened."""
    return RunUrl(text) if URL.match(text) else Path(text)


def name_of(where: Place) -> str:
    """Return a short name of the run."""
    return where.name or str(where) if isinstance(where, Path) else without_credentials(where.url)


def local(where: Place, cache_dir: Path | None) -> Path:
    """Return the path given, or a local copy of the URL's files; raises UsageError or InputError without a run."""
    if isinstance(where, Path):
        return where
    from hermes_agent.locations.fetch import fetched

    return fetched(where.url, cache_dir)


def without_credentials(url: str) -> str:
    """Return the URL without user, password (anything before the last @), query and fragment."""
    begin, slashes, rest = url.partition("//")
    before, _, after = rest.rpartition("@")
    if re.search(r"[?#]", before):  # a password or a query with an @ in it: which one is unclear
        return f"{begin}{slashes}..."
    cut = "...@" if "/" in before else ""
    return re.split(r"[?#]", f"{begin}{slashes}{cut}{after}", maxsplit=1)[0]


def error_text(error: Exception, url: str) -> str:
    """Return the error's text if it cannot hold a credential of the URL, else its class name."""
    return type(error).__name__ if re.search(r"[@?#]", url) else str(error)


FOLDER = "fetched"
CACHED = 4  # copies in the cache; the oldest go first, none of this process
CACHED_ORIGINS = 256  # URLs of the copies, also of deleted ones
ORIGIN = ".url"
TRIES = 3

_made: set[Path] = set()  # by this process, which may be reading them
_temporary: dict[Path, HeldFolder] = {}


def new_folder(cache_dir: Path | None) -> Path:
    """Return an empty private folder to copy into; it is removed at exit unless ``store`` moves it."""
    folder = None
    if cache_dir is not None:
        with suppress(OSError):
            private_folder(cache_dir / FOLDER)
            folder = HeldFolder(cache_dir / FOLDER)
    folder = folder or HeldFolder()
    _temporary[folder.path] = folder
    return folder.path


def remove_temporary() -> None:
    """Remove the copies of this process that are not in the cache."""
    for folder in tuple(_temporary):
        discard(folder)


def discard(folder: Path) -> None:
    """Remove an unfinished copy."""
    if (held := _temporary.pop(folder, None)) is not None:
        held.close()


def store(folder: Path, url: str, shown: str) -> Path:
    """Move a finished copy to the URL's place in the cache, if there is a cache; return the folder of the copy."""
    from hashlib import blake2b

    if folder.parent.name != FOLDER:
        return folder
    target = folder.with_name(blake2b(url.encode(), digest_size=12).hexdigest())
    if not _moved(folder, target):
        return folder
    discard(folder)
    _made.add(target)
    with suppress(OSError):
        target.with_suffix(ORIGIN).write_text(shown, encoding="utf-8")
    with suppress(OSError):  # another process may be clearing the same folder
        _prune(target.parent)
    return target


def _moved(folder: Path, target: Path) -> bool:
    """Return whether the copy is in place; another process may store the same URL at the same time."""
    for _ in range(TRIES):
        with suppress(OSError):
            if target.exists():
                with HeldFolder(folder.parent) as aside:
                    target.rename(aside.path / "replaced")
            folder.rename(target)
            return True
    return False


def _prune(cached: Path) -> None:
    entries = sorted((path for path in cached.iterdir() if path not in _made), key=lambda path: path.stat().st_mtime)
    origins = [path for path in entries if path.suffix == ORIGIN]
    copies = [path for path in entries if path not in origins and not path.name.startswith(PARTIAL_FOLDER)]
    spare = max(CACHED - sum(path.parent == cached for path in _made), 0)
    for old in copies[: max(len(copies) - spare, 0)]:
        shutil.rmtree(old, ignore_errors=True)
    for old in origins[:-CACHED_ORIGINS]:
        old.unlink(missing_ok=True)


def by_origin(text: str) -> str:
    """Return a message with the copies of this process named by what they were copied from, not by their folders."""
    for folder in _made:
        text = text.replace(str(folder), origin(folder) or folder.name)
    return text


def origin(path: Path) -> str:
    """Return the URL, without credentials, that this was copied from; empty for any other path."""
    if path.parent.name != FOLDER:
        return ""
    with suppress(OSError, ValueError):
        return path.with_suffix(ORIGIN).read_text(encoding="utf-8")
    return ""
