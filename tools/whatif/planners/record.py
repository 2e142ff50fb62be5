"""Inputs and plans of all planners: strict records, quantities with their limits, the error where no plan fits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from tools.errors import ExitCode, HermesError
from tools.whatif.timeline import Bar

# Limits that only a slip in a unit exceeds; they also keep every sum finite.
MOST_MS = 1e12  # 31 years
MOST_BYTES = 1e18  # an exabyte
MOST_OPERATIONS = 1e24
FASTEST_BYTES_PER_MS = 1e12  # 1 PB/s; the memory of one device moves about 1e10 bytes per ms
FASTEST_OPERATIONS_PER_MS = 1e16  # 1e19 per s; one device does about 1e13 per ms at most

Milliseconds = Annotated[float, Field(ge=0, le=MOST_MS)]
Bytes = Annotated[float, Field(ge=0, le=MOST_BYTES)]
Operations = Annotated[float, Field(ge=0, le=MOST_OPERATIONS)]
Bandwidth = Annotated[float, Field(gt=0, le=FASTEST_BYTES_PER_MS, description="bytes per millisecond")]


class Given(BaseModel):
    """A part of a planner's input: unknown fields, text in place of numbers, NaN and infinity are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Plan(BaseModel):
    """The part of the answer that only one planner has."""

    model_config = ConfigDict(frozen=True)


@dataclass(frozen=True)
class Planned:
    """The answer of a planner; times are predictions by simulation.

    ``before_ms`` is the time with the present setting, None where the input has none. ``gap_ms`` is how much better
    than ``after_ms`` a plan could be at most: 0 where the plan is proved best, None where the planner replays a rule
    and searches nothing. ``bars`` gives the picture of the plan, None where its times have no order.
    """

    planner: str
    plan: Plan
    before_ms: float | None
    after_ms: float
    gap_ms: float | None
    bound: str
    assumptions: list[str] = field(default_factory=list)
    bars: Callable[[], list[Bar]] | None = field(default=None, compare=False, repr=False)


class NoPlanError(HermesError):
    """No plan keeps the limits; the message names the limit and by how much it fails."""

    exit_code = ExitCode.INPUT
