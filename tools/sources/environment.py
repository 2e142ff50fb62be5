"""The environment of a run, where ``hermes-dx env`` wrote it beside the traces."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

FILE = "env.json"
LARGEST_BYTES = 1 << 20  # a real one holds some kilobytes
LONGEST_VALUE = 200


class _Environment(msgspec.Struct):
    variables: dict[str, str] = {}


def environment_files(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The environment files beside the traces: in a folder that was given, or next to a file."""
    folders = dict.fromkeys(path if path.is_dir() else path.parent for path in paths)
    return tuple(folder / FILE for folder in folders if (folder / FILE).is_file())


def read_environment(paths: Iterable[Path]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Variables by name, and a note for each file that could not be used."""
    variables: dict[str, str] = {}
    notes: list[str] = []
    for file in environment_files(paths):
        try:
            with file.open("rb") as opened:
                found = msgspec.json.decode(opened.read(LARGEST_BYTES), type=_Environment)
        except (OSError, msgspec.DecodeError) as error:
            notes.append(f"{file.name} was left out: it is no environment of hermes-dx env ({type(error).__name__})")
            continue
        variables |= {name: value[:LONGEST_VALUE] for name, value in found.variables.items()}
    return variables, tuple(notes)
