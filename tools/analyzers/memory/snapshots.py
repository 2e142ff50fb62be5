"""By snapshots of PyTorch's allocator: peak, fragmentation, and memory that is returned and reserved again."""

from __future__ import annotations

from tools.analyzers.support.answers import confidence, found, say, symptom
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding, Sentence
from tools.metrics.recorded.memory_snapshots import UNKNOWN, peak_frames, snapshot_of
from tools.metrics.registry import measure
from tools.run.program_frames import short_frame
from tools.run.recorded.memory_snapshots import NO_PYTHON
from tools.views.profile import Profile

CHURN_CAP, FRAGMENTED_CAP = 0.75, 0.45
SHOWN, SHOWN_SNAPSHOTS = 3, 4
NAMELESS = {
    NO_PYTHON: "of which the stack holds no Python frame, as in a backward pass",
    UNKNOWN: "without a recorded stack",
}
NO_COST = "a snapshot does not show how long the calls take"


@check(
    *("memory.snapshot", "Allocator snapshots", "Does the allocator return memory, reserve it again, or fragment?"),
    causes=("memory_pressure",),
    mechanisms=("allocator_retry", "fragmentation"),
    from_records="tables",
)
def allocator_snapshot(profile: Profile) -> Check | None:
    """cudaMalloc behind cudaFree within the recorded events, allocations that failed, and free parts of segments.

    Nothing is ruled out: whether the recorded events are those of steady steps is not known.
    """
    if not profile.run.snapshots:
        return None
    numbers = range(len(profile.run.snapshots))
    said = [sentence for number in numbers[:SHOWN_SNAPSHOTS] for sentence in _sizes(profile, number)]
    findings = [each for number in numbers for each in (_churn(profile, number), _fragmented(profile, number)) if each]
    worst = {each.mechanism: each for each in sorted(findings, key=lambda each: each.confidence)}
    return found(*worst.values()) if worst else symptom(*said)


def _sizes(profile: Profile, number: int) -> list[Sentence]:
    own = snapshot_of(profile, number)
    peak, reserved = (
        measure(profile, "snapshot_bytes", figure=each, snapshot=number) for each in ("peak_allocated", "peak_reserved")
    )
    unused = measure(profile, "fragmented_pct", snapshot=number) if len(own.blocks) else None
    calls = [measure(profile, "segment_calls", call=each, snapshot=number) for each in ("reserve", "return")]
    text = "Live allocations peak at {0}, reserved memory at {1}; {2} to cudaMalloc and {3} to cudaFree are recorded."
    said = [say(text, peak, reserved, *calls)]
    emptied = measure(profile, "segment_calls", call="return_by_program", snapshot=number)
    if emptied.value:
        said.append(say("Of those to cudaFree {0} are of `torch.cuda.empty_cache()` in the program.", emptied))
    if unused is not None:
        said.append(say("At the end {0} of the reserved memory is free within segments that are in use.", unused))
    names = [str(name) for name in peak_frames(profile, number)["name"].iloc[:SHOWN]]
    facts = [measure(profile, "peak_frame_bytes", name=name, snapshot=number) for name in names]
    if facts:
        listed = ", ".join(
            f"{{{at}}} {NAMELESS[name]}" if name in NAMELESS else f"{{{at}}} in {{n{at}}}"
            for at, name in enumerate(names)
        )
        said.append(say(f"At the peak: {listed}.", *facts, names=tuple(map(short_frame, names))))
    return said


def _churn(profile: Profile, number: int) -> Finding | None:
    """Memory that was returned to the device and reserved again, or that ran out."""
    own = snapshot_of(profile, number)
    again, failed = (
        measure(profile, "segment_calls", call=each, snapshot=number) for each in ("reserve_again", "out_of_memory")
    )
    least = profile.thresholds["reserved_again_calls"]
    if again.value < least and not failed.value:
        return None
    text = "The allocator returns memory to the device and reserves it again: {0} to cudaMalloc right after a cudaFree."
    claim = say(text, again) if again.value >= least else say("{0} to the allocator ran out of memory.", failed)
    sure = confidence(
        (max(again.value, least), least),
        at_most=CHURN_CAP,
    )
    return Finding(
        cause="memory_pressure",
        mechanism="allocator_retry",
        claim=claim,
        confidence=sure,
        ranks=(own.rank,) if own.rank >= 0 else (),
        impact_ms=0.0,
        impact_method=NO_COST,
        details=tuple(_sizes(profile, number)),
        disproved_by="no cudaFree shows in a snapshot of steps after the first ones",
        signals=("cudaMalloc or cudaFree inside steady steps",),
    )


def _fragmented(profile: Profile, number: int) -> Finding | None:
    own = snapshot_of(profile, number)
    if own.blocks.empty:
        return None
    unused = measure(profile, "fragmented_pct", snapshot=number)
    if unused.value < profile.thresholds["fragmented_memory_pct"]:
        return None
    size = measure(profile, "snapshot_bytes", figure="unused_in_segments", snapshot=number)
    return Finding(
        cause="memory_pressure",
        mechanism="fragmentation",
        claim=say("{0} of the reserved memory ({1}) is free within segments that are in use.", unused, size),
        confidence=confidence((unused.value, profile.thresholds["fragmented_memory_pct"]), at_most=FRAGMENTED_CAP),
        ranks=(own.rank,) if own.rank >= 0 else (),
        impact_ms=0.0,
        impact_method=NO_COST,
        details=tuple(_sizes(profile, number)),
        against=(say("Free blocks cost time only where a request fits none of them; a snapshot shows one moment."),),
        disproved_by="the free parts are used again in the next step",
        signals=("reserved memory well above allocated memory",),
    )
