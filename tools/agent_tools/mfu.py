"""Model FLOP utilization from recorded shapes and the device table."""

from __future__ import annotations

from pydantic import Field

from tools.agent_tools.result import Result, cited, measured
from tools.agent_tools.tool import Arguments, ToolContext
from tools.errors import UsageError

LEAST_PCT = 50.0  # of the matrix kernels' time with known operations; below, the figure would say little
WHOLE_PCT = 95.0  # from here on the rest hardly changes the figure


class Mfu(Arguments):
    """One rank."""

    rank: int = Field(default=0, ge=0)


def mfu(context: ToolContext, asked: Mfu) -> Result:
    """Model FLOP utilization (MFU): operations of a step by recorded shapes, over the device's dense peak.

    Only matrix multiplications and convolutions count. Recomputed activations count as well (hardware FLOPs). Refuses,
    with the reason, where shapes, device or precision are not known.
    """
    where = {"rank": asked.rank}
    context.profile().rank(asked.rank)
    try:
        coverage = context.measure("flop_coverage_pct", **where)
    except UsageError as error:
        return Result(notes=(f"MFU cannot be measured: {error}.",))
    known = cited(context, "share of matrix kernel time with known operations", coverage)
    if coverage.value < LEAST_PCT:
        lack = "MFU cannot be measured: for most of the matrix kernels' time the operations are not known from shapes."
        return Result(facts=(known,), notes=(f"{lack} Record with record_shapes=True.",))
    least = "" if coverage.value >= WHOLE_PCT else "at least: "
    facts, notes = measured(
        context,
        (
            (f"{least}MFU", "mfu_pct", where),
            (f"{least}operations per step", "model_flop", where),
            ("peak of the device in the precision used", "device_peak", where),
        ),
    )
    if facts and least:
        notes = (*notes, "Operations of the remaining matrix kernels are not known, so the true MFU is higher.")
    return Result(facts=(*facts, known), notes=notes)
