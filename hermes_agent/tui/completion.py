"""What may follow a typed line: paths, ids of the diagnosis, names of open runs."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tools.knowledge.taxonomy import causes

if TYPE_CHECKING:
    from hermes_agent.tui.app import HermesChat

LAST_WORD = re.compile(r"(?:\\.|[^\s\\])*\Z")
MOST_ENTRIES = 5000  # of a folder that are looked at


def paths(chat: HermesChat, argument: str) -> list[str]:
    """The argument with its last path completed; folders end with a slash."""
    found = LAST_WORD.search(argument)
    typed = found.group() if found else ""
    head, slash, name = typed.rpartition("/")
    unescaped = re.sub(r"\\(.)", r"\1", name)
    folder = Path(re.sub(r"\\(.)", r"\1", head + slash) or ".").expanduser()
    try:
        listed = islice(folder.iterdir(), MOST_ENTRIES)
        entries = sorted((each.name, each.is_dir()) for each in listed if each.name.startswith(unescaped))
    except (OSError, RuntimeError, ValueError):  # unreadable, an unknown user, a character that no path can have
        return []
    before = argument[: len(argument) - len(name)]
    visible = [each for each in entries if unescaped.startswith(".") or not each[0].startswith(".")]
    shown = [each for each in visible if each[0].isprintable()]
    return [before + re.sub(r"([\s\\'\"])", r"\\\1", name) + ("/" if is_dir else "") for name, is_dir in shown]


def identifiers(chat: HermesChat, argument: str) -> list[str]:
    """The ids of the diagnosis: figures, advice, cases, hypotheses."""
    diagnosis = chat.controller.diagnosis
    listed = (diagnosis.evidence, diagnosis.advice, diagnosis.cases, diagnosis.hypotheses)
    return [each.id for records in listed for each in records]


def advice_then_paths(chat: HermesChat, argument: str) -> list[str]:
    """The ids of the advice; after one, open runs and files."""
    if " " not in argument:
        return [f"{each.id} " for each in chat.controller.diagnosis.advice]
    return runs(chat, argument) if argument.rpartition(" ")[2].startswith("@") else paths(chat, argument)


def causes_found(chat: HermesChat, argument: str) -> list[str]:
    """The causes of the diagnosis."""
    return list(dict.fromkeys(each.cause for each in chat.controller.diagnosis.causes))


def all_causes(chat: HermesChat, argument: str) -> list[str]:
    """The causes of the taxonomy."""
    return list(causes())


def themes(chat: HermesChat, argument: str) -> list[str]:
    """The names of the colour themes."""
    return sorted(chat.available_themes)


def runs(chat: HermesChat, argument: str) -> list[str]:
    """The argument with the name of an open run as its last word."""
    before = argument[: argument.rfind(" ") + 1]
    return [f"{before}@{name}" for name in chat.controller.runs.open]


def mentions(chat: HermesChat, line: str) -> list[str]:
    """A line that begins with ``@``: the open runs, then files and folders."""
    typed = line.removeprefix("@")
    if " " in typed.replace("\\ ", ""):
        return []
    named = [f"@{name} " for name in chat.controller.runs.open if name.startswith(typed.lower())]
    return [*named, *(f"@{path}" for path in paths(chat, typed))]
