"""Prompt texts by name, with their variables filled in strictly."""

from __future__ import annotations

import re
from importlib import resources

from tools.errors import HermesError

_NAME = re.compile(r"[a-z][a-z_]*")
_VARIABLE = re.compile(r"\{\{([a-z][a-z0-9_]*)\}\}")


class PromptError(HermesError):
    """A prompt does not exist or was not given exactly its variables."""


def render(name: str, **variables: str | int) -> str:
    """Return the prompt with every ``{{variable}}`` replaced; raises PromptError for a missing or unknown one."""
    text = source(name)
    wanted = set(_VARIABLE.findall(text))
    if missing := wanted - set(variables):
        raise PromptError(f"The prompt {name} also needs {', '.join(sorted(missing))}.")
    if unknown := set(variables) - wanted:
        raise PromptError(f"The prompt {name} has no variable {', '.join(sorted(unknown))}.")
    return _VARIABLE.sub(lambda found: str(variables[found[1]]), text)


def source(name: str) -> str:
    """The text of a prompt as it is written; raises PromptError naming the prompts there are."""
    if not _NAME.fullmatch(name) or name not in names():
        raise PromptError(f"There is no prompt {name!r}; there are: {', '.join(names())}.")
    return resources.files("prompts").joinpath(f"{name}.md").read_text(encoding="utf-8").strip()


def names() -> list[str]:
    """The prompts there are, in order."""
    files = (entry.name for entry in resources.files("prompts").iterdir())
    return sorted(file.removesuffix(".md") for file in files if file.endswith(".md"))
