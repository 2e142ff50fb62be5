"""The use of a model over the cases that asked one."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from evals.results.means import Mean, mean
from evals.suite.outcome import CaseResult
from evals.synthetic.spec import Record


class ModelTotals(Record):
    """Means per case over those that asked a model. ``pass_all`` is pass^k: all k attempts at a case without a miss."""

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
        calls=fmean(use.calls for use in used),
        tokens=fmean(use.tokens for use in used),
        seconds=fmean(use.seconds for use in used),
        cost=fmean(costs) if len(costs) == len(used) else None,
    )
