"""The page of settings, docs/configuration.md: ``python -m hermes_agent.config.page --write`` in a checkout."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes_agent.config.settings import Settings
from hermes_agent.config.sources import DERIVED, PREFIX, SHORT_NAMES, USER_ONLY
from tools.derived_page import keep

PATH = Path("docs/configuration.md")
HEAD = f"""# Settings

`hermes-dx.toml` in the working directory or the nearest folder above it, then `~/.config/hermes-dx/hermes-dx.toml`
(`XDG_CONFIG_HOME`), the user's own; the first that has a setting gives it, and a variable of the environment goes
before both: `{PREFIX}LLM_MODEL` is `llm.model`. What decides where data or keys go (own file) is taken from the user's
own file or the environment only ([untrusted input](untrusted.md)). `hermes-dx doctor` shows the files in effect, what
of them was not taken, and with `--online` whether the model answers. An unknown setting is an error.

```toml
[llm]
base_url = "http://localhost:8000/v1"
model = "my-model"

[budget]
max_seconds = 60

[thresholds]
change_noise_pct = 2.0
```

Written from the settings' own declarations by `python -m hermes_agent.config.page --write`.
"""
VARIABLES = {
    f"{PREFIX}API_KEY": "the key of the model's endpoint; keys never go into `hermes-dx.toml`",
    f"{PREFIX}EMBEDDING_API_KEY": "the key of the endpoint of embeddings",
    "OPENAI_API_KEY": "the key where the endpoint is OpenAI's own, over https",
    f"{PREFIX}RUN_FOLDER": "where the monitor in a training writes; `hermes-run` unless set",
    f"{PREFIX}ASCII": "1: the chat draws with ASCII alone",
    "NO_COLOR": "no colours on a terminal",
    "GITHUB_STEP_SUMMARY": "the file that `hermes-dx compare --md` or `--fail-on-regression` adds its Markdown to",
}


@dataclass(frozen=True)
class Setting:
    """One setting: its path, what it takes, its default as TOML, and whether the user's own file alone may set it."""

    path: tuple[str, ...]
    takes: str
    default: str
    about: str
    own_file_only: bool
    of: str  # what its section is about

    @property
    def variable(self) -> str:
        """The variable of the environment that overrides it."""
        short = next((name for name, path in SHORT_NAMES.items() if path == self.path), "")
        return short or f"{PREFIX}{'_'.join(self.path).upper()}"


def settings() -> Iterator[Setting]:
    """Every setting, in the order of the declarations."""
    schema = Settings.model_json_schema()
    yield from _of(schema, schema, ())


def page() -> str:
    """The text of the page."""
    sections: dict[str, list[Setting]] = {}
    for each in settings():
        sections.setdefault(".".join(each.path[:-1]), []).append(each)
    blocks = [HEAD, *(_section(name, rows) for name, rows in sections.items())]
    variables = [f"| `{name}` | {about} |" for name, about in VARIABLES.items()]
    return "\n".join(
        [*blocks, "## Variables without a setting\n", "| variable | what it does |\n|---|---|", *variables, ""]
    )


def _of(found: Mapping[str, Any], schema: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[Setting]:
    for name, field in found["properties"].items():
        if not above and name in DERIVED:
            continue
        path = (*above, name)
        if "$ref" in field:
            yield from _of(schema["$defs"][field["$ref"].rpartition("/")[2]], schema, path)
            continue
        own = any(path[: len(each)] == each for each in USER_ONLY)
        default = field.get("default")
        shown = "" if default is None or default == {} else f"`{json.dumps(default)}`"
        yield Setting(path, _takes(field), shown, field["description"], own, found["description"])


def _takes(field: Mapping[str, Any]) -> str:
    """What a value may be, from its JSON schema."""
    kind = next((each for each in field.get("anyOf", [field]) if each.get("type") != "null"), field)
    if "enum" in kind:
        return ", ".join(f"`{value}`" for value in kind["enum"])
    names = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}
    names["object"] = "table of numbers"
    name = "path" if kind.get("format") == "path" else names[kind["type"]]
    limits = {"exclusiveMinimum": "above", "minimum": "from", "maximum": "to"}
    return " ".join([name, *(f"{word} {kind[key]:g}" for key, word in limits.items() if key in kind)])


def _section(name: str, rows: list[Setting]) -> str:
    title = f"`[{name}]`" if name else "Outside of sections"
    about = [rows[0].of.replace("``", "`") + "\n"] if name else []
    head = "| setting | takes | default | what it does | variable |\n|---|---|---|---|---|"
    return "\n".join([f"## {title}\n", *about, head, *map(_row, rows), ""])


def _row(setting: Setting) -> str:
    name = f"`{setting.path[-1]}`{' (own file)' if setting.own_file_only else ''}"
    variable = f"`{setting.variable}{'_NAME' if setting.path == ('thresholds',) else ''}`"
    return f"| {name} | {setting.takes} | {setting.default} | {setting.about} | {variable} |"


if __name__ == "__main__":
    sys.exit(keep(PATH, page(), sys.argv[1:]))
