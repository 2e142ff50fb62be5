"""CPU time of every check on a trace: ``python -m evals.benchmarks.check_cost TRACE...`` prints JSON.

The checks run one after the other in the order of the workflow, in one thread. What several checks share (views of the
run, memoized figures, replays) is charged to itself, once, and not to the check that happens to ask first.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import msgspec

from evals.benchmarks.results import CheckCosts
from tools.analyzers.registry import CHECKS, check_of
from tools.judgement.ranking import ranking
from tools.sources.load import LoadOptions, load_run
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile

STAGES = ("coarse", "inter_operator", "family")
Derived = TypeVar("Derived")


class Account:
    """CPU seconds by name; what is asked for inside of something else is taken from the outer one."""

    def __init__(self, clock: Callable[[], float] = time.process_time) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._clock = clock
        self._open: list[float] = []  # by depth, what was charged to names inside

    @contextmanager
    def charged(self, name: str) -> Iterator[None]:
        """Charge what happens inside to that name, less what is charged to others meanwhile."""
        begun = self._clock()
        self._open.append(0.0)
        try:
            yield
        finally:
            spent = self._clock() - begun
            self.seconds[name] += spent - self._open.pop()
            if self._open:
                self._open[-1] += spent


class ChargedProfile(Profile):
    """A profile that charges everything it remembers."""

    account: Account

    def memo(self, name: str, make: Callable[[], Derived]) -> Derived:
        """The result of ``make``, charged when it is made."""

        def charged() -> Derived:
            with self.account.charged(_view(name)):
                return make()

        return super().memo(name, charged)


def _view(memo: str) -> str:
    """The name of a memoized result without its arguments: ``check:NAME``, or the function with its module."""
    first, _, rest = memo.partition(":")
    second = rest.partition(":")[0]
    if first == "check" or hasattr(sys.modules.get(first), second):
        return f"{first}:{second}" if first == "check" else f"{first}.{second}"
    return first


def charge_properties(owner: type, account: Account) -> None:
    """Charge the cached properties of a class to names of their own, for the rest of this process."""
    for name, held in list(vars(owner).items()):
        if isinstance(held, cached_property):
            setattr(owner, name, _charging(held, f"{owner.__name__}.{name}", account))
            vars(owner)[name].__set_name__(owner, name)


def _charging(held: cached_property[Derived], name: str, account: Account) -> cached_property[Derived]:
    def made(owner: object) -> Derived:
        with account.charged(name):
            return held.func(owner)

    return cached_property(made)


def measured(paths: list[Path]) -> CheckCosts:
    """The costs of one run; the checks' own thresholds and answers are those of ``diagnose``."""
    run = load_run(paths, LoadOptions())
    account = Account()
    for owner in (Profile, RankProfile):
        charge_properties(owner, account)
    profile = ChargedProfile(run)
    profile.account = account
    begun = time.process_time()
    for stage in STAGES:
        for spec in CHECKS:
            if spec.stage == stage:
                check_of(profile, spec.name)
    with account.charged("ranking itself"):
        ranking(profile)
    whole_ms = (time.process_time() - begun) * 1e3
    costs = {name: round(seconds * 1e3, 1) for name, seconds in account.seconds.items()}
    checks = {spec.name: costs.pop(f"check:{spec.name}", 0.0) for spec in CHECKS}
    ranking_ms = costs.pop("ranking", 0.0) + costs.pop("ranking itself", 0.0)
    rows = sum(len(rank.events) for rank in run.ranks)
    return CheckCosts(rows, checks, costs, round(ranking_ms, 1), round(whole_ms, 1))


if __name__ == "__main__":
    print(msgspec.json.encode(measured([Path(word) for word in sys.argv[1:]])).decode())
