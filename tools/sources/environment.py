"""The environment of a run, where ``hermes-dx env`` wrote it next to the traces."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from tools.run.recorded.environment import HostEnvironment
from tools.run.secrets import without_secrets
from tools.sources.decompress import beginning
from tools.sources.formats import Anchor, Contribution, FolderFiles, RecordFormat

FILE = "env.json"
LARGEST_BYTES = 1 << 20  # a real one holds some kilobytes
LONGEST_VALUE = 200


MOST_FACTS = 64


class _Environment(msgspec.Struct):
    """Sections besides the variables are of some versions only; what is no plain value in them is passed over."""

    variables: dict[str, str] = {}
    versions: object = None
    cpu: object = None
    memory: object = None
    filesystems: object = None
    devices: object = None


def _read(found: Sequence[FolderFiles], anchor: Anchor) -> Contribution:
    """Variables by name, and a note for each file that could not be used."""
    variables: dict[str, str] = {}
    notes: list[str] = []
    environments: list[HostEnvironment] = []
    for file in (file for each in found for file in each.files):
        try:
            read = msgspec.json.decode(beginning(file, LARGEST_BYTES).data, type=_Environment)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            notes.append(f"{file.name} was left out: it is no environment of hermes-dx env ({type(error).__name__})")
            continue
        variables |= {name: value[:LONGEST_VALUE] for name, value in without_secrets(read.variables).items()}
        if facts := _facts(read):
            environments.append(HostEnvironment(file.name, facts))
    return Contribution(variables=variables, environments=tuple(environments), notes=tuple(notes))


def _facts(read: _Environment) -> dict[str, str]:
    """Versions, cores, limits and devices by name, as texts."""
    sections = (read.versions, read.cpu, read.memory, read.filesystems, read.devices)
    found = [pair for each in sections if isinstance(each, dict) for pair in each.items()]
    plain = [(name, value) for name, value in found if isinstance(value, str | int | float) and value != ""]
    facts = {str(name)[:LONGEST_VALUE]: str(value)[:LONGEST_VALUE] for name, value in plain}
    renamed = {"allowed": "allowed_cores"}
    facts = {renamed.get(name, name): value for name, value in facts.items()}
    quota = re.fullmatch(r"(\d{1,12}) (\d{1,12})", facts.pop("cgroup_quota", ""))  # of a period, both in us
    if quota and int(quota[2]):
        facts["quota_cores"] = f"{int(quota[1]) / int(quota[2]):g}"
    return dict(list(facts.items())[:MOST_FACTS])


ENVIRONMENT = RecordFormat("environment", re.compile(r"env\.json\Z"), _read, with_capture=True)
