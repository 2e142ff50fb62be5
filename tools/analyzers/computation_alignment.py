"""Do the sizes of matrix operators fit the matrix units?"""

from __future__ import annotations

from tools.analyzers.computation_scope import concerned, device_ranks, longest_name, scaled_group, worst_share
from tools.analyzers.margin import confidence
from tools.findings import Check, Finding, Sentence, cannot_answer, clean, found
from tools.metrics.registry import measure
from tools.profilers.kernel_groups import group_rows, misaligned_calls
from tools.profilers.kernels import MATRIX_UNIT, kernel_table
from tools.profilers.profile import Profile
from tools.profilers.roofline import roofline

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
