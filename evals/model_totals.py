"""What a model did over the whole suite: how reliably it answered, and what that took."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from evals.outcome import CaseResult
from evals.statistics import Mean, mean


class ModelTotals(BaseModel):
    """Means per case over those that asked a model. ``pass_all`` is pass^k: all k attempts at a case without a miss."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    cases: int
    attempts: int  # at each case
    pass_all: Mean
    pass_one: Mean  # share of attempts that pass
    written_by_model: Mean  # the rest are templates: what was written did not stand
    calls: float
    tokens: float
    seconds: float
    cost: float | None  # None where no prices are known


def model_totals(results: Sequence[CaseResult]) -> ModelTotals | None:
    """The totals of the scored results; None when no model was asked."""
    used = [result.model for result in results if result.model is not None]
    pass_all = mean([float(use.passes == use.attempts) for use in used])
    pass_one = mean([use.passes / use.attempts for use in used])
    written = mean([float(use.answer_by == "model") for use in used])
    if pass_all is None or pass_one is None or written is None:
        return None
    costs = [use.cost for use in used if use.cost is not None]
    return ModelTotals(
        cases=len(used),
        attempts=min(use.attempts for use in used),
        pass_all=pass_all,
        pass_one=pass_one,
        written_by_model=written,
        calls=sum(use.calls for use in used) / len(used),
        tokens=sum(use.tokens for use in used) / len(used),
        seconds=sum(use.seconds for use in used) / len(used),
        cost=sum(costs) / len(costs) if len(costs) == len(used) else None,
    )
