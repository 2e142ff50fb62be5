"""Kernels that a better shape, layout, grid, type or fusion would make shorter."""

from __future__ import annotations

from tools.analyzers.computation.host import host_double, host_memory_bound
from tools.analyzers.support.answers import cannot_answer, clean, confidence, measure_all, say
from tools.analyzers.support.kernel_scope import (
    concerned,
    concerning,
    device_ranks,
    group_amounts,
    longest_name,
    worst_share,
)
from tools.analyzers.support.spec import Need, check
from tools.findings import Check, Fact, Finding
from tools.metrics.registry import measure
from tools.views.kernel_groups import group_rows, misaligned_calls, streaming_runs
from tools.views.kernels import MATRIX_UNIT, device_of, kernel_table, spec_for
from tools.views.profile import Profile
from tools.views.roofline import roofline

CONVERSION_LEFT = 0.0  # one layout throughout needs no conversion
CONVERSION_LEFT_CAUTIOUS = 0.4  # some operators have kernels for one layout only
GRID_CAP = 0.6  # a grid alone does not show how much work there was
HALF_SIZE = 0.5  # 32-bit instead of 64-bit operands: half the traffic, at most half the time on every device
SIGNALS = ("chains of element-wise kernels", "arithmetic intensity below the ridge and bandwidth above threshold")
NO_KERNELS = ("no kernel ran inside the steps", "a trace with device activity, of a run that uses a device")


@check(
    *("computation.fp64", "Double precision", "Does anything compute in double precision?"),
    causes=("underutilization",),
    mechanisms=("fallback_unit",),
)
def double(profile: Profile) -> Check | Finding:
    """Kernels, or operators on the host, that compute in 64 bit."""
    if not device_ranks(profile):
        return cannot_answer(*NO_KERNELS) if profile.run.has_device else host_double(profile)
    where = concerned(profile, "fp64")
    text = "Kernels in double precision run {0} of the step."
    if where is None:
        return clean(say(text, worst_share(profile, "fp64")))
    finding = Finding(
        cause="underutilization",
        claim=say(text, where.share),
        confidence=confidence((where.share.value, profile.thresholds["computation_finding_pct"]), at_most=0.8),
        details=(say("That is {0}, in {1} per step.", *group_amounts(profile, "fp64", where.worst)),),
        against=(say("Accumulators are sometimes kept in double precision on purpose."),),
        disproved_by="the operators that launch these kernels have no double operand",
        signals=("fp32 or fp64 matmul on tensor-core hardware",),
        hints={"precision": "fp32"},
    )
    return concerning(profile, where, "fp64", finding, HALF_SIZE)


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
        return cannot_answer(reason, "a profile taken with record_shapes=True")
    where = concerned(profile, "misaligned")
    if where is None:
        text = "Matrix operators with misaligned sizes run {0} of the step."
        return clean(say(text, worst_share(profile, "misaligned")))
    part = measure(profile, "kernel_group_share_pct", group="misaligned", of="matrix_operators", rank=where.worst)
    finding = Finding(
        cause="underutilization",
        mechanism="shape_alignment",
        claim=say(
            "Matrix operators whose sizes are misaligned for the matrix units run {0} of the step, {1} of the time of"
            " all matrix operators.",
            *(where.share, part),
        ),
        confidence=confidence((where.share.value, profile.thresholds["computation_finding_pct"]), at_most=0.85),
        against=(say("Padding adds work of its own, which makes the gain smaller for small sizes."),),
        disproved_by="the same operators padded to multiples of eight take as long",
        signals=("inner axis not a multiple of 8 (GPU) or 256 (Ascend cube)",),
        hints=_example(profile, where.worst),
    )
    return concerning(profile, where, "misaligned", finding, profile.thresholds["misaligned_gain"])


def _example(profile: Profile, rank: int) -> dict[str, str]:
    table = roofline(profile, rank)
    wrong = table[misaligned_calls(table)]
    if wrong.empty:
        return {"kernel": longest_name(profile, rank, "misaligned")}
    return {"shape": str(wrong["sizes"].iloc[int(wrong["device_ns"].to_numpy().argmax())])}


@check(
    *("computation.layout", "Layout conversions", "Do kernels only convert the memory layout?"),
    causes=("underutilization",),
    mechanisms=("layout_conversion",),
    needs=(Need.KERNELS,),
)
def layout(profile: Profile) -> Check | Finding:
    """Kernels that only change the order of elements in memory."""
    where = concerned(profile, "layout")
    if where is None:
        return clean(say("Layout conversions and transposes run {0} of the step.", worst_share(profile, "layout")))
    finding = Finding(
        cause="underutilization",
        mechanism="layout_conversion",
        claim=say("Kernels that only convert the memory layout run {0} of the step.", where.share),
        confidence=confidence((where.share.value, profile.thresholds["computation_finding_pct"])),
        details=(say("That is {0} with {1} conversions.", *group_amounts(profile, "layout", where.worst)),),
        against=(say("Some operators have a kernel for one layout only and convert in any case."),),
        disproved_by="conversions that stay after the model and its input use one memory format",
        signals=("transposes and format casts",),
        hints={"kernel": longest_name(profile, where.worst, "layout")},
    )
    return concerning(profile, where, "layout", finding, CONVERSION_LEFT, CONVERSION_LEFT_CAUTIOUS)


@check(
    *("computation.small_grid", "Small grids", "Do kernels launch fewer blocks than there are SMs?"),
    causes=("underutilization",),
    mechanisms=("small_grid",),
    needs=(Need.KERNELS,),
)
def small_grid(profile: Profile) -> Check | Finding:
    """Kernels that launch fewer blocks than the device has streaming multiprocessors (SMs)."""
    lacking = [rank for rank in device_ranks(profile) if not _grids_known(profile, rank)]
    if lacking:
        return cannot_answer(
            f"rank {lacking[0]}'s trace lacks the kernels' grids or the device's number of SMs",
            "a CUDA trace by Kineto with deviceProperties; ROCm traces do not record grids",
        )
    where = concerned(profile, "small_grid")
    if where is None:
        text = "Kernels with fewer blocks than SMs run {0} of the step."
        return clean(say(text, worst_share(profile, "small_grid")))
    spent, count = group_amounts(profile, "small_grid", where.worst)
    finding = Finding(
        cause="underutilization",
        mechanism="small_grid",
        claim=say("Kernels that launch fewer blocks than there are SMs run {0} of the step.", where.share),
        confidence=confidence((where.share.value, profile.thresholds["computation_finding_pct"]), at_most=GRID_CAP),
        details=(say("There are {0} of them, {1} in all.", count, spent),),
        against=(say("A kernel with little work cannot fill the device whatever its grid."),),
        disproved_by="a larger batch makes these kernels longer in proportion",
        signals=("both utilisations below threshold",),
        hints={"kernel": longest_name(profile, where.worst, "small_grid")},
    )
    return concerning(profile, where, "small_grid", finding, _filled(profile, where.worst))


def _grids_known(profile: Profile, rank: int) -> bool:
    device = device_of(profile.rank(rank))
    has_grid = bool((kernel_table(profile, rank)["blocks"] > 0).any())
    return has_grid and device is not None and bool(device.multiprocessors)


def _filled(profile: Profile, rank: int) -> float:
    """Share of the time left if the work were spread over twice the blocks, at most over all multiprocessors."""
    device = device_of(profile.rank(rank))
    table = kernel_table(profile, rank)
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
    """Runs of element-wise kernels that each read and write what one fused kernel would keep on the chip."""
    if not device_ranks(profile):
        return cannot_answer(*NO_KERNELS) if profile.run.has_device else host_memory_bound(profile)
    where, limit = concerned(profile, "streaming_runs"), profile.thresholds["computation_finding_pct"]
    left = saved = 1.0
    if where is not None:
        runs = streaming_runs(profile, where.worst)
        left = float(runs["fused_ns"].sum() / max(int(runs["duration_ns"].sum()), 1))
        saved = where.share.value * (1.0 - left)
    if where is None or saved < limit:
        text = "Runs of element-wise kernels take {0} of the step."
        return clean(say(text, worst_share(profile, "streaming_runs")))
    rates = _bandwidth(profile, where.worst)
    amounts = say("They take {0}, in {1} per step.", *group_amounts(profile, "streaming_runs", where.worst))
    moved = (say("Element-wise operators move {0} of the {1} that the device can.", *rates),) if rates else ()
    finding = Finding(
        cause="memory_bound",
        claim=say(
            "Runs of element-wise kernels, each reading and writing whole tensors, take {0} of the step.", where.share
        ),
        confidence=confidence((saved, limit), at_most=0.85 if rates else 0.65),
        details=(amounts, *moved),
        against=(say("Kernels that follow each other need not depend on each other; not every run can be fused."),),
        disproved_by="the same operators compiled or fused by hand take as long",
        signals=SIGNALS,
    )
    return concerning(profile, where, "streaming_runs", finding, left)


def _bandwidth(profile: Profile, rank: int) -> tuple[Fact, ...]:
    table = roofline(profile, rank)
    if spec_for(profile.rank(rank)) is None or not (~table["math"] & table["bytes"].notna()).any():
        return ()
    return measure_all(profile, "streaming_gb_s", "device_peak_gb_s", rank=rank)
