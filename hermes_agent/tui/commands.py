"""Writes the diagnosis to a file, in the form its name asks for."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from hermes_agent.locations.places import Place, place
from hermes_agent.tui import sections, tables
from hermes_agent.tui.prose import IDENTIFIER
from tools.errors import UsageError

if TYPE_CHECKING:
    from hermes_agent.model.diagnosis import Diagnosis

OVERWRITE = "--overwrite"


def write_report(diagnosis: Diagnosis, argument: str) -> str:
    """Writes ``FILE.md`` or ``FILE.json`` and says so; one that exists is kept unless ``--overwrite`` stands before it.

    Raises UsageError when the file cannot be written.
    """
    overwrite = argument.startswith(f"{OVERWRITE} ")
    path = Path(argument.removeprefix(OVERWRITE).strip() if overwrite else argument).expanduser()
    text = _rendered(diagnosis, path)
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file.")
    existed = path.exists()
    try:
        with path.open("w" if overwrite else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} exists and was kept; /report {OVERWRITE} {path} replaces it.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}; name another file.") from error
    return f"{'Replaced' if existed else 'Wrote'} {path}."


def _rendered(diagnosis: Diagnosis, path: Path) -> str:
    match path.suffix.lower():
        case ".md":
            from hermes_agent.report.markdown import render_markdown

            return render_markdown(diagnosis)
        case ".json":
            return diagnosis.model_dump_json(by_alias=True, indent=2) + "\n"
        case _:
            raise UsageError(f"{path}: the name has to end in .md (Markdown) or .json.")


if TYPE_CHECKING:
    from collections.abc import Iterable

    from hermes_agent.model.diagnosis import Diagnosis
    from hermes_agent.tui.tables import TableView


NO_BREAKDOWN = (
    "No trace was read, so what a step consists of is not known; capture one with hermes-dx monitor profile RUN_FOLDER."
)


class Chat(Protocol):
    """What a command may do."""

    @property
    def diagnosis(self) -> Diagnosis:
        """The diagnosis under discussion; raises UsageError when no run is open."""

    def open_paths(self, paths: tuple[Place, ...]) -> None:
        """Diagnoses a run."""

    def open_demo(self) -> None:
        """Diagnoses the bundled run."""

    def ask(self, question: str) -> None:
        """Answers a question about the run."""

    def show(self, identifier: str) -> None:
        """Opens what stands behind an id."""

    def say(self, *lines: str) -> None:
        """Shows a few lines."""

    def show_sections(self, chosen: Iterable[sections.Section]) -> None:
        """Shows parts of a diagnosis."""

    def show_table(self, view: TableView) -> None:
        """Opens a table."""

    def show_help(self) -> None:
        """Opens the help."""

    def copy_last(self) -> None:
        """Copies the last answer, or else the diagnosis."""

    def choose_theme(self, name: str) -> None:
        """Changes the theme; without a name, lets a person choose."""

    def leave(self) -> None:
        """Ends the chat."""


@dataclass(frozen=True)
class Command:
    """One command; ``argument`` is how it is called in the help, in brackets when it can be left out."""

    name: str
    argument: str
    help: str
    act: Callable[[Chat, str], None]

    @property
    def usage(self) -> str:
        """How it is typed."""
        return f"/{self.name} {self.argument}".strip()

    @property
    def needs_argument(self) -> bool:
        """Whether it means nothing without its argument."""
        return bool(self.argument) and not self.argument.startswith("[")


def run_command(chat: Chat, line: str) -> None:
    """Carries out ``/name argument``; raises UsageError when it cannot be."""
    name, _, argument = line.removeprefix("/").partition(" ")
    command = next((each for each in COMMANDS if each.name == name.lower()), None)
    if command is None:
        raise UsageError(f"There is no command /{name}; /help lists the commands.")
    if command.needs_argument and not argument.strip():
        raise UsageError(f"/{command.name} needs something to work on: {command.usage}.")
    command.act(chat, argument.strip())


def _open(chat: Chat, argument: str) -> None:
    try:
        words = shlex.split(argument)
    except ValueError as error:
        raise UsageError(f"/open: {argument} cannot be read ({error}); close the quotes.") from error
    chat.open_paths(tuple(_place(word) for word in words))


def _place(word: str) -> Place:
    where = place(word)
    return where.expanduser() if isinstance(where, Path) else where


def _show(chat: Chat, argument: str) -> None:
    name = argument.strip("[]")
    chat.show(name.upper() if IDENTIFIER.fullmatch(name.upper()) else name)


def _table(chat: Chat, view: Callable[[Diagnosis], TableView]) -> None:
    made = view(chat.diagnosis)
    if not made.rows:
        raise UsageError(NO_BREAKDOWN)
    chat.show_table(made)


def _causes(chat: Chat, _: str) -> None:
    found = sections.causes(chat.diagnosis)
    chat.show_sections(found) if found else chat.say("No cause was found.")


def _cases(chat: Chat, argument: str) -> None:
    if argument:
        chat.ask(f"similar cases: {argument}")
        return
    found = sections.cases(chat.diagnosis)
    chat.show_sections(found) if found else chat.say("No case was looked up: no cause was found.")


def _report(chat: Chat, argument: str) -> None:
    pass

    chat.say(write_report(chat.diagnosis, argument))


COMMANDS: tuple[Command, ...] = (
    Command("open", "PATH...", "diagnose a trace file, a folder with traces or records, or a URL", _open),
    Command("demo", "", "diagnose the bundled recorded run", lambda chat, _: chat.open_demo()),
    Command("causes", "", "show the ranked causes", _causes),
    Command("show", "ID", "open what stands behind E7, C2, A1 or a check", _show),
    Command(
        "evidence", "", "list every figure cited", lambda chat, _: chat.show_table(tables.evidence(chat.diagnosis))
    ),
    Command(
        "checks",
        "",
        "what every check came to, and needs",
        lambda chat, _: chat.show_table(tables.checks(chat.diagnosis)),
    ),
    Command("cases", "[TEXT]", "similar public cases, to the run or to a text", _cases),
    Command("why-not", "CAUSE", "why a cause was not found", lambda chat, cause: chat.ask(f"why not {cause}?")),
    Command(
        "whatif", "CAUSE", "what fixing a cause would bring", lambda chat, cause: chat.ask(f"what if I fix {cause}?")
    ),
    Command("steps", "", "where each step goes", lambda chat, _: _table(chat, tables.steps)),
    Command("ranks", "", "where the step goes on each rank", lambda chat, _: _table(chat, tables.ranks)),
    Command("report", "FILE", "write the diagnosis to FILE.md or FILE.json", _report),
    Command("copy", "", "copy the last answer, or the diagnosis", lambda chat, _: chat.copy_last()),
    Command("theme", "[NAME]", "change the colours", lambda chat, name: chat.choose_theme(name)),
    Command("help", "", "commands and keys", lambda chat, _: chat.show_help()),
    Command("quit", "", "leave the chat", lambda chat, _: chat.leave()),
)

KEYS = (
    ("Enter", "send; on a message, open the chosen citation"),
    ("Tab, Shift+Tab", "to the next or previous message with citations; in the input, complete a command"),
    ("Left, Right", "on a message, choose a citation"),
    ("Up, Down", "in the input, what was typed before"),
    ("PageUp, PageDown", "scroll the conversation"),
    ("Esc", "stop the running work; close a screen; back to the input"),
    ("Ctrl+P", "palette of all commands"),
    ("Ctrl+C", "copy the selection; twice: quit"),
)


def completions() -> tuple[str, ...]:
    """What the input completes."""
    return tuple(f"/{command.name} " if command.argument else f"/{command.name}" for command in COMMANDS)


def help_rows() -> tuple[tuple[str, str], ...]:
    """The commands, then the keys: how each is typed and what it does."""
    commands = tuple((each.usage, each.help) for each in COMMANDS)
    return (*commands, ("anything else", "is a question about the run"), ("", ""), *KEYS)
