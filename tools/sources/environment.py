"""The environment of a run, where ``hermes-dx env`` wrote it next to the traces."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from tools.run.secrets import without_secrets
from tools.sources.decompress import beginning
from tools.sources.formats import Anchor, Contribution, FolderFiles, RecordFormat

FILE = "env.json"
LARGEST_BYTES = 1 << 20  # a real one holds some kilobytes
LONGEST_VALUE = 200


class _Environment(msgspec.Struct):
    variables: dict[str, str] = {}


def _read(found: Sequence[FolderFiles], anchor: Anchor) -> Contribution:
    """Variables by name, and a note for each file that could not be used."""
    variables: dict[str, str] = {}
    notes: list[str] = []
    for file in (file for each in found for file in each.files):
        try:
            read = msgspec.json.decode(beginning(file, LARGEST_BYTES).data, type=_Environment)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            notes.append(f"{file.name} was left out: it is no environment of hermes-dx env ({type(error).__name__})")
            continue
        variables |= {name: value[:LONGEST_VALUE] for name, value in without_secrets(read.variables).items()}
    return Contribution(variables=variables, notes=tuple(notes))


ENVIRONMENT = RecordFormat("environment", re.compile(r"env\.json\Z"), _read, makes_run=False, with_capture=True)
