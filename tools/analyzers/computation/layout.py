"""Do the sizes of matrix operators fit the matrix units?"""

from __future__ import annotations

from tools.analyzers.support.confidence import confidence
from tools.analyzers.support.kernel_scope import concerned, device_ranks, longest_name, scaled_group, worst_share
from tools.findings import Check, Finding, Sentence, cannot_answer, clean, found
from tools.metrics.registry import measure
from tools.views.kernel_groups import group_rows, misaligned_calls
from tools.views.kernels import MATRIX_UNIT, device_of, kernel_table
from tools.views.profile import Profile
from tools.views.roofline import roofline

ALIGNMENT = "computation.alignment"


def alignment(profile: Profile) -> Check:
    """Matrix operators for matrix units whose sizes do not let them read whole 16-byte pieces."""
    ranks = device_ranks(profile)
    if not any(len(group_rows(profile, rank, "loads_known")) for rank in ranks):
        return _loads_unknown(profile)
    where = concerned(profile, "misaligned")
    if where is None:
        return clean(
            ALIGNMENT,
            Sentence(
                "Matrix operators whose sizes do not fit the matrix units run {0} of the step.",
                (worst_share(profile, "misaligned"),),
            ),
        )
    gain = profile.thresholds["misaligned_gain"]
    part = measure(profile, "kernel_group_share_pct", group="misaligned", of="matrix_operators", rank=where.worst)
    return found(
        ALIGNMENT,
        Finding(
            cause="underutilization",
            mechanism="shape_alignment",
            claim=Sentence(
                "Matrix operators with sizes that matrix units cannot read in whole pieces run {0} of the step, {1} "
                "of the time of all matrix operators.",
                (where.share, part),
            ),
            confidence=confidence((where.share.value, profile.thresholds["computation_finding_pct"]), at_most=0.85),
            ranks=where.ranks,
            steps=where.share.steps,
            change=scaled_group(profile, where, "misaligned", gain, (1.0 + gain) / 2),
            against=(Sentence("Padding adds work of its own, which makes the gain smaller for small sizes."),),
            disproved_by="the same operators padded to multiples of eight take as long",
            signals=("inner axis not a multiple of 8 (GPU) or 256 (Ascend cube)",),
            hints=_example(profile, where.worst),
        ),
    )


def _loads_unknown(profile: Profile) -> Check:
    on_matrix_units = any((kernel_table(profile, rank)["unit"] == MATRIX_UNIT).any() for rank in device_ranks(profile))
    if not on_matrix_units:
        return clean(ALIGNMENT, Sentence("No matrix operator ran on matrix units, so alignment does not matter yet."))
    return cannot_answer(
        ALIGNMENT,
        "neither shapes nor kernel names tell how the matrix operators read their operands",
        "a profile taken with record_shapes=True",
    )


def _example(profile: Profile, rank: int) -> dict[str, str]:
    table = roofline(profile, rank)
    wrong = table[misaligned_calls(table)]
    if wrong.empty:
        return {"kernel": longest_name(profile, rank, "misaligned")}
    return {"shape": str(wrong["sizes"].iloc[int(wrong["device_ns"].to_numpy().argmax())])}


LAYOUT = "computation.layout"
SMALL_GRID = "computation.small_grid"
CONVERSION_LEFT = 0.0  # one layout throughout needs no conversion
GRID_CAP = 0.6  # a grid alone does not tell how much work there was
CONVERSION_LEFT_CAUTIOUS = 0.4  # some operators have kernels for one layout only


def layout(profile: Profile) -> Check:
    """Kernels that only change the order of elements in memory."""
    where = concerned(profile, "layout")
    if where is None:
        return clean(
            LAYOUT,
            Sentence("Layout conversions and transposes run {0} of the step.", (worst_share(profile, "layout"),)),
        )
    return found(
        LAYOUT,
        Finding(
            cause="underutilization",
            mechanism="layout_conversion",
            claim=Sentence("Kernels that only convert the memory layout run {0} of the step.", (where.share,)),
            confidence=confidence((where.share.value, profile.thresholds["computation_finding_pct"])),
            ranks=where.ranks,
            steps=where.share.steps,
            change=scaled_group(profile, where, "layout", CONVERSION_LEFT, CONVERSION_LEFT_CAUTIOUS),
            details=(
                Sentence(
                    "That is {0} with {1} conversions.",
                    (
                        measure(profile, "kernel_group_ms", group="layout", rank=where.worst),
                        measure(profile, "kernel_group_count", group="layout", rank=where.worst),
                    ),
                ),
            ),
            against=(Sentence("Some operators have a kernel for one layout only and convert in any case."),),
            disproved_by="conversions that stay after the model and its input use one memory format",
            signals=("transposes and format casts",),
            hints={"kernel": longest_name(profile, where.worst, "layout")},
        ),
    )


def small_grid(profile: Profile) -> Check:
    """Kernels that start fewer blocks than the device has multiprocessors."""
    ranks = device_ranks(profile)
    lacking = [rank for rank in ranks if not _grids_known(profile, rank)]
    if lacking:
        return cannot_answer(
            SMALL_GRID,
            f"rank {lacking[0]}'s trace lacks the kernels' grids or the device's number of multiprocessors",
            "a CUDA trace by Kineto with deviceProperties; ROCm traces do not record grids",
        )
    where = concerned(profile, "small_grid")
    if where is None:
        return clean(
            SMALL_GRID,
            Sentence(
                "Kernels with fewer blocks than multiprocessors run {0} of the step.",
                (worst_share(profile, "small_grid"),),
            ),
        )
    factor = _filled(profile, where.worst)
    return found(
        SMALL_GRID,
        Finding(
            cause="underutilization",
            mechanism="small_grid",
            claim=Sentence(
                "Kernels that start fewer blocks than the device has multiprocessors run {0} of the step.",
                (where.share,),
            ),
            confidence=confidence((where.share.value, profile.thresholds["computation_finding_pct"]), at_most=GRID_CAP),
            ranks=where.ranks,
            steps=where.share.steps,
            change=scaled_group(profile, where, "small_grid", factor, (1.0 + factor) / 2),
            details=(
                Sentence(
                    "There are {0} of them, {1} in all.",
                    (
                        measure(profile, "kernel_group_count", group="small_grid", rank=where.worst),
                        measure(profile, "kernel_group_ms", group="small_grid", rank=where.worst),
                    ),
                ),
            ),
            against=(Sentence("A kernel with little work cannot fill the device whatever its grid."),),
            disproved_by="a larger batch makes these kernels longer in proportion",
            signals=("both utilisations below threshold",),
            hints={"kernel": longest_name(profile, where.worst, "small_grid")},
        ),
    )


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
