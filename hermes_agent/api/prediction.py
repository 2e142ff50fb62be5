"""The step time that a replay of the run predicts without some of its causes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.errors import UsageError

if TYPE_CHECKING:
    from tools.agent_tools.result import Result


@dataclass(frozen=True)
class Prediction:
    """The mean step without ``causes``; ``low_ms`` to ``high_ms`` is the 80 % prediction interval.

    ``notes`` name causes that were asked for and not found. ``evidence``: ids that ``DiagnosedRun.show`` opens.
    """

    causes: tuple[str, ...]
    step_ms: float
    low_ms: float
    high_ms: float
    speedup: float
    evidence: tuple[str, ...]
    notes: tuple[str, ...] = ()


def prediction_of(result: Result, asked: tuple[str, ...]) -> Prediction:
    """The prediction for all causes of an answer of the tool ``what_if`` together; UsageError where there is none."""
    together = [fact for fact in result.facts if fact.arguments["causes"] == result.facts[-1].arguments["causes"]]
    if not together:
        raise UsageError(" ".join(result.notes) or f"without {', '.join(asked)} nothing can be predicted for this run")
    found = {(fact.metric, fact.arguments.get("bound")): fact.value for fact in together}
    return Prediction(
        tuple(str(together[0].arguments["causes"]).split(",")),
        found["joint_step_ms", None],
        found["joint_step_ms", "low"],
        found["joint_step_ms", "high"],
        found["joint_speedup", None],
        tuple(fact.id for fact in together),
        result.notes,
    )
