"""The folders whose runs a client may open by path, each named when the server was started."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Self

from hermes_agent.llm.sanitize import one_line
from hermes_agent.locations.places import URL
from tools.errors import InputError, UsageError
from tools.sources.inventory import take_inventory
from tools.sources.options import Limits
from tools.sources.plain_files import lies_within

LONGEST_PATH = 4096
SHOWN_CHARS = 200
MOST_NAMES = 1000  # of a folder


@dataclass(frozen=True)
class AllowedFolders:
    """Folders with their links resolved. What ends up outside of them by a link or by ``..`` is refused."""

    folders: tuple[Path, ...] = ()

    @classmethod
    def of(cls, folders: Sequence[Path]) -> Self:
        """Return them resolved; raises UsageError for what is no folder."""
        found = []
        for folder in folders:
            try:
                place = folder.expanduser().resolve(strict=True)
            except (OSError, RuntimeError, ValueError) as error:
                raise UsageError(f"--allow {folder}: there is no such folder") from error
            if not place.is_dir():
                raise UsageError(f"--allow {folder}: is a file; allow the folder that holds it")
            found.append(place)
        return cls(tuple(dict.fromkeys(found)))

    def find(self, text: str) -> Path:
        """Return the path of a run inside of the folders; a relative path starts in each of them.

        Raises UsageError for any path outside, whether or not something is there, InputError for one without a run.
        """
        shown = one_line(text, SHOWN_CHARS)
        if not self.folders:
            raise UsageError(
                f"{shown} is no registered run, and no folder is allowed; start the server with --allow FOLDER, or "
                "register the run with `hermes-dx runs add NAME PATH`"
            )
        inside = [place for each in self.folders if (place := self._inside(each, text)) is not None]
        if not inside:
            raise UsageError(
                f"{shown} is neither a registered run nor inside an allowed folder ({self.listed}); give another path, "
                "or have the run registered with `hermes-dx runs add NAME PATH`"
            )
        there = next((place for place in inside if place.exists()), None)
        if there is None:
            raise InputError(f"{shown}: there is no such file or folder in {self.listed}")
        files = take_inventory((there,), Limits()).files
        if not all(self.holds(file) for file in files):
            raise UsageError(f"{shown} has files outside of the allowed folders; register the run to have it read")
        return there

    def holds(self, path: Path) -> bool:
        """Return whether the path, all links followed, ends up in one of the folders."""
        return any(lies_within(path, folder) for folder in self.folders)

    def names(self) -> list[str]:
        """The names directly in the folders, for a message about one that is not there."""
        found: list[str] = []
        for folder in self.folders:
            with suppress(OSError), os.scandir(folder) as entries:
                found += sorted(entry.name for entry in islice(entries, MOST_NAMES))
        return found

    @property
    def listed(self) -> str:
        """The folders for a message."""
        return ", ".join(map(str, self.folders))

    def _inside(self, folder: Path, text: str) -> Path | None:
        """The place that a text means, resolved; None where it is outside of all folders or means no path."""
        if not text or len(text) > LONGEST_PATH or "\0" in text or URL.match(text):
            return None
        try:
            place = (folder / text).resolve()
        except (OSError, RuntimeError, ValueError):
            return None
        return place if self.holds(place) else None
