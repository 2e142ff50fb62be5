"""Call one of the agent's tools on a run."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from hermes_agent.cli.arguments import add_run_arguments, profile_of, request_of, settings
from hermes_agent.cli.terminal import TerminalProgress, print_json
from tools.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from hermes_agent.config.settings import Settings
    from hermes_agent.model.request import Request
    from tools.agent_tools.result import Result
    from tools.agent_tools.tool import Arguments, ReadTool, ToolContext

SCHEMA = "hermes-dx/tool/1"
LONGEST_ARGUMENTS = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``tool``."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="name of the tool, see --list and docs/tools.md")
    add_run_arguments(parser, "*")
    parser.add_argument("--args", default="{}", metavar="JSON", help="""arguments, for example '{"rank": 3}'""")
    parser.add_argument(
        "--list", action="store_true", help="print names, descriptions and schemas of all tools as JSON"
    )


def run(args: argparse.Namespace) -> int:
    """Print the result as JSON."""
    from tools.agent_tools.registry import TOOLS, tool_of

    if args.list:
        print_json({"schema": SCHEMA, "tools": [_described(tool) for tool in TOOLS]})
        return ExitCode.OK
    if args.name is None or not args.run_paths:
        raise UsageError("name a tool and a run: hermes-dx tool find_events RUN --args '{\"rank\": 0}' (see --list)")
    if len(args.args) > LONGEST_ARGUMENTS:
        raise UsageError(f"--args is longer than {LONGEST_ARGUMENTS:,} characters")
    tool, chosen = tool_of(args.name), settings(no_llm=True)
    asked, request = tool.check(args.args), request_of(args, chosen)
    result = _of_diagnosis(tool, request, chosen, asked) if tool.diagnosed else _of_run(tool, request, asked)
    print_json({"schema": SCHEMA, "tool": tool.name, **result.model_dump(mode="json")})
    return ExitCode.OK


def _described(tool: ReadTool[ToolContext]) -> dict[str, object]:
    from tools.agent_tools.columns import result_of, with_units
    from tools.agent_tools.result import Result

    result = with_units(result_of(tool.rows, Result).model_json_schema(mode="serialization"))
    return {"name": tool.name, "description": tool.description, "arguments": tool.schema, "result": result}


def _of_run(tool: ReadTool[ToolContext], request: Request, asked: Arguments) -> Result:
    from tools.agent_tools.context import RunContext
    from tools.views.profile import Profile

    baseline = None
    if request.baseline:
        other = profile_of(replace(request, paths=request.baseline, baseline=(), ranks=(), steps=None))
        baseline = Profile(other.run, other.thresholds, label="baseline")
    return tool.function(RunContext(profile_of(request), baseline), asked)


def _of_diagnosis(tool: ReadTool[ToolContext], request: Request, chosen: Settings, asked: Arguments) -> Result:
    from hermes_agent.questions.tool_context import DiscussedRun
    from hermes_agent.session import Session

    with Session(request, chosen) as session, TerminalProgress() as progress:
        session.diagnose(progress)
        return tool.function(DiscussedRun(session.discussion), asked)
