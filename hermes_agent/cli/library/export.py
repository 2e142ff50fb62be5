"""Print the cases as JSON, Markdown or CSV."""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from case_library.library import CaseError
from hermes_agent.cli.arguments import settings
from hermes_agent.cli.library.filters import add_filters, chosen_cases, library
from hermes_agent.cli.terminal import note
from tools.errors import ExitCode

if TYPE_CHECKING:
    from case_library.schema import Case

FORMS = ("json", "md", "csv")
SCHEMA = "hermes-dx/cases/1"
COLUMNS = (
    *("id", "title", "family", "cause", "mechanism", "confidence", "framework", "hardware", "scale", "model"),
    *("symptom", "signals", "signals_origin", "diagnosis", "optimization", "effect", "url", "year", "private"),
)
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would take for a formula


def export(cases: Sequence[Case], form: str) -> str:
    """Return the cases in one text, ``form`` one of ``FORMS``; raises ``CaseError`` when there is none to export."""
    if not cases:
        raise CaseError("No case is left to export; widen the filters.")
    if form == "json":
        records = [case.model_dump(mode="json") for case in cases]
        return json.dumps({"schema": SCHEMA, "cases": records}, indent=2, ensure_ascii=False) + "\n"
    return _csv(cases) if form == "csv" else "\n\n".join(["# Cases", *map(_markdown, cases)]) + "\n"


def _markdown(case: Case) -> str:
    mark = " (private)" if case.private else ""
    setting = case.setting
    cause = f"{case.cause}, {case.mechanism}" if case.mechanism else case.cause
    lines = [
        f"## {case.title}{mark}\n",
        f"`{case.id}`: {cause}; confidence {case.confidence}.\n",
        f"- Setting: {setting.framework}; {setting.hardware}; {setting.scale}; {setting.model}",
        f"- Symptom: {case.symptom}",
        f"- Signals ({case.signals_origin}): {'; '.join(case.signals)}",
        f"- Diagnosis: {case.diagnosis}",
        f"- Optimization: {case.optimization}",
        f"- Effect: {case.effect}",
        f"- Source: {case.source.url or 'internal'}{f', {case.source.year}' if case.source.year else ''}",
    ]
    return "\n".join(lines)


def _csv(cases: Sequence[Case]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for case in cases:
        fields = case.model_dump() | case.setting.model_dump() | case.source.model_dump()
        fields["signals"] = "; ".join(case.signals)
        writer.writerow([_cell(fields[name]) for name in COLUMNS])
    return text.getvalue()


def _cell(value: object) -> str:
    """Text for a cell; one that a spreadsheet would calculate gets an apostrophe, which spreadsheets hide."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(FORMULA) else text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``cases export``."""
    parser.add_argument("--format", choices=FORMS, default="json", help="form of the output (json)")
    parser.add_argument("--private", action="store_true", help="your private cases as well; they leave your folder")
    add_filters(parser)


def run(args: argparse.Namespace) -> int:
    """Write the cases that pass the filters to standard output."""
    from hermes_agent.model.display import counted

    cases = chosen_cases(args, library(settings()))
    wanted = [case for case in cases if args.private or not case.private]
    if len(wanted) < len(cases):
        note(f"{counted(len(cases) - len(wanted), 'private case')} left out; --private exports them too")
    print(export(wanted, args.format), end="")
    return ExitCode.OK
