"""Prompts that a client offers to its user: diagnose a run, verify a fix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hermes_agent.llm.sanitize import one_line
from prompts.load import render
from tools.errors import UsageError
from tools.metrics.measurement import choice

LONGEST = 4096


@dataclass(frozen=True)
class ServerPrompt:
    """A prompt with the descriptions of its arguments, all required; ``file`` is its text."""

    name: str
    title: str
    description: str
    file: str
    arguments: Mapping[str, str]


RUN = "name of a registered run, or a path inside an allowed folder"
PROMPTS = (
    ServerPrompt(
        "diagnose_run",
        "Diagnose this run",
        "Why a training run is slow and what to change first, each figure cited.",
        "mcp_diagnose",
        {"run": RUN},
    ),
    ServerPrompt(
        "verify_fix",
        "Verify the fix",
        "Whether a change brought what was predicted, and for the expected reason.",
        "mcp_verify",
        {
            "before": f"{RUN}: the run before the change",
            "after": f"{RUN}: the run after the change",
            "advice": "the advice that was followed, such as A1",
        },
    ),
)
OF_RUNS = ("run", "before", "after")  # arguments that name a run
BY_NAME = {each.name: each for each in PROMPTS}


def written(name: str, given: Mapping[str, str]) -> tuple[ServerPrompt, str]:
    """The prompt and its text; raises UsageError for an unknown prompt and for arguments that do not fit."""
    prompt = BY_NAME[choice("prompt", name, BY_NAME)]
    missing = [each for each in prompt.arguments if not given.get(each, "").strip()]
    unknown = [each for each in given if each not in prompt.arguments]
    if missing or unknown:
        faults = [f"{', '.join(missing)} missing"] if missing else []
        faults += [f"{', '.join(unknown)[:200]} unknown"] if unknown else []
        raise UsageError(f"the prompt {name} takes {', '.join(prompt.arguments)}: {'; '.join(faults)}")
    values = {each: one_line(text, LONGEST).replace("`", "'") for each, text in given.items()}
    return prompt, render(prompt.file, **values)
