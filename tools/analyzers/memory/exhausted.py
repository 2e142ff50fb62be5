"""What a job's output says of device memory that ran out: PyTorch's report, and ``torch.cuda.memory_summary()``."""

from __future__ import annotations

from tools.analyzers.support.answers import say
from tools.analyzers.support.figures import measured
from tools.findings import Fact, Finding, Sentence
from tools.views.profile import Profile

ASKED = "{0} were asked for; {1} of the device's {2} were free."
UNUSED = "{0} are reserved by PyTorch and not allocated, none of it in a piece that fits."
PIECES = (
    " That is more than what was asked for, in pieces that are too small:"
    " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True may join them."
)
NOT_ENOUGH = (
    "Even in one piece that and the free memory, {0} together, are less than what was asked for: fragmentation alone"
    " does not explain it, and joining pieces cannot suffice."
)
OTHERS = "Other processes hold {0} of that device: where they are not of this job, they take it away."
ROUNDING_GIB = 0.02  # of amounts that are printed with two decimals
IN_USE = (
    "{0} of what PyTorch reserved is allocated: the memory is in use, not fragmented. Less has to be held at once: a"
    " smaller batch, shorter sequences, or activations that are recomputed."
)
BOTH = (
    "{0} of what PyTorch reserved is allocated, and little is left: a smaller batch, shorter"
    " sequences or activations that are recomputed take less."
)
RETRIED = (
    "By torch.cuda.memory_summary() cudaMalloc was tried again {0}: each time the allocator released its cache before."
)
RETRY_CONFIDENCE = 0.6  # that it happens is certain, what it costs is not known without steps
NO_COST = "what a flush costs is not in the output"


def exhausted_memory(profile: Profile) -> list[Sentence]:
    """How device memory was used when it ran out, as far as the output states it."""
    return [*_summary(profile), *_report(profile), *_in_use(profile)]


def retries(profile: Profile) -> Finding | None:
    """That the allocator released its cache and tried again, by the summary; None where it did not or none is known."""
    count = measured(profile, "allocator_failures", what="retries")
    if count is None or not count.value:
        return None
    return Finding(
        cause="memory_pressure",
        mechanism="allocator_retry",
        claim=say(RETRIED, count),
        confidence=RETRY_CONFIDENCE,
        impact_ms=0.0,
        impact_method=NO_COST,
        details=(say("Each of these waits for the device; they end once less memory is in use."),),
        disproved_by="the retries end and the steps are as long with less memory in use",
        signals=("cache flushes",),
    )


def _summary(profile: Profile) -> list[Sentence]:
    ooms = measured(profile, "allocator_failures", what="ooms")
    if ooms is None:
        return []
    amounts = [measured(profile, "allocator_memory_gib", what=each) for each in ("allocated", "reserved")]
    known = [each for each in amounts if each is not None]
    text = "By torch.cuda.memory_summary() memory ran out {0}"
    return [
        say(f"{text}; it holds {{1}} allocated and {{2}} reserved." if len(known) == 2 else f"{text}.", ooms, *known)
    ]


def _report(profile: Profile) -> list[Sentence]:
    asked = _amounts(profile, "asked", "free", "total")
    unused = _amounts(profile, "unused")
    return [
        *([say(ASKED, *asked)] if asked else []),
        *_others(profile),
        *([say(UNUSED + (PIECES if _in_pieces(profile) else ""), *unused)] if unused else []),
        *_not_enough(profile),
    ]


def _amounts(profile: Profile, *names: str) -> list[Fact]:
    """These amounts; none where one of them is not stated or is zero."""
    facts = [_amount(profile, name) for name in names]
    known = [each for each in facts if each is not None and each.value > 0.0]
    return known if len(known) == len(names) else []


def _others(profile: Profile) -> list[Sentence]:
    """Memory of processes that are named; nothing where one of them may be the job itself.

    In a container PyTorch does not know its own process by the number that the driver gives it, and names it as well.
    The processes are others where it states its own memory apart, or where all of it together is in use.
    """
    named = _amount(profile, "others")
    if named is None or named.value <= 0.0:
        return []
    if _amount(profile, "own") is not None:
        return [say(OTHERS, named)]
    total, free, allocated, unused = (_amount(profile, each) for each in ("total", "free", "allocated", "unused"))
    if total is None or free is None or allocated is None:
        return []
    held = allocated.value + (0.0 if unused is None else unused.value)
    together = named.value + held <= total.value - free.value + ROUNDING_GIB
    return [say(OTHERS, named)] if together else []


def _amount(profile: Profile, what: str) -> Fact | None:
    return measured(profile, "exhausted_memory_gib", what=what)


def _in_pieces(profile: Profile) -> bool:
    """Whether more lies in the allocator's cache than was asked for."""
    amounts = _amounts(profile, "unused", "asked")
    return bool(amounts) and amounts[0].value >= amounts[1].value


def _not_enough(profile: Profile) -> list[Sentence]:
    """That what is free and what is cached are too little together, by more than printed digits hide."""
    amounts, together = _amounts(profile, "unused", "free", "asked"), measured(profile, "exhausted_joined_gib")
    if not amounts or together is None or together.value + ROUNDING_GIB >= amounts[2].value:
        return []
    return [say(NOT_ENOUGH, together)]


def _in_use(profile: Profile) -> list[Sentence]:
    """That the memory is full, where nearly all that is reserved is allocated."""
    share = measured(profile, "allocated_of_reserved_pct")
    full = share is not None and share.value >= profile.thresholds["memory_in_use_pct"]
    text = BOTH if _in_pieces(profile) else IN_USE
    return [say(text, share)] if share is not None and full else []
