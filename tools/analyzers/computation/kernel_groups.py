"""Kernels, or operators on the host, that a better shape, layout, grid, type or fusion would make shorter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tools.analyzers.computation.host_chains import host_chains
from tools.analyzers.support.answers import HIGHEST, affected, cannot_answer, clean, confidence, say, worst_of
from tools.analyzers.support.changes import (
    concerned,
    concerning,
    device_ranks,
    longest_name,
    shortened,
    worst_share,
)
from tools.analyzers.support.figures import measure_all, measure_ranks
from tools.analyzers.support.spec import Need, check
from tools.findings import Check, Finding, Sentence
from tools.intervals import length
from tools.metrics.computation import host_group, host_math_rows
from tools.metrics.host.embedding import sparse_left
from tools.metrics.registry import measure
from tools.views.device.kernels import MATRIX_UNIT, device_of, kernel_table, spec_for
from tools.views.device.roofline import group_rows, misaligned_calls, roofline, streaming_runs
from tools.views.profile import Profile
from tools.whatif.change import Change

HALF_SIZE = 0.5  # 32-bit instead of 64-bit operands: half the traffic, and at most half the time on every device
TUNED = 0.15  # of its time that a convolution keeps in the tuned library, which has none for 64 bit
CONVERSION_LEFT = (0.0, 0.4)  # one layout throughout needs none; some operators have kernels for one layout only
GRID_CAP = 0.6  # a grid alone does not show how much work there was
NO_KERNELS = ("no kernel ran inside the steps", "a trace with device activity, of a run that uses a device")
NO_SHAPES = "a profile taken with record_shapes=True"
UNTUNED = "Convolutions outside the tuned library, which has none for this precision, run {0}."


def _underused(
    profile: Profile,
    group: str,
    subject: str,
    left: tuple[float, float | None],
    mechanism: str | None = None,
    at_most: float = HIGHEST,
    hints: dict[str, str] | None = None,
) -> Check | Finding:
    """Underutilization by kernels that could keep ``left`` of their time (and cautiously), or the clean answer."""
    where, text = concerned(profile, group), f"{subject} run {{0}} of the step."
    if where is None:
        return clean(say(text, worst_share(profile, group)))
    limit = profile.thresholds["computation_finding_pct"]
    finding = Finding(
        cause="underutilization",
        mechanism=mechanism,
        claim=say(text, where.share),
        confidence=confidence((where.share.value, limit), at_most=at_most),
        details=(say("That is {0}, in {1} per step.", *where.amounts),),
        hints=hints or {"kernel": longest_name(profile, where.worst, group)},
    )
    return concerning(profile, where, group, finding, *left)


@check(
    *("computation.fp64", "Double precision", "Does anything compute in double precision?"),
    causes=("underutilization",),
    mechanisms=("double_precision",),
)
def double(profile: Profile) -> Check | Finding:
    """Kernels, or operators on the host, that compute in 64 bit."""
    if not device_ranks(profile):
        return cannot_answer(*NO_KERNELS) if profile.run.has_device else host_double(profile)
    subject, left, hints = "Kernels in double precision", (HALF_SIZE, None), {"precision": "fp32"}
    return _underused(profile, "fp64", subject, left, "double_precision", at_most=0.8, hints=hints)


def host_double(profile: Profile) -> Check | Finding:
    """Operators with 64-bit operands on the host: half the time, convolutions in the tuned library."""
    if not any(len(host_math_rows(profile, rank, "")) for rank in profile.run.rank_numbers):
        return cannot_answer("no matrix operator with recorded types ran", NO_SHAPES)
    where = concerned(profile, "fp64", host=True)
    text = "Operators in double precision run {0} of the step on the host."
    if where is None:
        return clean(say(text, worst_share(profile, "fp64", host=True)))
    slow = measure(profile, "host_group_pct", group="fallback", rank=where.worst)
    limit = profile.thresholds["computation_finding_pct"]
    change: Change = ()
    for rank in where.ranks:
        view, untuned = profile.rank(rank), host_group(profile, rank, "fallback")
        rows = host_group(profile, rank, "fp64")
        first, last = (np.searchsorted(view.start[untuned], ends[rows], side="left") for ends in (view.start, view.end))
        change += shortened(view, rows[last <= first], HALF_SIZE)  # those without a slow one inside
        change += shortened(view, untuned, TUNED, HALF_SIZE)
    return Finding(
        cause="underutilization",
        mechanism="double_precision",
        claim=say(text, where.share),
        confidence=confidence((where.share.value, limit), at_most=0.85),
        ranks=where.ranks,
        change=change,
        details=(say(UNTUNED, slow),) if slow.value else (),
        hints={"precision": "fp32"},
    )


@check(
    *("computation.alignment", "Shape alignment", "Do matrix shapes fit the matrix units?"),
    causes=("underutilization",),
    mechanisms=("shape_alignment",),
    needs=(Need.KERNELS,),
)
def alignment(profile: Profile) -> Check | Finding:
    """Matrix operators for matrix units whose sizes do not let them read whole 16-byte pieces."""
    ranks = device_ranks(profile)
    if not any(len(group_rows(profile, rank, "loads_known")) for rank in ranks):
        if not any((kernel_table(profile, rank)["unit"] == MATRIX_UNIT).any() for rank in ranks):
            return clean(say("No matrix operator ran on matrix units, so alignment does not matter yet."))
        reason = "neither shapes nor kernel names show how the matrix operators read their operands"
        return cannot_answer(reason, NO_SHAPES)
    where, hints = concerned(profile, "misaligned"), {}
    if where is not None:
        table = roofline(profile, where.worst)
        wrong = table[misaligned_calls(table)]
        if len(wrong):
            hints = {"shape": str(wrong["sizes"].iloc[int(wrong["device_ns"].to_numpy().argmax())])}
    subject, left = "Matrix operators with misaligned sizes", (profile.thresholds["misaligned_gain"], None)
    answer = _underused(profile, "misaligned", subject, left, "shape_alignment", at_most=0.85, hints=hints)
    if where is None or not isinstance(answer, Finding):
        return answer
    part = measure(profile, "kernel_group_share_pct", group="misaligned", of="matrix_operators", rank=where.worst)
    more = say("They take {0} of the time of all matrix operators.", part)
    return replace(answer, details=(*answer.details, more))


@check(
    *("computation.layout", "Layout conversions", "Do kernels only convert the memory layout?"),
    causes=("underutilization",),
    mechanisms=("layout_conversion",),
    needs=(Need.KERNELS,),
)
def layout(profile: Profile) -> Check | Finding:
    """Kernels that only change the order of elements in memory."""
    subject = "Kernels that only convert the memory layout"
    return _underused(profile, "layout", subject, CONVERSION_LEFT, "layout_conversion")


@check(
    *("computation.small_grid", "Small grids", "Do kernels launch fewer blocks than there are SMs?"),
    causes=("underutilization",),
    mechanisms=("small_grid",),
    needs=(Need.KERNELS,),
)
def small_grid(profile: Profile) -> Check | Finding:
    """Kernels that launch fewer blocks than the device has streaming multiprocessors (SMs)."""
    for rank in device_ranks(profile):
        device, has_grid = device_of(profile.rank(rank)), bool((kernel_table(profile, rank)["blocks"] > 0).any())
        if not has_grid or device is None or not device.multiprocessors:
            return cannot_answer(
                f"rank {rank}'s trace lacks the kernels' grids or the device's number of SMs",
                "a CUDA trace by Kineto with deviceProperties; ROCm traces do not record grids",
            )
    where = concerned(profile, "small_grid")
    left = 1.0 if where is None else _filled(profile, where.worst)
    subject = "Kernels that launch fewer blocks than there are SMs, very short ones left out,"
    return _underused(profile, "small_grid", subject, (left, None), "small_grid", at_most=GRID_CAP)


def _filled(profile: Profile, rank: int) -> float:
    """Share of the time left if the work were spread over twice the blocks, at most over all multiprocessors."""
    device, table = device_of(profile.rank(rank)), kernel_table(profile, rank)
    table = table[table["row"].isin(group_rows(profile, rank, "small_grid"))]
    if device is None or not device.multiprocessors or table.empty:
        return 1.0
    used = (table["blocks"] / device.multiprocessors).clip(lower=0.5)
    return float((used * table["duration_ns"]).sum() / table["duration_ns"].sum())


@check(
    *("computation.memory_bound", "Element-wise chains", "Would fusing element-wise operators save memory traffic?"),
    causes=("memory_bound",),
)
def memory_bound(profile: Profile) -> Check | Finding:
    """Runs of element-wise operators that each read and write what one fused operator would keep on the chip."""
    if (dense := _dense_tables(profile)) is not None:
        return dense
    if not profile.run.has_device:
        return host_chains(profile)
    if not device_ranks(profile):
        return cannot_answer(*NO_KERNELS)
    limit, text = profile.thresholds["computation_finding_pct"], "Runs of element-wise kernels take {0} of the step."
    where, left = concerned(profile, "streaming_runs"), 1.0
    if where is not None:
        runs = streaming_runs(profile, where.worst)
        left = float(runs["fused_ns"].sum() / max(int(runs["duration_ns"].sum()), 1))
    saved_pct = 0.0 if where is None else where.share.value * (1.0 - left)
    if where is None or saved_pct < limit:
        return clean(say(text, worst_share(profile, "streaming_runs")))
    moved = _bandwidth(profile, where.worst)
    finding = Finding(
        cause="memory_bound",
        mechanism="elementwise_chain",
        claim=say(text.replace(" take", ", each reading and writing whole tensors, take"), where.share),
        confidence=confidence((saved_pct, limit), at_most=0.85 if moved else 0.65),
        details=(say("They take {0}, in {1} per step.", *where.amounts), *moved),
    )
    return concerning(profile, where, "streaming_runs", finding, left)


def _dense_tables(profile: Profile) -> Finding | None:
    """Optimizer passes over whole embedding tables, on hosts; None where they take little."""
    if profile.run.has_device:
        return None
    shares = measure_ranks(profile, profile.run.rank_numbers, "table_update_pct")
    worst = worst_of(shares)
    read = measure(profile, "table_rows_pct", rank=worst)
    limit, view = profile.thresholds["cause_share_pct"], profile.rank(worst)
    saved_ns = sum((1.0 - left) * length(view.covered(rows)) for rows, left in sparse_left(profile, worst))
    saved_pct = 100.0 * saved_ns / float(view.breakdown["wall_ns"].sum())
    if saved_pct < limit:
        return None
    ranks = affected(shares, limit)
    text = "Passes over whole embedding tables take {0} of the step, of whose rows a look-up reads {1} at most."
    return Finding(
        cause="memory_bound",
        mechanism="dense_embedding_gradients",
        claim=say(text, shares[worst], read),
        confidence=confidence((saved_pct, limit), at_most=0.9),
        ranks=ranks,
        steps=shares[worst].steps,
        change=tuple(
            scale
            for rank in ranks
            for rows, left in sparse_left(profile, rank)
            for scale in shortened(profile.rank(rank), rows, left)
        ),
        details=(say("They take {0} per step.", measure(profile, "table_update_ms", rank=worst)),),
        disproved_by="`sparse=True` for these tables, with an optimizer that takes sparse gradients, changes nothing",
        signals=("arithmetic intensity below the ridge and bandwidth above threshold",),
    )


def _bandwidth(profile: Profile, rank: int) -> tuple[Sentence, ...]:
    table = roofline(profile, rank)
    if spec_for(profile.rank(rank)) is None or not (~table["math"] & table["bytes"].notna()).any():
        return ()
    rates = measure_all(profile, "streaming_gb_s", "device_peak_gb_s", rank=rank)
    return (say("Element-wise operators move {0} of the {1} that the device can.", *rates),)
