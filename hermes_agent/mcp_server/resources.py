"""Resources: the diagnosis of a run, the records behind its ids, public cases and the pages on causes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import unquote

from hermes_agent.evidence.cases import case_fields
from hermes_agent.llm.redact import Redactor
from hermes_agent.llm.sanitize import fence
from hermes_agent.mcp_server.payload import cleaned
from hermes_agent.mcp_server.tool import Call
from tools.errors import UsageError
from tools.knowledge.taxonomy import causes
from tools.metrics.measurement import choice

JSON, MARKDOWN, PLAIN = "application/json", "text/markdown", "text/plain"
RUN = r"hermes://runs/(?P<run>[A-Za-z0-9][A-Za-z0-9._-]{0,99})"
ADDRESS = re.compile(
    rf"{RUN}/diagnosis(?P<markdown>\.md)?|{RUN.replace('run>', 'of>')}/evidence/(?P<id>[^/]{{1,100}})"
    r"|hermes://cases/(?P<case>[^/]{1,200})|hermes://causes(/(?P<cause>[a-z0-9_]{1,100}))?"
)


class Template(NamedTuple):
    """A kind of resource with the variables of its URI."""

    uri: str
    name: str
    description: str
    mime_type: str


TEMPLATES = (
    Template("hermes://runs/{run}/diagnosis", "diagnosis", "The whole diagnosis of a run as JSON.", JSON),
    Template("hermes://runs/{run}/diagnosis.md", "diagnosis page", "The diagnosis as Markdown.", MARKDOWN),
    Template(
        "hermes://runs/{run}/evidence/{id}",
        "evidence",
        "The record of E7 (a figure, measured again, with its rows), A1, C2, a check or a row id such as e0.1520.",
        PLAIN,
    ),
    Template("hermes://cases/{id}", "case", "A case of the library.", PLAIN),
    Template(
        "hermes://causes/{cause}", "cause", "How a cause looks, its look-alikes, how to fix and verify it.", MARKDOWN
    ),
)
CAUSES = Template("hermes://causes", "causes", "The causes that Hermes knows, with their families.", MARKDOWN)


@dataclass(frozen=True)
class Content:
    """The text of a resource."""

    text: str
    mime_type: str


def listed(runs: Iterable[str]) -> list[Template]:
    """The resources without variables: the causes, and both forms of the diagnosis of each run."""
    found = [CAUSES]
    for run in runs:
        for template in TEMPLATES[:2]:
            found.append(template._replace(uri=template.uri.replace("{run}", run), name=f"{template.name} of {run}"))
    return found


def read(call: Call, uri: str) -> Content:
    """The text behind a URI; raises UsageError with the kinds of URI where it is none, and what a run raises."""
    found = ADDRESS.fullmatch(uri)
    if found is None:
        kinds = ", ".join(each.uri for each in (*TEMPLATES, CAUSES))
        raise UsageError(f"there is no such resource; the kinds are {kinds}")
    if found["run"]:
        return _diagnosis(call, found["run"], markdown=bool(found["markdown"]))
    if found["of"]:
        return _evidence(call, found["of"], unquote(found["id"]))
    if found["case"]:
        return _case(call, unquote(found["case"]))
    return _cause(found["cause"])


def _diagnosis(call: Call, run: str, *, markdown: bool) -> Content:
    from hermes_agent.report.markdown import render_markdown

    with call.session(run, fresh=True) as (session, redactor):
        diagnosis = session.diagnosis
    if markdown:
        return Content(_as_data(render_markdown(diagnosis), f"diagnosis of {run}", redactor), MARKDOWN)
    record = cleaned(diagnosis.model_dump(mode="json", by_alias=True), redactor)
    return Content(json.dumps(record, indent=2), JSON)


def _evidence(call: Call, run: str, identifier: str) -> Content:
    with call.session(run) as (session, redactor):
        shown = session.show(identifier)
    lines = [shown.title, *shown.lines]
    if (table := shown.table) is not None:
        lines += [f"Rows, {len(table.rows)} of {table.total}:", " | ".join(table.columns)]
        lines += [" | ".join(row) for row in table.rows]
    return Content(_as_data("\n".join(lines), f"evidence of {run}", redactor), PLAIN)


def _case(call: Call, identifier: str) -> Content:
    from case_library.library import load_cases

    cases = {case.id: case for case in load_cases()}
    case = cases[choice("case", identifier, cases)]
    fields = {"Cause": f"{case.cause}, family {case.family}", **case_fields(case)}
    text = "\n".join([f"{case.id}: {case.title}", *(f"{title}: {text}" for title, text in fields.items())])
    return Content(_as_data(text, "public case"), PLAIN)


def _as_data(text: str, label: str, redactor: Redactor | None = None) -> str:
    """A text of a run or a case between lines that mark it as data, whole: a client reads it at once."""
    return fence(text if redactor is None else redactor.mask(text), label)


def _cause(cause: str | None) -> Content:
    from case_library.playbook import printed, read_playbook

    if cause is None:
        lines = [f"- `{each.id}` ({each.family}): {each.name.title}" for each in causes().values()]
        return Content("\n".join(["# Causes", "", *lines, ""]), MARKDOWN)
    return Content(printed(read_playbook(choice("cause", cause, causes()))), MARKDOWN)
