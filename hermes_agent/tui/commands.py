"""The commands of the chat: one registry for the input line, its completion, the palette and the help."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.locations.places import name_of, place
from hermes_agent.tui import sections
from hermes_agent.tui.messages import IDENTIFIER
from hermes_agent.tui.screens import HelpScreen, TableScreen
from tools.errors import UsageError
from tools.knowledge.taxonomy import causes

if TYPE_CHECKING:
    from hermes_agent.model.diagnosis import Diagnosis
    from hermes_agent.tui.app import HermesChat

OVERWRITE = "--overwrite"
LAST_WORD = re.compile(r"(?:\\.|[^\s\\])*\Z")
NO_BREAKDOWN = (
    "No trace was read, so the parts of a step are unknown; capture one with hermes-dx monitor profile RUN_FOLDER."
)


@dataclass(frozen=True)
class Command:
    """One command; ``argument`` is its name in the help, in brackets when optional, ``words`` completes it."""

    name: str
    argument: str
    help: str
    act: Callable[[HermesChat, str], None]
    words: Callable[[HermesChat, str], list[str]] = lambda chat, argument: []

    @property
    def usage(self) -> str:
        """The command as it is typed."""
        return f"/{self.name} {self.argument}".strip()

    @property
    def needs_argument(self) -> bool:
        """Return whether its argument is required."""
        return bool(self.argument) and not self.argument.startswith("[")


def run_command(chat: HermesChat, line: str) -> None:
    """Run ``/name argument``; raises UsageError when it cannot."""
    name, _, argument = line.removeprefix("/").partition(" ")
    command = next((each for each in COMMANDS if each.name == name.lower()), None)
    if command is None:
        raise UsageError(f"There is no command /{name}; /help lists the commands.")
    if command.needs_argument and not argument.strip():
        raise UsageError(f"/{command.name} needs an argument: {command.usage}.")
    command.act(chat, argument.strip())


def completions() -> tuple[str, ...]:
    """Return the commands as they are typed, with a space where an argument follows."""
    return tuple(f"/{command.name}{' ' if command.argument else ''}" for command in COMMANDS)


def candidates(chat: HermesChat, line: str) -> list[str]:
    """Return the lines that a typed line may become: a command, or a command with its argument."""
    name, space, argument = line.partition(" ")
    if not space:
        return [each for each in completions() if each.startswith(line)]
    command = next((each for each in COMMANDS if f"/{each.name}" == name), None)
    try:
        words = command.words(chat, argument) if command else []
    except UsageError:  # no run is open
        return []
    return [f"{name} {word}" for word in words if word.startswith(argument)]


def _paths(chat: HermesChat, argument: str) -> list[str]:
    """The arguments of ``/open`` with the last path completed; folders end with a slash."""
    found = LAST_WORD.search(argument)
    typed = found.group() if found else ""
    head, slash, name = typed.rpartition("/")
    unescaped = re.sub(r"\\(.)", r"\1", name)
    folder = Path(re.sub(r"\\(.)", r"\1", head + slash) or ".").expanduser()
    try:
        entries = sorted((each.name, each.is_dir()) for each in folder.iterdir() if each.name.startswith(unescaped))
    except OSError:
        return []
    before = argument[: len(argument) - len(name)]
    visible = [each for each in entries if unescaped.startswith(".") or not each[0].startswith(".")]
    return [before + re.sub(r"([\s\\'\"])", r"\\\1", name) + ("/" if is_dir else "") for name, is_dir in visible]


def _identifiers(chat: HermesChat, argument: str) -> list[str]:
    diagnosis = chat.controller.diagnosis
    return [each.id for records in (diagnosis.evidence, diagnosis.advice, diagnosis.cases) for each in records]


def _causes_found(chat: HermesChat, argument: str) -> list[str]:
    return list(dict.fromkeys(each.cause for each in chat.controller.diagnosis.causes))


def _themes(chat: HermesChat, argument: str) -> list[str]:
    return sorted(chat.available_themes)


def _ask(form: str) -> Callable[[HermesChat, str], None]:
    return lambda chat, argument: chat.controller.ask(form.format(argument))


def _say(text: str, view: Callable[[Diagnosis], tuple[sections.Section, ...]]) -> Callable[[HermesChat, str], None]:
    """A command that shows parts of the diagnosis, or a text where there are none."""

    def act(chat: HermesChat, _: str) -> None:
        found = view(chat.controller.diagnosis)
        chat.conversation.show_sections(found) if found else chat.conversation.say(text)

    return act


def _open(chat: HermesChat, argument: str) -> None:
    try:
        places = [place(word) for word in shlex.split(argument)]
    except ValueError as error:
        raise UsageError(f"/open: {argument} cannot be read ({error}); close the quotes.") from error
    paths = tuple(each.expanduser() if isinstance(each, Path) else each for each in places)
    title = name_of(paths[0]) + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
    chat.controller.open(title, lambda: chat.openings.path(paths))


def _demo(chat: HermesChat, _: str) -> None:
    chat.controller.open("the bundled run", chat.openings.demo)


def _show(chat: HermesChat, argument: str) -> None:
    name = argument.strip("[]")
    chat.controller.show(name.upper() if IDENTIFIER.fullmatch(name.upper()) else name)


def _table(view: Callable[[Diagnosis], sections.TableView]) -> Callable[[HermesChat, str], None]:
    def act(chat: HermesChat, _: str) -> None:
        made = view(chat.controller.diagnosis)
        if not made.rows:
            raise UsageError(NO_BREAKDOWN)
        chat.controller.open_screen(TableScreen(made))

    return act


def _cases(chat: HermesChat, argument: str) -> None:
    of_run = _say("No cause, so no similar cases.", sections.cases)
    chat.controller.ask(f"similar cases: {argument}") if argument else of_run(chat, "")


def _report(chat: HermesChat, argument: str) -> None:
    chat.conversation.say(write_report(chat.controller.diagnosis, argument))


def write_report(diagnosis: Diagnosis, argument: str) -> str:
    """Write ``FILE.md`` or ``FILE.json``, over a file only after ``--overwrite``; raises UsageError if it cannot."""
    from hermes_agent.report.markdown import render_markdown

    overwrite = argument.startswith(f"{OVERWRITE} ")
    path = Path(argument.removeprefix(OVERWRITE).strip() if overwrite else argument).expanduser()
    form = path.suffix.lower()
    if form not in (".md", ".json"):
        raise UsageError(f"{path}: the name has to end in .md (Markdown) or .json.")
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file.")
    text = render_markdown(diagnosis) if form == ".md" else f"{diagnosis.model_dump_json(by_alias=True, indent=2)}\n"
    existed = path.exists()
    try:
        with path.open("w" if overwrite else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} exists and was not replaced; /report {OVERWRITE} {path} replaces it.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}; name another file.") from error
    return f"{'Replaced' if existed else 'Wrote'} {path}."


COMMANDS: tuple[Command, ...] = (
    Command("open", "PATH...", "diagnose a trace, a folder with traces, or a URL", _open, _paths),
    Command("demo", "", "diagnose the bundled recorded run", _demo),
    Command("causes", "", "show the ranked causes", _say("No cause was found.", sections.causes)),
    Command("show", "ID", "show the record behind E7, C2, A1 or a check", _show, _identifiers),
    Command("evidence", "", "list every figure cited", _table(sections.evidence_table)),
    Command("checks", "", "list the result of every check", _table(sections.check_table)),
    Command("cases", "[TEXT]", "similar public cases, to the run or to a text", _cases),
    Command("why-not", "CAUSE", "why a cause was not found", _ask("why not {}?"), lambda *_: list(causes())),
    Command("whatif", "CAUSE", "the gain of fixing a cause", _ask("what if I fix {}?"), _causes_found),
    Command("steps", "", "time breakdown of each step", _table(sections.step_table)),
    Command("ranks", "", "time breakdown of each rank", _table(sections.rank_table)),
    Command("report", "FILE", "write the diagnosis to FILE.md or FILE.json", _report),
    Command("copy", "", "copy the last answer, or the diagnosis", lambda chat, _: chat.controller.copy_last()),
    Command("theme", "[NAME]", "change the colours", lambda chat, name: chat.controller.choose_theme(name), _themes),
    Command("help", "", "commands and keys", lambda chat, _: chat.controller.open_screen(HelpScreen(help_rows()))),
    Command("quit", "", "leave the chat", lambda chat, _: chat.controller.leave()),
)

KEYS = (
    ("Enter", "send; on a message: open the chosen citation"),
    ("Tab", "complete a command; else go to the next message"),
    ("Shift+Tab", "go to the previous message with citations"),
    ("Left, Right", "on a message: choose a citation"),
    ("Up, Down", "in the input: lines typed before"),
    ("PageUp, PageDown", "scroll the conversation"),
    ("Esc", "stop the work; close a screen; back to the input"),
    ("Ctrl+P", "palette of all commands"),
    ("Ctrl+C", "copy the selection; twice: quit"),
)


def help_rows() -> tuple[tuple[str, str], ...]:
    """Return the commands, then the keys: how each is typed and its meaning."""
    commands = tuple((each.usage, each.help) for each in COMMANDS)
    return (*commands, ("anything else", "is a question about the run"), ("", ""), *KEYS)
