"""A model beside the template baseline: live with its exchanges recorded, or played from a recording."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from evals.outcome import ModelUse
from hermes_agent.config import Settings
from hermes_agent.llm.budget import Budget
from hermes_agent.llm.connect import connect, new_budget
from hermes_agent.llm.model import ChatModel
from hermes_agent.llm.recording import RecordingModel, ReplayModel
from hermes_agent.report.diagnosis import Diagnosis
from hermes_agent.workflow.events import Event
from hermes_agent.writing.answer import write_answer
from hermes_agent.writing.facts import hosts_of
from tools.errors import ModelError, UsageError

FORMS = "record:FOLDER (the configured model, exchanges kept there) or replay:FOLDER"


@dataclass(frozen=True)
class ModelChoice:
    """Where the exchanges are; one file per case. ``live`` asks the configured model and records."""

    live: bool
    folder: Path


def model_choice(profile: str) -> ModelChoice:
    """Reads ``record:FOLDER`` or ``replay:FOLDER``; raises UsageError for anything else and for a missing folder."""
    kind, _, folder = profile.partition(":")
    if kind not in ("record", "replay") or not folder:
        raise UsageError(f"{profile!r} is no model profile; write {FORMS}")
    if kind == "replay" and not Path(folder).is_dir():
        raise UsageError(f"{folder} is no folder with recorded exchanges; record them first with record:{folder}")
    return ModelChoice(kind == "record", Path(folder))


def written_by(choice: ModelChoice, case_id: str, diagnosis: Diagnosis) -> tuple[Diagnosis, ModelUse]:
    """The diagnosis in the model's words where they stand, and what that took.

    Raises ModelError when a recording does not match, UsageError when no model is configured to record.
    """
    settings = Settings.load(Path.cwd(), os.environ)
    path = choice.folder / f"{case_id}.jsonl"
    replay = None if choice.live else _replay(path)
    model = replay or _live(settings, diagnosis, path)
    budget = new_budget(settings)
    begun = time.perf_counter()
    written, note = write_answer(diagnosis, model, budget, _ignore)
    if replay is not None and (replay.left or "does not hold this request" in note):
        raise ModelError(f"{path} does not match what is asked now; record the case again ({note})")
    return written, _use(written, budget, 0.0 if replay else time.perf_counter() - begun)


def _replay(path: Path) -> ReplayModel:
    if not path.is_file():
        raise ModelError(f"{path} is missing: this case has no recorded exchange; record it first")
    return ReplayModel(path)


def _live(settings: Settings, diagnosis: Diagnosis, path: Path) -> ChatModel:
    model = connect(settings, hosts=hosts_of(diagnosis))
    if model is None:
        raise UsageError("no model is configured to record; set llm.model in hermes-dx.toml or HERMES_DX_LLM__MODEL")
    path.unlink(missing_ok=True)
    return RecordingModel(model, path)


def _use(written: Diagnosis, budget: Budget, seconds: float) -> ModelUse:
    spent = budget.spent
    return ModelUse(
        answer_by=written.answer_by,
        calls=spent.calls,
        tokens=spent.prompt_tokens + spent.completion_tokens,
        seconds=round(seconds, 2),
        cost=spent.cost,
    )


def _ignore(event: Event) -> None:
    """What is streamed on the way is not shown."""
