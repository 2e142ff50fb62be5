"""Writes the diagnosis to a file, in the form its name asks for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tools.errors import UsageError

if TYPE_CHECKING:
    from hermes_agent.report.diagnosis import Diagnosis

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
