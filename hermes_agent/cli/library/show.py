"""Print one case, or the playbook of a cause."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import settings
from hermes_agent.cli.library.filters import library
from hermes_agent.cli.terminal import print_json
from tools.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from case_library.schema import Case


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``cases show``."""
    names = "id of a case, as search prints it, or a cause or mechanism by its id or name"
    parser.add_argument("id", nargs="+", metavar="ID|CAUSE", help=names)
    parser.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: argparse.Namespace) -> int:
    """Print the case or the page."""
    wanted, cases = " ".join(args.id), library(settings())
    case = next((case for case in cases if case.id == wanted), None)
    if case is None and (cause := cause_named(wanted)):
        return _print_playbook(cause, [case for case in cases if case.cause == cause], args.json)
    if case is None:
        raise UsageError(
            f"there is no case, cause or mechanism {wanted!r}; `hermes-dx cases search` finds the cases there are, "
            "`hermes-dx cases check` lists the causes"
        )
    print(case.model_dump_json(indent=2) if args.json else _text(case))
    return ExitCode.OK


def cause_named(text: str) -> str:
    """Return the cause of that id or display name, else the first with a mechanism of that name; "" without one."""
    from tools.knowledge.taxonomy import causes

    named: dict[str, str] = {}
    for cause in causes().values():
        own = (cause.id, cause.name.title, cause.name.phrase)
        of_mechanisms = [name for each in cause.mechanism_names.values() for name in (each.title, each.phrase)]
        named |= {_plain(name): cause.id for name in own}
        named = {_plain(name): cause.id for name in (*cause.mechanisms, *of_mechanisms)} | named
    return named.get(_plain(text), "")


def _plain(text: str) -> str:
    return re.sub(r"[\s_-]+", " ", text).strip().casefold()


def _text(case: Case) -> str:
    from hermes_agent.evidence.cases import case_fields
    from hermes_agent.evidence.printable import printable

    mechanism = f" ({case.mechanism})" if case.mechanism else ""
    fields = {
        **({"Private": "yes, it is read on this machine only"} if case.private else {}),
        "Cause": f"{case.cause}{mechanism}, family {case.family}",
        **case_fields(case),
        "Year": str(case.source.year or "unknown: not in the source"),
        "Confidence": case.confidence + (f": {case.confidence_reason}" if case.confidence_reason else ""),
    }
    lines = [f"{case.id}: {case.title}", *(f"{title}: {text}" for title, text in fields.items())]
    return "\n".join(map(printable, lines))


def _print_playbook(cause: str, cases: list[Case], as_json: bool) -> int:
    """Print the page, and below it the team's own cases of that cause."""
    from case_library.playbook import case_list, printed, read_playbook

    page = printed(read_playbook(cause))
    if as_json:
        print_json({"cause": cause, "page": page, "cases": [case.id for case in cases]})
    else:
        own = [case for case in cases if case.private]
        print(page, end=f"\n## Private cases\n\n{case_list(own)}\n" if own else "")
    return ExitCode.OK
