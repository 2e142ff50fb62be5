"""Files that the chat writes: the report of a diagnosis, the conversation. Never over a file unless asked to."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tools.errors import UsageError

if TYPE_CHECKING:
    from hermes_agent.model.diagnosis import Diagnosis

OVERWRITE = "--overwrite"


def target_of(command: str, argument: str) -> tuple[Path, bool]:
    """The file to write and whether it may be replaced; raises UsageError where it cannot be ``.md`` or ``.json``."""
    name, overwrite = argument.strip(), False
    if name.startswith(f"{OVERWRITE} "):
        name, overwrite = name.removeprefix(OVERWRITE).strip(), True
    elif name.endswith("!"):
        name, overwrite = name.removesuffix("!").strip(), True
    path = Path(name).expanduser()
    if path.suffix.lower() not in (".md", ".json"):
        page = "; a page: `hermes-dx diagnose RUN --html FILE`" if command == "report" else ""
        raise UsageError(f"{path}: the name has to end in .md (Markdown) or .json{page}.")
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file.")
    if path.exists() and not overwrite:
        raise UsageError(f"{path} exists and was not replaced; /{command} {path}! replaces it.")
    return path, overwrite


def write_whole(path: Path, text: str, overwrite: bool, command: str) -> str:
    """Write a file whole or not at all; returns what was done, raises UsageError where it cannot."""
    existed = path.exists()
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:60]}.")
        made = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
                file.write(text)
            _put(made, path, overwrite)
        finally:
            made.unlink(missing_ok=True)
    except FileExistsError:
        raise UsageError(f"{path} exists and was not replaced; /{command} {path}! replaces it.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}; name another file.") from error
    return f"{'Replaced' if existed and overwrite else 'Wrote'} {path}."


def _put(made: Path, path: Path, overwrite: bool) -> None:
    """Rename a finished file; raises FileExistsError where its name is taken. Works without hard links (FAT, NFS)."""
    if overwrite:
        made.replace(path)
        return
    path.touch(exist_ok=False)  # takes the name in one step: O_CREAT | O_EXCL
    try:
        made.replace(path)
    except OSError:
        path.unlink(missing_ok=True)
        raise


def write_report(diagnosis: Diagnosis, argument: str) -> str:
    """Write the diagnosis to ``FILE.md`` or ``FILE.json``."""
    from hermes_agent.report.markdown import render_markdown

    path, overwrite = target_of("report", argument)
    markdown = path.suffix.lower() == ".md"
    text = render_markdown(diagnosis) if markdown else f"{diagnosis.model_dump_json(by_alias=True, indent=2)}\n"
    return write_whole(path, text, overwrite, "report")


def write_conversation(texts: Mapping[str, str], argument: str) -> str:
    """Write the conversation, given by suffix (``.md``, ``.json``), to a file of the argument's suffix."""
    path, overwrite = target_of("export", argument)
    return write_whole(path, texts[path.suffix.lower()], overwrite, "export")
