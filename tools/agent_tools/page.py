"""The page of tools, docs/tools.md: ``python -m tools.agent_tools.page --write`` in a checkout."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.agent_tools.columns import unit_of
from tools.agent_tools.registry import TOOLS
from tools.agent_tools.result import Row
from tools.agent_tools.tool import ReadTool, ToolContext
from tools.derived_page import keep

PATH = Path("docs/tools.md")
HEAD = """# Tools

What an agent, or a person with `hermes-dx tool NAME RUN --args '{"rank": 0}'`, can ask a run. Every tool only reads.
Written from the tools' own declarations by `python -m tools.agent_tools.page --write`; `hermes-dx tool --list` prints
the JSON Schemas.

A result has `rows`, `cursor`, `total`, `facts`, `notes` and `text`:

- Every row has an `id` that says what it is and stays the same in every reading of the run: `e0.1520` is event row
  1520 of rank 0, `c0.1520` the collective that is this row, `g0.3.2` the third gap of step 3, `s0.12` step 12 (`w0.12`
  of the unprofiled ones), `r0` rank 0, `n0.1f0c9a2e` the events of one name (`m` module, `p` phase, `h` shape,
  `t` Python line, `q` stream, `u` process group). The tool `event` opens them, `evidence` those of a diagnosis (E7,
  A1, C2, checks).
- `cursor` gives the next page with the same arguments; it is null on the last page. `total` counts the rows of all
  pages.
- `facts` are figures with metric, arguments, value and unit, and with an id (E7) where the run was diagnosed.
- `notes` say what could not be measured and what is needed. An unknown name, id, rank or step is an error that names
  the nearest ones, never 0; a name has to be whole, `contains` finds a part.

Times named `start_ms` are on the run's own time axis, the same for all ranks. Exit codes: 2 for wrong arguments, 3 for
a run that cannot be read.
"""

ROWS = """## Rows

Each row has all columns of its kind. What is null was not recorded or does not apply; of an object with a unit each
value has this unit.
"""


def page() -> str:
    """The text of the page."""
    kinds = dict.fromkeys(kind for tool in TOOLS for kind in tool.rows)
    return "\n".join([HEAD, *(_section(tool) for tool in TOOLS), ROWS, *map(_columns, kinds)])


def _section(tool: ReadTool[ToolContext]) -> str:
    schema = tool.schema
    needs = "\n\nMakes the diagnosis, or takes the stored one." if tool.diagnosed else ""
    lines = [f"## {tool.name}\n\n{tool.description}{needs}\n", *_arguments(schema, schema)]
    rows = " or ".join(f"[{_kind(kind)}](#{_kind(kind)}-row)" for kind in tool.rows) or "none; its answer is `facts`"
    return "\n".join([*(lines if len(lines) > 1 else [*lines, "No arguments."]), "", f"Rows: {rows}.", ""])


def _kind(row: type[Row]) -> str:
    return row.__name__.removesuffix("Row").lower()


def _columns(row: type[Row]) -> str:
    """One kind of row: its columns with type, unit and meaning."""
    schema = row.model_json_schema(mode="serialization")
    lines = [f"### {_kind(row)} row\n\n{(inspect.getdoc(row) or '').replace('``', '`')}\n"]
    for name, each in schema["properties"].items():
        null = " or null" if {"type": "null"} in each.get("anyOf", ()) else ""
        unit = f", {unit_of(name)}" if unit_of(name) else ""
        about = f": {each['description']}" if each.get("description") else ""
        lines.append(f"- `{name}` ({_type(each, schema)}{null}{unit}){about}")
    return "\n".join([*lines, ""])


def _arguments(schema: Mapping[str, Any], whole: Mapping[str, Any], indent: str = "") -> list[str]:
    lines = []
    for name, each in schema.get("properties", {}).items():
        required = ", required" if name in schema.get("required", ()) else ""
        about = f": {each['description']}" if each.get("description") else ""
        lines.append(f"{indent}- `{name}` ({_type(each, whole)}{required}){about}")
        items = _referred(each.get("items", {}), whole)
        lines += _arguments(items, whole, f"{indent}  ")
    return lines


def _type(each: Mapping[str, Any], whole: Mapping[str, Any]) -> str:
    """``integer``, ``kernel | memcpy``, ``list``; what may be left out is said by the description."""
    each = _referred(each, whole)
    if "anyOf" in each:
        return " | ".join(_type(part, whole) for part in each["anyOf"] if part.get("type") != "null")
    return " | ".join(map(str, each["enum"])) if "enum" in each else str(each.get("type", "anything"))


def _referred(each: Mapping[str, Any], whole: Mapping[str, Any]) -> Mapping[str, Any]:
    target: Mapping[str, Any] = whole["$defs"][each["$ref"].rpartition("/")[2]] if "$ref" in each else each
    return target


if __name__ == "__main__":
    sys.exit(keep(PATH, page(), sys.argv[1:]))
