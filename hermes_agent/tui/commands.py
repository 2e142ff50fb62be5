"""The commands of the chat: one registry for the input line, its completion, the palette and the help."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.locations.places import Place, name_of, place
from hermes_agent.tui import completion, sections
from hermes_agent.tui.messages import IDENTIFIER
from hermes_agent.tui.pictures.registry import PICTURES, Picture
from hermes_agent.tui.screens import HelpScreen, TableScreen
from hermes_agent.tui.suggestions import Suggestion
from hermes_agent.tui.writing import write_report
from tools.errors import UsageError

if TYPE_CHECKING:
    from hermes_agent.model.diagnosis import Diagnosis
    from hermes_agent.tui.app import HermesChat

NO_BREAKDOWN = (
    "No trace was read, so the parts of a step are unknown; capture one with hermes-dx monitor profile RUN_FOLDER."
)


@dataclass(frozen=True)
class Command:
    """One command; ``argument`` is its name in the help, in brackets when optional, ``words`` completes it.

    One that ``waits`` is about the run under discussion: typed while a run is opened, it is about that one.
    """

    name: str
    argument: str
    help: str
    topic: str
    act: Callable[[HermesChat, str], None]
    words: Callable[[HermesChat, str], list[str]] = lambda chat, argument: []
    waits: bool = True

    @property
    def usage(self) -> str:
        """The command as it is typed."""
        return f"/{self.name} {self.argument}".strip()

    @property
    def needs_argument(self) -> bool:
        """Return whether its argument is required."""
        return bool(self.argument) and not self.argument.startswith("[")

    @property
    def typed(self) -> str:
        """Its beginning as it is typed, with a space where an argument follows."""
        return f"/{self.name}{' ' if self.argument else ''}"


def run_command(chat: HermesChat, line: str) -> None:
    """Run ``/name argument``; raises UsageError when it cannot."""
    name, _, argument = line.removeprefix("/").partition(" ")
    command = next((each for each in COMMANDS if each.name == name.lower()), None)
    if command is None:
        raise UsageError(f"There is no command /{name}; /help lists the commands.")
    if command.needs_argument and not argument.strip():
        raise UsageError(f"/{command.name} needs an argument: {command.usage}.")
    act = partial(command.act, chat, argument.strip())
    if not command.waits or not chat.controller.held(line, act):
        act()


def suggestions(chat: HermesChat, line: str) -> list[Suggestion]:
    """The lines that a typed line may become: a command, a command with its argument, a run that is addressed."""
    if line.startswith("@"):
        return [Suggestion(each) for each in completion.mentions(chat, line)]
    name, space, argument = line.partition(" ")
    if not space:
        found = [each for each in COMMANDS if each.typed.startswith(line.lower())]
        return [Suggestion(each.typed, each.help, certain=True) for each in found]
    command = next((each for each in COMMANDS if f"/{each.name}" == name), None)
    try:
        words = command.words(chat, argument) if command else []
    except UsageError:  # no run is open
        return []
    return [Suggestion(f"{name} {word}") for word in words if word.startswith(argument) and word != argument]


def last_name(line: str) -> str:
    """What differs between suggestions: the last part of a path, else the argument or the command."""
    return line.partition(" ")[2].rstrip("/").rpartition("/")[2].replace("\\", "") or line.strip()


def _ask(form: str) -> Callable[[HermesChat, str], None]:
    return lambda chat, argument: chat.controller.ask(form.format(argument))


def _say(text: str, view: Callable[[Diagnosis], tuple[sections.Section, ...]]) -> Callable[[HermesChat, str], None]:
    """A command that shows parts of the diagnosis, or a text where there are none."""

    def act(chat: HermesChat, _: str) -> None:
        run = chat.controller.runs.current
        found = view(run.diagnosis)
        chat.conversation.show_sections(found, run.name) if found else chat.conversation.say(text)

    return act


def places_of(command: str, argument: str) -> tuple[Place, ...]:
    """The paths and addresses of an argument; raises UsageError where its quotes are open."""
    try:
        places = [place(word) for word in shlex.split(argument)]
    except ValueError as error:
        raise UsageError(f"/{command}: {argument} cannot be read ({error}); close the quotes.") from error
    return tuple(each.expanduser() if isinstance(each, Path) else each for each in places)


def _open(chat: HermesChat, argument: str) -> None:
    paths = places_of("open", argument)
    title = name_of(paths[0]) + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
    chat.controller.open(title, lambda: chat.openings.path(paths))


def _demo(chat: HermesChat, _: str) -> None:
    chat.controller.open("the bundled run", chat.openings.demo)


def _show(chat: HermesChat, argument: str) -> None:
    name = argument.strip("[]")
    chat.controller.show(name.upper() if IDENTIFIER.fullmatch(name.upper()) else name)


def _table(view: Callable[[Diagnosis], sections.TableView]) -> Callable[[HermesChat, str], None]:
    def act(chat: HermesChat, _: str) -> None:
        run = chat.controller.runs.current
        made = view(run.diagnosis)
        if not made.rows:
            raise UsageError(NO_BREAKDOWN)
        chat.controller.open_screen(TableScreen(made, run.name))

    return act


def _cases(chat: HermesChat, argument: str) -> None:
    of_run = _say("No cause, so no similar cases.", sections.cases)
    chat.controller.ask(f"similar cases: {argument}") if argument else of_run(chat, "")


def _compare(chat: HermesChat, argument: str) -> None:
    names = argument.split()
    if len(names) != 2:
        raise UsageError("/compare takes two open runs: /compare @before @after; /runs lists them.")
    chat.controller.comparisons.compare(*names)


def _attach(chat: HermesChat, argument: str) -> None:
    given = places_of("attach", argument)
    if any(not isinstance(each, Path) for each in given):
        raise UsageError("/attach takes files or folders of this machine; /open takes addresses.")
    chat.controller.attach(tuple(each for each in given if isinstance(each, Path)))


def _sessions(chat: HermesChat, argument: str) -> None:
    chat.controller.kept.resume(argument) if argument else chat.controller.kept.choose_session()


def _confirm(chat: HermesChat, argument: str) -> None:
    advice, _, after = argument.partition(" ")
    if not after.strip():
        raise UsageError("/confirm takes the advice and the run after the change: /confirm A1 PATH, or /confirm A1 @B.")
    opener = None
    if not after.strip().startswith("@"):
        paths = places_of("confirm", after)
        opener = partial(chat.openings.path, paths)
    chat.controller.comparisons.confirm(advice.upper(), after.strip(), opener)


def _report(chat: HermesChat, argument: str) -> None:
    chat.conversation.say(write_report(chat.controller.diagnosis, argument))


def _help(chat: HermesChat, _: str) -> None:
    chat.controller.open_screen(HelpScreen(topics(), KEYS, help_rows()))


def _picture(picture: Picture) -> Command:
    def act(chat: HermesChat, argument: str) -> None:
        chat.controller.draw(picture, argument)

    return Command(picture.name, picture.argument, picture.help, "Pictures", act, lambda *_: list(picture.words))


COMMANDS: tuple[Command, ...] = (
    Command(
        "open",
        "PATH...",
        "diagnose a trace, a folder with traces, or a URL",
        "Runs",
        _open,
        completion.paths,
        waits=False,
    ),
    Command("demo", "", "diagnose the bundled recorded run", "Runs", _demo, waits=False),
    Command("runs", "", "list the open runs", "Runs", lambda chat, _: chat.controller.list_runs(), waits=False),
    Command("compare", "@A @B", "what changed from one open run to another", "Runs", _compare, completion.runs),
    Command("attach", "PATH...", "diagnose the run again with more of its files", "Runs", _attach, completion.paths),
    Command(
        "skip", "", "go on without the file that was asked for", "Runs", lambda chat, _: chat.controller.attach(())
    ),
    Command("sessions", "[ID]", "list the kept sessions, or open one again", "Runs", _sessions, waits=False),
    Command("causes", "", "show the ranked causes", "Findings", _say("No cause was found.", sections.causes)),
    Command(
        "hypotheses",
        "",
        "show what was considered and how it was judged",
        "Findings",
        _say("No hypothesis was considered.", sections.hypotheses),
    ),
    Command("checks", "", "list the result of every check", "Findings", _table(sections.check_table)),
    Command("evidence", "", "list every figure cited", "Findings", _table(sections.evidence_table)),
    Command(
        "show", "ID", "open E7, C2, A1, H1, a check, or the tool result R3", "Findings", _show, completion.identifiers
    ),
    Command("cases", "[TEXT]", "similar cases, to the run or to a text", "Findings", _cases),
    Command("why-not", "CAUSE", "why a cause was not found", "Questions", _ask("why not {}?"), completion.all_causes),
    Command(
        "whatif", "CAUSE", "the gain of fixing a cause", "Questions", _ask("what if I fix {}?"), completion.causes_found
    ),
    Command(
        "confirm",
        "A1 AFTER_RUN",
        "compare the gain of a change with the predicted one",
        "Questions",
        _confirm,
        completion.advice_then_paths,
    ),
    *map(_picture, PICTURES),
    Command("steps", "", "time breakdown of each step", "Tables", _table(sections.step_table)),
    Command("ranks", "", "time breakdown of each rank", "Tables", _table(sections.rank_table)),
    Command("report", "FILE", "write the diagnosis to FILE.md or FILE.json", "Files", _report, completion.paths),
    Command(
        "export",
        "FILE",
        "write the conversation to FILE.md or FILE.json",
        "Files",
        lambda chat, argument: chat.controller.kept.export(argument),
        completion.paths,
        waits=False,
    ),
    Command("copy", "", "copy the last answer, or the diagnosis", "Files", lambda chat, _: chat.controller.copy_last()),
    Command(
        "theme",
        "[NAME]",
        "change the colours",
        "Chat",
        lambda chat, name: chat.controller.choose_theme(name),
        completion.themes,
        waits=False,
    ),
    Command("help", "", "commands and keys", "Chat", _help, waits=False),
    Command("quit", "", "leave the chat", "Chat", lambda chat, _: chat.controller.leave(), waits=False),
)

KEYS = (
    ("Enter", "send; on a message: open the chosen citation"),
    ("Tab", "complete a command or path; else the next message"),
    ("Left, Right", "on a message: choose a citation"),
    ("Up, Down", "in the list: choose; else lines typed before"),
    ("PgUp, PgDn", "scroll the conversation; with Shift the panel"),
    ("Esc", "stop the work; close a list or screen; back to the input"),
    ("Ctrl+P", "palette of all commands"),
    ("Ctrl+C", "copy the selection; twice: quit"),
)


def topics() -> tuple[tuple[str, str], ...]:
    """The names of the commands by topic."""
    found: dict[str, list[str]] = {}
    for each in COMMANDS:
        found.setdefault(each.topic, []).append(f"/{each.name}")
    named = tuple((topic, " ".join(names)) for topic, names in found.items())
    return (*named, ("@name", "in front of a question: about that run"), ("other text", "a question"))


def help_rows() -> tuple[tuple[str, str], ...]:
    """Every command: how it is typed and its meaning."""
    return tuple((each.usage, each.help) for each in COMMANDS)
