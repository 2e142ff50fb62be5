"""The verdict at the end of a training: its records, diagnosed by a process of its own.

Nothing of the analysis is imported here, and the training never fails for it: without an answer there is one sentence.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Summary = dict[str, str | float]

LIMIT_S = 60.0
NICENESS = 10  # of the process that diagnoses: other ranks and jobs of the machine go first
CAUSES = 3  # shown
LINE_CHARS = 500
HOME = Path(__file__).resolve().parents[2]
CITATION = re.compile(r" ?\[[A-Z]\d+\]")


@dataclass(frozen=True)
class Verdict:
    """``text``: lines for a terminal. ``summary``: flat names and values for an experiment tracker; may be empty."""

    text: str
    summary: Summary = field(default_factory=dict)


def verdict(folder: Path, limit_s: float = LIMIT_S) -> Verdict:
    """The verdict on the records (and traces) in a run folder, or one sentence on why there is none."""
    try:
        return described(_diagnosis(folder, limit_s), folder)
    except subprocess.TimeoutExpired:
        reason = f"the diagnosis took longer than {limit_s:g} s; run hermes-dx diagnose {folder}"
    except KeyboardInterrupt:  # it ends the wait, not the script: what comes next may save the model
        reason = "interrupted"
    except Exception as error:  # the boundary to the user's script: training ends as it would
        reason = str(error) or type(error).__name__
    return Verdict(_line(f"hermes-dx: no verdict: {reason}"))


def _diagnosis(folder: Path, limit_s: float) -> dict[str, Any]:
    """What ``hermes-dx diagnose --json`` prints of the folder; raises ValueError with its last line on an error."""
    command = [sys.executable, "-P", "-m", "hermes_agent.cli.main", "diagnose", str(folder), "--json", "--no-llm"]
    paths = os.pathsep.join(filter(None, (str(HOME), os.environ.get("PYTHONPATH"))))  # ours before another `tools`
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        env={**os.environ, "PYTHONPATH": paths},
        start_new_session=True,  # its reader processes end with it
    )
    try:
        with suppress(OSError):  # it may have ended
            os.setpriority(os.PRIO_PROCESS, process.pid, NICENESS)
        out, errors = process.communicate(timeout=limit_s)
    finally:
        if process.poll() is None:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode:
        lines = errors.decode(errors="replace").strip().splitlines() or [f"exit code {process.returncode}"]
        raise ValueError(lines[-1].removeprefix("hermes-dx: "))
    found: dict[str, Any] = json.loads(out)
    return found


def described(diagnosis: dict[str, Any], folder: Path) -> Verdict:
    """A diagnosis (the JSON contract) in a few lines, and as flat values."""
    name, causes, advice = str(diagnosis["verdict"]), diagnosis["causes"], diagnosis["advice"]
    lines = [f"hermes-dx: {name.upper()}: {diagnosis['headline']}"]
    lines += [f"  {place}. {_cause(cause, advice)}" for place, cause in enumerate(causes[:CAUSES], 1)]
    if name == "inconclusive":
        lines += [f"  To decide it: {each}" for each in diagnosis["next_measurements"][:1]]
    lines = [line.replace("RUN_FOLDER", str(folder)) for line in lines]  # as advice names it
    lines.append(f"  More: hermes-dx diagnose {folder} -v")
    summary: Summary = {"hermes/verdict": name, "hermes/headline": _line(str(diagnosis["headline"]))}
    step = diagnosis["step_time_ms"]
    if step is not None:
        summary["hermes/step_ms"] = float((step["unprofiled"] or step)["median"])
    if causes:
        summary |= {
            "hermes/cause": str(causes[0]["cause"]),
            "hermes/cause_ms_per_step": float(causes[0]["impact_ms_per_step"]),
            "hermes/cause_pct": float(causes[0]["impact_pct"]),
            "hermes/confidence": float(causes[0]["confidence"]),
        }
    if advice and advice[0]["predicted_step_ms"] is not None:
        summary["hermes/predicted_step_ms"] = float(advice[0]["predicted_step_ms"])
    return Verdict("\n".join(map(_line, lines)), summary)


def _cause(cause: dict[str, Any], advice: list[dict[str, Any]]) -> str:
    place = f" ({cause['where']})" if cause["where"] else ""
    most = "at most " if cause["at_most"] else ""
    size = f"{most}{cause['impact_ms_per_step']:.3g} ms per step, {cause['impact_pct']:.3g} %"
    fix = next((each["optimization"] for each in advice if each["for"] == cause["cause"]), "")
    return f"{cause['title']}{place}: {size}, confidence {cause['confidence']:.2f}." + (f" Fix: {fix}." if fix else "")


def _line(text: str) -> str:
    """One line without citations and control characters: names in it come from the run."""
    plain = "".join(char if char.isprintable() else " " for char in CITATION.sub("", text))
    return plain if len(plain) <= LINE_CHARS else f"{plain[: LINE_CHARS - 3]}..."
