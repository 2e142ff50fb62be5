"""Rows of step figures below a head that names their columns, as JDE and the YOLOv3 that it is made from print them."""

from __future__ import annotations

import re

from tools.sources.job_log.grammars.step_figures import StepLine
from tools.sources.job_log.numbers import number

COLUMN_ROWS = "columns"
HEAD = re.compile(r"(?:\A|[:\]])\s{0,20}Epoch\s{1,20}(?:Batch|Iter|Step)((?:\s{1,20}[A-Za-z]\w{0,15}){2,12})\s{0,9}\Z")
ROW = re.compile(
    r"(?:\A|[:\]])\s{0,20}(\d{1,9})/\d{1,9}\s{1,20}(\d{1,12})/\d{1,12}"
    r"((?:\s{1,20}-?[\d.]{1,12}(?:e[+-]?\d{1,3})?){2,12})\s{0,9}\Z"
)


class ColumnRows:
    """The columns of the head, once it is there."""

    columns: tuple[str, ...] = ()

    def head(self, text: str) -> bool:
        """Whether the line is a head with a time among its columns."""
        found = HEAD.search(text) if "Epoch" in text and "time" in text else None
        if found is not None and "time" in (names := found[1].split()):
            self.columns = tuple(names)
            return True
        return False

    def row(self, text: str) -> StepLine | None:
        """The step of a row: the time has no unit."""
        found = ROW.search(text) if self.columns and "/" in text else None
        values = found[3].split() if found else []
        if found is None or len(values) != len(self.columns):
            return None
        at = number(values[self.columns.index("time")])
        # Of the steps of an epoch none are given: what lies across its end, as an evaluation, is not of them.
        return StepLine(COLUMN_ROWS, int(found[2]), bare_time=at, of="unstated", epoch=int(found[1]))
