"""A model in addition to the template baseline: live with its exchanges recorded, or played from a recording."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from evals.suite.outcome import ModelUse
from hermes_agent.config.settings import Settings
from hermes_agent.llm.budget import Budget
from hermes_agent.llm.endpoint import connect, new_budget
from hermes_agent.llm.model import ChatModel
from hermes_agent.llm.recording import RecordingModel, ReplayModel
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.statements.answer import write_answer
from hermes_agent.statements.facts import hosts_of
from tools.errors import ModelError, UsageError

FORMS = "live (the configured model), record:FOLDER (the same, exchanges saved there) or replay:FOLDER"
NO_MODEL = "no model is configured to ask; set llm.model in hermes-dx.toml or HERMES_DX_LLM_MODEL"


class AnswerSource(Protocol):
    """Whatever puts a diagnosis into a model's words, so many times for each case."""

    @property
    def attempts(self) -> int:
        """Times that each case is asked."""
        ...

    def written(self, case_id: str, diagnosis: Diagnosis, attempt: int) -> tuple[Diagnosis, ModelUse]:
        """The diagnosis in the model's words where they pass the checks, and what that took."""
        ...


@dataclass(frozen=True)
class ModelChoice:
    """The source of answers; exchanges are one file per case and attempt. ``live`` asks the configured model."""

    live: bool
    folder: Path | None
    attempts: int = 1

    def file(self, case_id: str, attempt: int) -> Path | None:
        """The exchanges of one attempt (from 0); None when they are not saved."""
        name = f"{case_id}.{attempt + 1}.jsonl" if attempt else f"{case_id}.jsonl"
        return None if self.folder is None else self.folder / name

    def written(self, case_id: str, diagnosis: Diagnosis, attempt: int = 0) -> tuple[Diagnosis, ModelUse]:
        """The diagnosis in the model's words where they pass the checks, and what that took.

        Raises ModelError when a recording does not match, UsageError when no model is configured to ask.
        """
        settings = Settings.load(Path.cwd(), os.environ)
        path = self.file(case_id, attempt)
        replay = None
        if not self.live and path is not None:
            if not path.is_file():
                raise ModelError(f"{path} is missing: this case has no recorded exchange; record it first")
            replay = ReplayModel(path)
        model = replay or _live(settings, diagnosis, path)
        budget = new_budget(settings)
        begun = time.perf_counter()
        written, note = write_answer(diagnosis, model, budget, lambda _: None)
        if replay is not None and (replay.left or "does not hold this request" in note):
            raise ModelError(f"{path} does not match what is asked now; record the case again ({note})")
        return written, use_of(written, budget, 0.0 if replay else time.perf_counter() - begun)


def model_choice(profile: str, attempts: int = 1) -> ModelChoice:
    """Reads a profile as in ``FORMS``; raises UsageError for anything else, a missing folder or a missing model."""
    if attempts < 1:
        raise UsageError(f"{attempts} attempts are none; ask for 1 or more")
    kind, _, folder = profile.partition(":")
    if profile != "live" and (kind not in ("record", "replay") or not folder):
        raise UsageError(f"{profile!r} is no model profile; write {FORMS}")
    if kind != "replay" and Settings.load(Path.cwd(), os.environ).llm.model is None:
        raise UsageError(NO_MODEL)
    if kind == "live":
        return ModelChoice(True, None, attempts)
    if kind == "replay" and not Path(folder).is_dir():
        raise UsageError(f"{folder} is no folder with recorded exchanges; record them first with record:{folder}")
    return ModelChoice(kind == "record", Path(folder), attempts)


def together(uses: Sequence[ModelUse], passes: int) -> ModelUse:
    """The use over all attempts at a case, and how many of them passed."""
    costs = [use.cost for use in uses if use.cost is not None]
    return ModelUse(
        answer_by=uses[0].answer_by,
        calls=sum(use.calls for use in uses),
        tokens=sum(use.tokens for use in uses),
        seconds=round(sum(use.seconds for use in uses), 2),
        cost=sum(costs) if len(costs) == len(uses) else None,
        attempts=len(uses),
        passes=passes,
    )


def _live(settings: Settings, diagnosis: Diagnosis, path: Path | None) -> ChatModel:
    model = connect(settings, hosts=hosts_of(diagnosis))
    if model is None:
        raise UsageError(NO_MODEL)
    if path is None:
        return model
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    return RecordingModel(model, path)


def use_of(written: Diagnosis, budget: Budget, seconds: float) -> ModelUse:
    """The use of one attempt."""
    spent = budget.spent
    return ModelUse(
        answer_by=written.answer_by,
        calls=spent.calls,
        tokens=spent.prompt_tokens + spent.completion_tokens,
        seconds=round(seconds, 2),
        cost=spent.cost,
    )
