"""The open runs of the chat by name, and how a question addresses one: ``@b why is it slow?``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hermes_agent.tui.panel import Progress
from hermes_agent.tui.work import ChatSession
from tools.errors import UsageError

if TYPE_CHECKING:
    from hermes_agent.model.diagnosis import Diagnosis
    from hermes_agent.model.events import SourceWanted

ADDRESS = re.compile(r"@((?:\\.|[^\s\\])+)(?:\s+|$)")
NAME_LIMIT = 24
NONE_OPEN = "No run is open yet; /open PATH opens one, /demo the bundled one."


@dataclass(frozen=True)
class OpenRun:
    """A run under discussion; ``name`` is how the person addresses it, ``title`` what it was opened as."""

    name: str
    title: str
    session: ChatSession
    diagnosis: Diagnosis
    progress: Progress
    kept: str = ""  # its id in the store of sessions
    wanted: SourceWanted | None = None  # the source that would decide, while the person has not answered


@dataclass(frozen=True)
class Opened:
    """A session with its diagnosis, and its id in the store."""

    session: ChatSession
    diagnosis: Diagnosis
    kept: str


def name_for(title: str, taken: Iterable[str]) -> str:
    """A short name made from a title, with a number where it is taken."""
    plain = re.sub(r"[^\w.-]+", "-", title).strip("-.")[:NAME_LIMIT].rstrip("-.").lower() or "run"
    used = set(taken)
    tries = (plain, *(f"{plain}-{number}" for number in range(2, len(used) + 3)))
    return next(name for name in tries if name not in used)


def addressed(text: str) -> tuple[str, str]:
    """The run or path that a line addresses ("" for none), and the rest of the line."""
    match = ADDRESS.match(text)
    return (re.sub(r"\\(.)", r"\1", match[1]), text[match.end() :].strip()) if match else ("", text)


@dataclass
class Runs:
    """The open runs in the order of opening, and which of them is under discussion."""

    open: dict[str, OpenRun] = field(default_factory=dict)
    current_name: str = ""

    @property
    def current(self) -> OpenRun:
        """The run under discussion; raises UsageError when none is open."""
        if not self.current_name:
            raise UsageError(NONE_OPEN)
        return self.open[self.current_name]

    def named(self, name: str) -> OpenRun:
        """The run of a name, with or without @; raises UsageError with the names there are."""
        wanted = name.removeprefix("@").rstrip(",:").lower()
        if not wanted:
            return self.current
        if wanted not in self.open:
            have = ", ".join(f"@{each}" for each in self.open)
            raise UsageError(f"No open run is called @{wanted}; {f'there is {have}' if have else NONE_OPEN}")
        return self.open[wanted]

    def add(self, run: OpenRun) -> None:
        """Open a run, which is under discussion from now on; one of the same name is closed."""
        old = self.open.get(run.name)
        if old is not None and old.session is not run.session:
            old.session.close()
        self.open[run.name] = run
        self.current_name = run.name

    def close(self) -> None:
        """Close all runs."""
        for run in self.open.values():
            run.session.close()
        self.open.clear()
        self.current_name = ""
