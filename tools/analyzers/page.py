"""The page of checks, docs/checks.md: ``python -m tools.analyzers.page --write`` in a checkout."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.analyzers.registry import CHECKS, unwatched_causes
from tools.analyzers.support.spec import CheckSpec
from tools.derived_page import keep

PATH = Path("docs/checks.md")
HEAD = """# Checks

Every check answers one question with *found*, *clean* or *cannot answer*, and in the last case says what to record.
Written from the checks' own declarations by `python -m tools.analyzers.page --write`.
"""
FROM_RECORDS = {
    "": "",
    "steps": "; monitor records or a log of steps suffice",
    "host": "; monitor records suffice",
    "output": "; the job's output suffices",
    "tables": "; a profiler's tables suffice",
    "collectives": "; dumps of the flight recorder, NCCL Inspector or NCCL RAS suffice",
    "samples": "; samples of counters suffice",
}


def page() -> str:
    """The text of the page."""
    families = dict.fromkeys(spec.family for spec in CHECKS)
    blocks = [HEAD, *(_family(family) for family in families)]
    unwatched = ", ".join(f"`{cause}`" for cause in unwatched_causes())
    return "\n".join([*blocks, f"No check looks for: {unwatched}.\n" if unwatched else ""])


def _family(family: str) -> str:
    rows = [_row(spec) for spec in CHECKS if spec.family == family]
    head = "| check | question | finds | needs |\n|---|---|---|---|"
    return "\n".join([f"## {family.capitalize()}", head, *rows, ""])


def _row(spec: CheckSpec) -> str:
    finds = ", ".join(f"`{name}`" for name in (*spec.causes, *spec.mechanisms)) or "describes the run"
    needs = ", ".join(spec.every_need) or "a trace or records"
    return f"| {spec.title}<br>`{spec.name}` | {spec.question} | {finds} | {needs}{FROM_RECORDS[spec.from_records]} |"


if __name__ == "__main__":
    sys.exit(keep(PATH, page(), sys.argv[1:]))
