"""Whole tables of a run: for a terminal of 80 columns, as CSV, JSON or Parquet."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import add_run_arguments, number_between, writable
from hermes_agent.cli.terminal import aligned, note, print_json
from tools.errors import ExitCode

if TYPE_CHECKING:
    import pandas as pd

    from hermes_agent.model.request import Request

WIDTH = 80
LEAST_NAME = 12
SHOWN = 40
MOST_SHOWN = 1_000_000


def add_table_arguments(parser: argparse.ArgumentParser, columns: str) -> None:
    """Declare the run, the form and the number of lines; ``columns`` describes the table."""
    add_run_arguments(parser, baseline=False)
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--csv", action="store_true", help="print the whole table as CSV")
    forms.add_argument("--parquet", metavar="FILE", type=Path, help="write the whole table to a Parquet file")
    forms.add_argument("--json", action="store_true", help="print the whole table as JSON")
    parser.add_argument(
        "--limit",
        type=number_between(1, MOST_SHOWN),
        default=SHOWN,
        metavar="N",
        help=f"most lines shown; default {SHOWN}",
    )
    parser.epilog = f"Columns: {columns} Only events that start inside the steps count."


def print_table(
    args: argparse.Namespace, request: Request, schema: str, table: pd.DataFrame, shown: Mapping[str, str]
) -> int:
    """Write the table in the form asked for; ``shown`` are the columns of the terminal with their headings."""
    if args.json:
        records = table.astype(object).where(table.notna(), None).to_dict("records")
        print_json({"schema": schema, "rows": records})
    elif args.csv:
        _cleaned(table).to_csv(sys.stdout, index=False, lineterminator="\n")
    elif args.parquet is not None:
        from hermes_agent.report.files import write_report

        write_report(writable(args.parquet), table.to_parquet(index=False), request)
        note(f"{len(table)} rows written to {args.parquet}")
    else:
        print(_text(table, shown, args.limit))
    return ExitCode.OK


def _cleaned(table: pd.DataFrame) -> pd.DataFrame:
    """Recorded names without control characters, which a terminal would act on."""
    from hermes_agent.evidence.printable import printable

    texts = [
        name for name in table.columns if table[name].dtype == object or str(table[name].dtype) in ("str", "string")
    ]
    return table.assign(**{name: [printable(str(value)) for value in table[name]] for name in texts})


def _text(table: pd.DataFrame, shown: Mapping[str, str], limit: int) -> str:
    from hermes_agent.evidence.printable import printable

    if table.empty:
        return "There are none in the recorded steps."
    first, several = table.head(limit), table["rank"].nunique() > 1
    chosen = {column: heading for column, heading in shown.items() if column != "rank" or several}
    figures = {heading: [_figure(value) for value in first[column]] for column, heading in chosen.items()}
    widths = [max(map(len, (heading, *cells))) for heading, cells in figures.items()]
    room = max(WIDTH - sum(widths) - 2 * len(widths), LEAST_NAME)
    names = [_cut(" ".join(printable(str(text)).split()), room) for text in first["name"]]
    lines = aligned(["name", *figures], list(zip(names, *figures.values(), strict=True)))
    if len(table) <= limit:
        return lines
    return f"{lines}\n\n{limit} of {len(table)} rows; --limit N shows more, --csv, --json and --parquet give all."


def _figure(value: object) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.2f}"
    return str(value).replace("<NA>", "")


def _cut(text: str, room: int) -> str:
    """A name in that many columns; of a longer one the beginning and the end, where kernels differ."""
    if len(text) <= room:
        return text
    tail = (room - 1) // 3
    return f"{text[: room - 1 - tail]}…{text[len(text) - tail :]}"
