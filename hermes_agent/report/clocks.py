"""How the clocks of a run's sources were aligned, as sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermes_agent.model.diagnosis import Diagnosis
    from hermes_agent.model.run_record import SourceClockRecord

HOUR_MS = 3.6e6


def clock_lines(diagnosis: Diagnosis) -> tuple[str, ...]:
    """One line for each source that was held against another; empty where there is one source of times."""
    return tuple(_line(each) for each in diagnosis.run.source_clocks if each.method != "reference")


def _line(clock: SourceClockRecord) -> str:
    if clock.method == "none":
        return f"{clock.source}: not aligned with the other sources: {clock.why}."
    steps = ""
    if clock.step_shift is not None:
        steps = (
            f"; its step N is step N{clock.step_shift:+d} of {clock.to}" if clock.step_shift else "; equal step numbers"
        )
    if clock.offset_ms is None:
        return f"{clock.source}: placed on {clock.to} {clock.why}{steps}; residual {_ms(clock.residual_ms)}."
    shifted = "no offset" if not clock.offset_ms else f"offset {_offset(clock.offset_ms)}"
    return f"{clock.source}: aligned with {clock.to} {clock.why}; {shifted}, residual {_ms(clock.residual_ms)}{steps}."


def _offset(offset_ms: float) -> str:
    """Whole time zones in hours, and what is left of them in ms."""
    hours = offset_ms / HOUR_MS
    return f"{hours:+g} {'hour' if abs(hours) == 1 else 'hours'}" if (2 * hours).is_integer() else _ms(offset_ms)


def _ms(value: float | None) -> str:
    return "not known" if value is None else f"{value:,.1f} ms"
