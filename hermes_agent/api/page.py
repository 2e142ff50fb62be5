"""A diagnosis as a few lines of HTML for a notebook; every text is escaped."""

from __future__ import annotations

from html import escape

from hermes_agent.evidence.printable import printable
from hermes_agent.model.diagnosis import CauseRecord, Diagnosis
from hermes_agent.model.display import cause_heading

SHOWN = 5  # causes and advice
TEXT_CHARS = 600
ROW = '<tr><td style="text-align:left">{}</td>' + "<td>{}</td>" * 3 + "</tr>"
HEAD = "<tr><th>cause</th><th>saves ms per step</th><th>% of the step</th><th>confidence</th></tr>"


def page(diagnosis: Diagnosis) -> str:
    """Verdict and headline, the first causes as a table, the first advice, and what to record next."""
    causes = diagnosis.causes[:SHOWN]
    table = f"<table>{HEAD}{''.join(map(_row, causes))}</table>" if causes else ""
    items = [each.text or each.optimization for each in diagnosis.advice[:SHOWN]]
    items += diagnosis.next_measurements[:SHOWN] if diagnosis.verdict == "inconclusive" else []
    listed = f"<ul>{''.join(f'<li>{_text(item)}</li>' for item in items)}</ul>" if items else ""
    return f"<div><p><b>{_text(diagnosis.verdict.upper())}</b>: {_text(diagnosis.headline)}</p>{table}{listed}</div>"


def _row(cause: CauseRecord) -> str:
    name = cause_heading(cause.cause, cause.mechanism) + (f" ({cause.where})" if cause.where else "")
    saved = f"{'at most ' if cause.at_most else ''}{cause.impact_ms_per_step:.2f}"
    return ROW.format(_text(name), saved, f"{cause.impact_pct:.1f}", f"{cause.confidence:.2f}")


def _text(text: str) -> str:
    return escape(printable(text, TEXT_CHARS))
