"""What one question may cost."""

from __future__ import annotations

import pytest

from hermes_agent.llm.budget import Budget, BudgetExceeded, Prices
from hermes_agent.llm.model import Usage


class Clock:
    """Time that moves when asked to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_without_limits_everything_is_counted_and_nothing_refused() -> None:
    clock = Clock()
    budget = Budget(clock=clock)
    budget.spend(Usage(10, 5))
    budget.spend(Usage(20, 5, estimated=True))
    clock.now_s += 3
    budget.check()
    assert (budget.spent.calls, budget.spent.prompt_tokens, budget.spent.completion_tokens) == (2, 30, 10)
    assert (budget.spent.seconds, budget.spent.cost, budget.spent.estimated) == (3.0, None, True)


def test_the_last_allowed_call_may_be_made_and_no_other() -> None:
    budget = Budget(max_calls=2)
    for _ in range(2):
        budget.check()
        budget.spend(Usage(1, 1))
    with pytest.raises(BudgetExceeded, match=r"2 of 2 model calls are used; raise budget\.max_calls"):
        budget.check()
    with pytest.raises(BudgetExceeded, match="3 of 2 model calls are used"):
        budget.spend(Usage(1, 1))


def test_tokens_over_the_limit_are_refused_and_said_to_be_estimated_when_they_are() -> None:
    budget = Budget(max_tokens=1000)
    budget.spend(Usage(900, 99))
    with pytest.raises(BudgetExceeded, match=r"an estimated 1,009 of 1,000 tokens .*budget\.max_tokens"):
        budget.spend(Usage(5, 5, estimated=True))


def test_a_limit_reached_exactly_allows_no_further_call() -> None:
    budget = Budget(max_tokens=10)
    budget.spend(Usage(9, 1))
    with pytest.raises(BudgetExceeded, match="10 of 10 tokens"):
        budget.check()


def test_time_runs_while_nothing_is_spent() -> None:
    clock = Clock()
    budget = Budget(max_seconds=5, clock=clock)
    assert not budget.out_of_time()
    clock.now_s += 5
    assert budget.out_of_time()
    with pytest.raises(BudgetExceeded, match="5 s have passed and 5 s are allowed"):
        budget.check()


def test_money_follows_the_prices_of_each_direction() -> None:
    budget = Budget(max_cost=0.01, prices=Prices(2.0, 8.0, "EUR"))
    budget.spend(Usage(1000, 500))
    assert budget.spent.cost == pytest.approx(0.006)
    with pytest.raises(BudgetExceeded, match=r"0\.0120 of 0\.01 EUR is spent"):
        budget.spend(Usage(1000, 500))


def test_a_limit_on_money_without_prices_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="needs prices"):
        Budget(max_cost=1.0)
