"""Phases of a step: data, forward, backward, optimizer; on the device and on the host."""

from __future__ import annotations

import numpy as np
import pandas as pd
from pydantic import Field

from tools.agent_tools.result import Figure, Result, Row, measured
from tools.agent_tools.tool import Arguments, ToolContext
from tools.findings import Argument
from tools.intervals import IntervalSet, covered
from tools.metrics.instances import in_step_labels
from tools.run.row_ids import group_id
from tools.views.event_labels import PHASES
from tools.views.profile import Profile
from tools.views.steps.phases import device_phases, host_phases, separable


class Phases(Arguments):
    """A rank, and a step or the mean of all."""

    rank: int = Field(ge=0)
    step: int | None = Field(default=None, ge=0, description="one step; without it the mean of all")


class PhaseRow(Row):
    """One phase. Phases may run at the same time, so their times need not add up to the step."""

    name: str
    rank: int
    step: int | None
    device_ms: float | None = Field(description="time in which work that the phase launched runs on the device")
    kernels: float | None = Field(description="kernels that it launched, per step")
    host_ms: float = Field(description="time in which a thread of the host works in it")


def phases(context: ToolContext, asked: Phases) -> Result:
    """Forward against backward against optimizer and data loading: time on device and host per step, or in one step."""
    profile, view = context.profile(), context.profile().rank(asked.rank)
    if asked.step is not None:
        view.rank.step(asked.step)
    rows = tuple(_row(profile, asked, phase) for phase in PHASES)
    notes = []
    if not separable(profile, asked.rank):
        notes.append(
            "Forward and backward are not separable: no node of the backward graph (autograd::engine) was recorded. "
            "What both did counts as other. Record with the profiler's CPU activity on."
        )
    places = ("device", "host") if view.rank.has_device else ("host",)
    figures: list[Figure] = []
    for phase in PHASES:
        for place in places:
            given: dict[str, Argument] = {"rank": asked.rank, "phase": phase, "place": place}
            given |= {} if asked.step is None else {"step": asked.step}
            figures.append((f"{phase} on the {place}", "phase_ms", given))
    facts, lacking = measured(context, figures)
    return Result(rows=rows, total=len(rows), facts=facts, notes=(*notes, *lacking))


def _row(profile: Profile, asked: Phases, phase: str) -> PhaseRow:
    view, device = profile.rank(asked.rank), profile.rank(asked.rank).rank.has_device
    chosen, on_host = (
        table if asked.step is None else table[(table["number"] == asked.step).to_numpy()]
        for table in (view.steps, view.host_steps)
    )
    on_device, host = device_phases(profile, asked.rank)[phase], host_phases(profile, asked.rank)[phase]
    return PhaseRow(
        id=group_id("phase", asked.rank, phase),
        name=phase,
        rank=asked.rank,
        step=asked.step,
        device_ms=_mean_ms(on_device, chosen) if device else None,
        kernels=_kernels(profile, asked, phase) if device else None,
        host_ms=_mean_ms(host, on_host),
    )


def _mean_ms(moments: IntervalSet, steps: pd.DataFrame) -> float:
    return float(covered(moments, steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()).mean()) / 1e6


def _kernels(profile: Profile, asked: Phases, phase: str) -> float:
    rows, known = in_step_labels(profile, asked.rank, "phase", "kernel")
    own = [code for code, name in enumerate(known.texts) if name == phase or (phase == "other" and name not in PHASES)]
    chosen = np.isin(known.codes, own)
    if asked.step is not None:
        return float((chosen & (profile.rank(asked.rank).step_of(rows) == asked.step)).sum())
    return float(chosen.sum()) / len(profile.rank(asked.rank).steps)
