"""The page of causes, docs/causes.md: ``python -m case_library.causes_page --write`` in a checkout."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from case_library.playbook import read_playbook
from tools.analyzers.registry import CHECKS
from tools.analyzers.support.spec import CheckSpec, Need
from tools.derived_page import keep
from tools.knowledge.taxonomy import Cause, causes

PATH = Path("docs/causes.md")
Kind = Literal[
    "traces",
    "traces with monitor",
    "monitor",
    "step times",
    "output",
    "NPU tables",
    "collectives",
    "samples",
    "stacks",
    "snapshot",
    "environment",
    "operations",
]
KINDS: Mapping[Kind, str] = MappingProxyType(
    {
        "traces": "a profiler's timeline: Kineto, Nsight Systems, Ascend, JAX",
        "traces with monitor": "both together, where neither alone shows it",
        "monitor": "records of `hermes_agent.monitor`",
        "step times": "a step log, or step lines of the job's output",
        "output": "other lines of the job's output: settings, NCCL, timers, warnings, tables",
        "NPU tables": "tables of an Ascend profiler",
        "collectives": "flight recorder, NCCL Inspector, NCCL RAS",
        "samples": "nvidia-smi, rocm-smi, npu-smi, sar and their like",
        "stacks": "py-spy",
        "snapshot": "snapshots of PyTorch's allocator",
        "environment": "`hermes-dx env`, collect_env",
        "operations": "tables of StragglerAnalysis",
    }
)
OF_RECORDS: Mapping[str, tuple[Kind, ...]] = MappingProxyType(
    {
        "": (),
        "steps": ("monitor", "step times"),
        "host": ("monitor",),
        "output": ("output",),
        "collectives": ("collectives",),
        "samples": ("samples",),
        "tables": ("NPU tables",),
    }
)
# Checks of tables that are not those of an Ascend profiler.
OTHER_TABLES: Mapping[str, Kind] = MappingProxyType(
    {
        "pipeline.operations": "operations",
        "cpu.sampled_activity": "stacks",
        "cpu.host_environment": "environment",
        "memory.snapshot": "snapshot",
    }
)
HEAD = """# Causes

Every cause that Hermes names, how it is defined, by which sources it can be found or ruled out, and what it is mistaken
for. Written from the checks' declarations, the taxonomy and the playbooks by
`python -m case_library.causes_page --write`.

In the table **yes** is a check of the whole cause: what it finds is the cause, and where it looked and found nothing
the cause is ruled out as far as that source shows. **in part** are checks of some mechanisms or of some cases alone
(such as collectives that do not end): they find these, and do not rule out the cause. An empty cell: from this source
alone the cause is not judged, whatever it shows.
"""
DEFINITION = re.compile(r"\A# [^\n]+\n\n(?P<text>.+?)\n\n", re.DOTALL)
LOOK_ALIKES = re.compile(r"^## Look-alikes\n\n(?P<text>.+?)\n\n## ", re.DOTALL | re.MULTILINE)
ITEM = re.compile(r"^- (?P<text>.+?)(?=\n- |\Z)", re.DOTALL | re.MULTILINE)


def kinds_of(spec: CheckSpec, cause: str) -> tuple[Kind, ...]:
    """The kinds of sources each of which alone lets the check find the cause."""
    if spec.name in OTHER_TABLES:
        return (OTHER_TABLES[spec.name],)
    records = OF_RECORDS[spec.from_records]
    if spec.of_step_lines is not None and cause not in spec.of_step_lines:
        records = tuple(kind for kind in records if kind != "step times")
    if Need.RECORDS in spec.needs:
        return records or ("traces with monitor",)
    return ("traces", *records) if spec.from_records in ("", "steps", "host") else records


def looking(cause: str) -> dict[Kind, list[CheckSpec]]:
    """The checks that look for a cause, by kind of source."""
    found: dict[Kind, list[CheckSpec]] = {}
    for spec in CHECKS:
        for kind in kinds_of(spec, cause) if cause in (*spec.causes, *spec.may_find) else ():
            found.setdefault(kind, []).append(spec)
    return found


def of_whole(specs: list[CheckSpec], cause: Cause) -> bool:
    """Return whether the checks look for the cause as a whole, or between them for each of its mechanisms; one that
    may find it and never rules it out does not."""
    own = [set(spec.mechanisms) & set(cause.mechanisms) for spec in specs if cause.id in spec.causes]
    if not own:
        return False
    return not all(own) or set().union(*own) == set(cause.mechanisms)


def definition(cause: str) -> str:
    """The first paragraph of the cause's playbook."""
    match = DEFINITION.match(read_playbook(cause))
    return " ".join(match["text"].split()) if match else ""


def look_alikes(cause: str) -> tuple[str, ...]:
    """What the playbook says of causes that look like this one, one text for each."""
    match = LOOK_ALIKES.search(read_playbook(cause))
    return tuple(" ".join(item["text"].split()) for item in ITEM.finditer(match["text"])) if match else ()


def page() -> str:
    """The text of the page."""
    head = "| cause | " + " | ".join(KINDS) + " |\n" + "|---" * (len(KINDS) + 1) + "|"
    rows = [_row(cause) for cause in causes().values()]
    legend = [f"- **{kind}**: {what}" for kind, what in KINDS.items()]
    sections = [block for cause in causes().values() for block in (*_section(cause), "")]
    return "\n".join([HEAD, *legend, "", head, *rows, "", *sections])


def _row(cause: Cause) -> str:
    found = looking(cause.id)
    cells = ["" if kind not in found else "yes" if of_whole(found[kind], cause) else "in part" for kind in KINDS]
    return f"| `{cause.id}` | " + " | ".join(cells) + " |"


def _section(cause: Cause) -> Iterator[str]:
    found = looking(cause.id)
    yield f"## {cause.name.title}"
    yield f"`{cause.id}`, family {cause.family}. {definition(cause.id)}\n"
    yield f"- Signs: {'; '.join(cause.signals)}."
    if cause.mechanisms:
        yield f"- Mechanisms: {', '.join(f'`{each}`' for each in cause.mechanisms)}."
    for kind, specs in found.items():
        names = ", ".join(f"`{spec.name}`" for spec in specs)
        yield f"- From {kind}: {names}{'' if of_whole(specs, cause) else ' (in part)'}."
    yield f"- Not judged from: {', '.join(kind for kind in KINDS if kind not in found)}."
    yield "- Mistaken for:"
    for text in look_alikes(cause.id):
        yield f"  - {text}"


if __name__ == "__main__":
    sys.exit(keep(PATH, page(), sys.argv[1:]))
