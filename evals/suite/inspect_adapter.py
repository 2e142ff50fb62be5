"""The cases as a task of inspect_ai, for those who evaluate with it: the same runs, scorers and misses.

    from inspect_ai import eval
    from evals.suite.inspect_adapter import hermes_task

    eval(hermes_task(["source=lab", "split=dev"]), model="mockllm/model")
    eval(hermes_task(["demo-*"], ask_model=True), model="openai/gpt-5")

Without ``ask_model`` the answers are the templates' and no model is called; with it the task's model puts each
diagnosis into its words, which stand only where the evidence bears them. Needs the extra ``inspect``.
"""

from __future__ import annotations

import importlib
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from evals.suite.carry_out import Conditions, carry_out
from evals.suite.case_files import all_cases, select
from evals.suite.case_schema import Case
from evals.suite.models import use_of
from evals.suite.outcome import CaseResult, ModelUse
from evals.suite.run_places import Places
from hermes_agent.config.settings import Settings
from hermes_agent.llm.endpoint import new_budget
from hermes_agent.llm.model import Message, ModelRequest, Reply, Usage
from hermes_agent.llm.redact import RedactedModel, Redactor
from hermes_agent.model.diagnosis import Diagnosis
from hermes_agent.statements.answer import write_answer
from hermes_agent.statements.facts import hosts_of
from tools.errors import UsageError

QUESTION = "Why is this training slow, and what should be changed first?"
SHOWN = ("top_1", "verdict", "healthy_false_positive", "citation_support", "numeric_fidelity")
RESULT = "hermes_result"  # where the solver leaves the scored case


def hermes_task(selection: Sequence[str] = (), ask_model: bool = False) -> Any:  # noqa: ANN401 (a Task of inspect_ai)
    """An ``inspect_ai.Task`` with one sample per case; raises UsageError when inspect_ai is missing or no case fits."""
    inspect_ai, dataset = _module("inspect_ai"), _module("inspect_ai.dataset")
    places = Places.from_environment(os.environ)
    cases = {case.id: case for case in select(all_cases(places), selection)}
    samples = [_sample(dataset, case) for case in cases.values()]
    scorers = [_scorer("without_a_miss", _without_a_miss)]
    scorers += [_scorer(name, partial(_score, name)) for name in SHOWN]
    return inspect_ai.Task(
        dataset=samples, solver=_solver(cases, places, ask_model), scorer=scorers, name="hermes-dx", model=None
    )


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UsageError(f"{name} is not installed; install the extra: pip install 'hermes-dx[inspect]'") from error


def _sample(dataset: ModuleType, case: Case) -> Any:  # noqa: ANN401
    expected = case.expected
    target = [*expected.any_of, *expected.all_of] or list(expected.verdict) or ["see expected"]
    metadata = {"what": case.what, "tags": case.tags.model_dump(mode="json")}
    return dataset.Sample(id=case.id, input=case.question or QUESTION, target=target, metadata=metadata)


def _solver(cases: dict[str, Case], places: Places, ask_model: bool) -> Any:  # noqa: ANN401
    solver, model = _module("inspect_ai.solver"), _module("inspect_ai.model")
    to_thread, from_thread = _module("anyio.to_thread"), _module("anyio.from_thread")

    @solver.solver(name="hermes_dx")  # type: ignore[untyped-decorator]
    def diagnosing() -> Any:  # noqa: ANN401
        async def solve(state: Any, generate: object) -> Any:  # noqa: ANN401
            chat = InspectModel(model.get_model(), model, from_thread.run) if ask_model else None
            result = await to_thread.run_sync(_carried_out, cases[str(state.sample_id)], places, chat)
            state.metadata[RESULT] = result.model_dump(mode="json")
            named = ", ".join(f"{one.cause} ({one.confidence:.2f})" for one in result.named) or "no cause"
            text = f"{result.verdict}: {named}" if result.status == "scored" else f"{result.status}: {result.reason}"
            state.output = model.ModelOutput.from_content("hermes-dx", text)
            return state

        return solve

    return diagnosing()


def _carried_out(case: Case, places: Places, chat: InspectModel | None) -> CaseResult:
    with tempfile.TemporaryDirectory(prefix="hermes-inspect-") as cache:
        answers = None if chat is None else InspectAnswers(chat)
        return carry_out(case, Conditions(places, Path(cache), answers))


def _without_a_miss(result: CaseResult) -> float | None:
    return float(result.status == "scored" and not result.misses) if result.status != "skipped" else None


def _score(name: str, result: CaseResult) -> float | None:
    return result.scores.get(name)


def _scorer(name: str, value: Callable[[CaseResult], float | None]) -> Any:  # noqa: ANN401
    """A scorer of inspect_ai; None, where the case does not ask for the score, leaves the sample out of the mean."""
    scoring = _module("inspect_ai.scorer")

    @scoring.scorer(metrics=[scoring.mean(), scoring.stderr()], name=name)  # type: ignore[untyped-decorator]
    def scorer() -> Any:  # noqa: ANN401
        async def score(state: Any, target: object) -> Any:  # noqa: ANN401
            result = CaseResult.model_validate(state.metadata[RESULT])
            given = value(result)
            if given is None:
                return None
            explanation = "; ".join(result.misses) or result.reason
            return scoring.Score(value=given, answer=state.output.completion, explanation=explanation)

        return score

    return scorer()


@dataclass(frozen=True)
class InspectModel:
    """A model of inspect_ai as a ChatModel. ``wait`` runs a coroutine function on the event loop from a thread."""

    model: Any
    messages: Any  # the module with the message types
    wait: Callable[..., Any]

    @property
    def name(self) -> str:
        """The name of the model in inspect_ai."""
        return str(self.model)

    def complete(self, request: ModelRequest, cancelled: Callable[[], bool]) -> Reply:
        """See ChatModel.complete."""
        turns = [self._turn(message) for message in request.messages]
        config = self.messages.GenerateConfig(max_tokens=request.max_tokens)
        output = self.wait(self.model.generate, turns, [], None, config)
        used = output.usage
        return Reply(
            str(output.completion),
            usage=None if used is None else Usage(int(used.input_tokens), int(used.output_tokens)),
            reason="length" if output.stop_reason == "max_tokens" else "stop",
        )

    def _turn(self, message: Message) -> Any:  # noqa: ANN401
        kinds = {"system": "ChatMessageSystem", "assistant": "ChatMessageAssistant"}
        return getattr(self.messages, kinds.get(message.role, "ChatMessageUser"))(content=message.content)


@dataclass(frozen=True)
class InspectAnswers:
    """Answers in the words of a task's model, once per case; inspect_ai repeats samples itself (epochs)."""

    chat: InspectModel
    attempts: int = 1

    def written(self, case_id: str, diagnosis: Diagnosis, attempt: int) -> tuple[Diagnosis, ModelUse]:
        """The diagnosis in the model's words where they pass the checks, and what that took."""
        budget = new_budget(Settings.load(Path.cwd(), os.environ))
        begun = time.perf_counter()
        masked = RedactedModel(self.chat, Redactor(hosts_of(diagnosis)))
        written, _ = write_answer(diagnosis, masked, budget, lambda _: None)
        return written, use_of(written, budget, time.perf_counter() - begun)
