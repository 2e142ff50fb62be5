"""The declaration of what ``python -m torch.utils.collect_env`` prints."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tools.errors import InputError
from tools.run.kinds import COLLECT_ENV_FORMAT
from tools.sources.formats import Anchor, Contribution, FolderFiles, RecordFormat


def _recognises(path: Path) -> bool:
    from tools.sources.collect_env.reader import is_collect_env

    return is_collect_env(path)


def _read(found: Sequence[FolderFiles], anchor: Anchor) -> Contribution:
    """The facts of every file; one without any is left out with a note."""
    from tools.run.model import Source
    from tools.run.recorded.environment import HostEnvironment
    from tools.sources.collect_env.reader import read_collect_env

    environments: list[HostEnvironment] = []
    variables: dict[str, str] = {}
    sources: list[Source] = []
    for path in (file for each in found for file in each.files):
        try:
            environment, stated = read_collect_env(path)
        except InputError as error:
            sources.append(Source(path, COLLECT_ENV_FORMAT, (), "excluded", str(error)))
            continue
        environments.append(environment)
        variables |= stated
        size = path.stat().st_size
        sources.append(Source(path, COLLECT_ENV_FORMAT, (), "complete", bytes=size, events=len(environment.facts)))
    notes = tuple(f"{each.note}; it was left out" for each in sources if each.note)
    return Contribution(environments=tuple(environments), variables=variables, sources=tuple(sources), notes=notes)


# The name only where the content is out of reach.
COLLECT_ENV = RecordFormat(
    COLLECT_ENV_FORMAT, re.compile(r"collect_?env.*\.(?:txt|log)\Z"), _read, recognises=_recognises
)
