"""The fine view of a run: what analyzers and metrics are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, wraps
from threading import RLock, local
from typing import Concatenate, Literal, ParamSpec, TypeVar, cast

import pandas as pd

from tools.errors import CutError, UsageError
from tools.knowledge.thresholds import Thresholds
from tools.run.model import Run
from tools.run.recorded.records import MonitorRecords, flag_values, last_environment
from tools.views.host.records import HostRecords, host_records_of
from tools.views.rank_profile import RankProfile
from tools.views.steps.recorded import series_of
from tools.views.steps.series import RunSeries

NO_TRACE = "the run holds no trace; record some with `hermes-dx monitor profile RUN_FOLDER`"
ONLY_CUT = "every trace of the run is cut, and nothing is measured on a part; copy the files again, or record again"
CPU_BUILD = "+cpu"
OUT_OF_TREE = ("ASCEND_", "HCCL_")  # variables of an accelerator that is added to a torch built for the CPU
Derived = TypeVar("Derived")
Arguments = ParamSpec("Arguments")


class Profile:
    """A run, its ranks' profiles and the thresholds in force; everything derived is lazy and cached."""

    def __init__(
        self, run: Run, thresholds: Thresholds | None = None, label: Literal["run", "baseline"] = "run"
    ) -> None:
        self.run = run
        self.label = label
        self.thresholds = thresholds or Thresholds()
        self._ranks = {rank.rank: RankProfile(rank) for rank in run.ranks}
        self._memo: dict[str, object] = {}
        self._making: dict[str, RLock] = {}  # by name, so that threads wait only for what they share
        self._of_records: set[str] = set()  # names of results for which records or a step log were looked for
        self._frames = local()  # of each thread: whether each result being made looked for them

    @property
    def traced(self) -> bool:
        """True where there is a trace; without one only records and step logs speak."""
        return bool(self._ranks)

    @property
    def measured(self) -> bool:
        """True where a step can be measured: by a trace, or by records of whole steps."""
        return self.traced or self.series is not None

    @property
    def rank_numbers(self) -> tuple[int, ...]:
        """The traced ranks, those of the series where there is no trace; ascending."""
        return self.run.rank_numbers if self.traced or self.series is None else self.series.ranks

    @cached_property
    def accelerated(self) -> bool:
        """True where ranks use accelerators, by their trace or the monitor's records; also where these do not say."""
        if self.traced:
            return self.run.has_device
        if self.records is None:
            return True
        used = self.records.system[["device_allocated_bytes", "device_utilisation_pct"]]
        return bool((used.fillna(0.0) > 0).to_numpy().any()) or not all(
            _cpu_only(self.records, rank) for rank in {each.rank for each in self.records.ranks}
        )

    @property
    def ranks(self) -> tuple[RankProfile, ...]:
        """All traced ranks, ascending; UsageError without a trace, for what looks into steps cannot answer then."""
        if not self.traced:
            raise CutError(ONLY_CUT) if self.run.cut else UsageError(NO_TRACE)
        return tuple(self._ranks.values())

    def rank(self, number: int) -> RankProfile:
        """The profile of one rank; a clear error when the run has no such rank."""
        return self._ranks[self.run.rank(number).rank]

    def memo(self, name: str, make: Callable[[], Derived]) -> Derived:
        """The result of ``make``, computed once per profile and stored under the caller's name."""
        if name not in self._memo:
            with self._making.setdefault(name, RLock()):
                if name not in self._memo:
                    with self._noting(name):
                        self._memo[name] = make()
        if name in self._of_records:
            self._looked_for_records()
        return cast("Derived", self._memo[name])

    def depends_on_records(self, name: str) -> bool:
        """True where a result was made by looking for monitor records or a step log, or was not made yet.

        Anything else depends on the traces alone: with records it would come out the same.
        """
        return name not in self._memo or name in self._of_records

    @contextmanager
    def _noting(self, name: str) -> Iterator[None]:
        """Note whether records are looked for while a result is made, also by what it is made of."""
        frames: list[bool] = self._frames.__dict__.setdefault("looked", [])
        frames.append(False)
        try:
            yield
        finally:
            if frames.pop():
                self._of_records.add(name)
                self._looked_for_records()

    def _looked_for_records(self) -> None:
        if frames := self._frames.__dict__.get("looked"):
            frames[-1] = True

    @cached_property
    def breakdown(self) -> pd.DataFrame:
        """The breakdowns of all ranks with a column ``rank``; UsageError without a trace."""
        return pd.concat([rank.breakdown.assign(rank=rank.rank.rank) for rank in self.ranks], ignore_index=True)

    @property
    def records(self) -> MonitorRecords | None:
        """The monitor's records as they were read."""
        self._looked_for_records()
        return self.run.records

    @property
    def series(self) -> RunSeries | None:
        """The steps of monitor records or step logs; None without either."""
        self._looked_for_records()
        return self._series

    @property
    def host_records(self) -> HostRecords | None:
        """The monitor's samples of processes and machines outside of profiled steps; None without records."""
        self._looked_for_records()
        return self._host_records

    @cached_property
    def _series(self) -> RunSeries | None:
        return series_of(self.run)

    @cached_property
    def _host_records(self) -> HostRecords | None:
        return host_records_of(self.run, self._series)

    @cached_property
    def step_ms(self) -> pd.Series:
        """Step time by step number: the slowest rank's wall time, in ms; without a trace that of the series."""
        if not self.traced and self.series is not None:
            return self.series.slowest_ms
        return self.breakdown.groupby("number")["wall_ns"].max() / 1e6

    @cached_property
    def mean_step_ms(self) -> float:
        """Mean over steps of the slowest rank's wall time: what throughput follows."""
        return float(self.step_ms.mean())

    @cached_property
    def median_step_ms(self) -> float:
        """Median over steps of the slowest rank's wall time."""
        return float(self.step_ms.median())


def memoized(
    function: Callable[Concatenate[Profile, Arguments], Derived],
) -> Callable[Concatenate[Profile, Arguments], Derived]:
    """The function of a profile, computed once per profile and arguments."""

    @wraps(function)
    def once(profile: Profile, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Derived:
        given = [*map(str, args), *(f"{name}={value}" for name, value in sorted(kwargs.items()))]
        name = ":".join((function.__module__, function.__name__, *given))
        return profile.memo(name, lambda: function(profile, *args, **kwargs))

    return once


def _cpu_only(records: MonitorRecords, rank: int) -> bool:
    """By the accelerators that torch used; where older records do not hold that, by what torch was built for."""
    used = flag_values(records.environments, rank, "accelerator")
    if used:
        return used == ("none",)
    last = last_environment(records.environments, rank)
    if last is None or not (last.torch or "").endswith(CPU_BUILD):
        return False
    return not any(name.startswith(OUT_OF_TREE) for name in last.variables)
