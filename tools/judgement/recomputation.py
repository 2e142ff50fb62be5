"""Which activations to keep, and what recomputing them would cost, from a run's memory and recorded recomputation."""

from __future__ import annotations

from tools.analyzers.support.figures import measured
from tools.findings import Fact, Finding, Sentence
from tools.judgement.catalog import measure
from tools.views.profile import Profile
from tools.views.steps.phases import separable

FOR_ROOM = "profile_memory=True in the profiler, a snapshot of the allocator or samples of nvidia-smi"
FOR_BYTES = "a trace with profile_memory=True"


def kept_activations(profile: Profile, finding: Finding) -> Sentence:
    """How many of the recomputed activations to keep, by the room in memory; what to record where that is not known."""
    rank = _most(profile, finding, "recomputed_ms")
    spare = measured(profile, "spare_memory_gib", rank=rank)
    amount = measure(profile, "recomputed_ms", rank=rank)
    fits = measured(profile, "kept_regions", rank=rank)
    if spare is None:
        text = (
            "All activations kept would save at most {0} per step; whether memory has room for them was not recorded."
        )
        stated = f" {FOR_ROOM} states it." if profile.run.has_device else ""
        return Sentence(text + stated, (amount,))
    if fits is None:
        text = (
            f"{{0}} more of the device's memory could be used: recompute fewer layers ({_fewer(profile)}) until it is "
            f"full; all kept would save at most {{1}} per step. What one takes states {FOR_BYTES}."
        )
        return Sentence(text, (spare, amount))
    regions = measure(profile, "recomputed_regions", rank=rank)
    taken = measure(profile, "recomputed_gib", rank=rank, which="kept")
    if fits.value >= regions.value:
        text = f"All of {{0}} fit into memory ({{1}} of {{2}} to spare): recompute none ({_none(profile)})."
        return Sentence(text, (regions, taken, spare))
    text = f"Memory has room for {{0}} of {{1}} ({{2}} of {{3}} to spare): keep these ({_fewer(profile)})."
    return Sentence(text, (fits, regions, taken, spare))


def recomputation_price(profile: Profile, finding: Finding) -> Sentence | None:
    """What recomputing activations would cost where the allocator runs out of memory and none are recomputed."""
    rank = _most(profile, finding, "allocation_ms")
    again, forward = measured(profile, "recomputed_ms", rank=rank), _forward_ms(profile, rank)
    if forward is None or not forward.value or again is None or again.value:
        return None
    calls = measure(profile, "allocation_ms", rank=rank)
    used = measured(profile, "device_memory_pct", rank=rank)
    if used is None:
        text = (
            "Recomputing activations lowers the peak; all of them cost the forward again, {0} per step, against {1} in "
            f"the calls. Whether memory is full was not recorded; {FOR_ROOM} states it."
        )
        return Sentence(text, (forward, calls))
    if used.value < profile.thresholds["device_memory_full_pct"]:
        return None
    pays = "that pays" if forward.value < calls.value else "that costs more than it saves, so recompute few layers"
    text = (
        "The device's memory is {0} full. Recomputing all activations costs the forward again, {1} per step, against "
        f"{{2}} in the calls: {pays} ({_more(profile)})."
    )
    return Sentence(text, (used, forward, calls))


def _forward_ms(profile: Profile, rank: int) -> Fact | None:
    """Device time of the forward per step; None where no backward nodes separate it."""
    return measured(profile, "phase_ms", rank=rank, phase="forward") if separable(profile, rank) else None


def _most(profile: Profile, finding: Finding, metric: str) -> int:
    """The rank of a finding with most of a metric."""
    ranks = [rank for rank in finding.ranks if rank in profile.run.rank_numbers] or profile.run.rank_numbers
    return max(ranks, key=lambda rank: measure(profile, metric, rank=rank).value)


def _framework(profile: Profile) -> str:
    """Whose setting turns recomputation on, by the recorded Python frames and the job's log."""
    log = profile.run.job_log
    said = " ".join(log.grammars) if log is not None else ""
    frames = [str(name) for view in profile.ranks for name in view.categories if ".py(" in str(name)]
    for framework, word in (("Megatron", "megatron"), ("Transformers", "transformers/")):
        if framework in said or any(word in name for name in frames):
            return framework
    return ""


def _none(profile: Profile) -> str:
    return {
        "Megatron": "without `--recompute-granularity`",
        "Transformers": "`gradient_checkpointing=False`",
    }.get(_framework(profile), "without `torch.utils.checkpoint`")


def _fewer(profile: Profile) -> str:
    return {
        "Megatron": "`--recompute-granularity selective`, or `full` with `--recompute-method block` and fewer "
        "`--recompute-num-layers`",
        "Transformers": "`gradient_checkpointing = False` on layers that are kept",
    }.get(_framework(profile), "`torch.utils.checkpoint` around fewer layers")


def _more(profile: Profile) -> str:
    return {
        "Megatron": "`--recompute-granularity selective`",
        "Transformers": "`gradient_checkpointing=True`",
    }.get(_framework(profile), "`checkpoint_sequential(segments=...)`")
