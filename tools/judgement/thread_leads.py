"""The lead of training threads without a trace: they compute, they are blocked, or ranks wait for one of them; and of
a rank whose sampled stacks differ from those of the others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from tools.analyzers.cpu.sampled_stacks import Elsewhere, elsewhere
from tools.errors import UsageError
from tools.findings import Fact, Sentence
from tools.judgement.lead import EVERY_STEP, Candidate, Lead, Place
from tools.judgement.verdict import Judgement
from tools.knowledge.tables import table
from tools.metrics.registry import measure
from tools.run.program_frames import program_frame
from tools.views.profile import Profile
from tools.views.steps.series import RunSeries

SAID = {
    "blocked_ranks": (
        "Every training thread is blocked for at least {0} of each {1} step: it neither computes nor waits for a core."
    ),
    "awaited_rank": (
        "Of each {1} step the training thread of rank {n1} is blocked for {0}, that of rank {n0} for {2} only:"
        " the others may wait for rank {n0}."
    ),
    "blocked_host": (
        "The training thread is blocked for {0} of each {1} step: it neither computes nor waits for a core."
    ),
    "computing": (
        "Every training thread computes for at least {0} of each {1} step, and what it computes is not recorded."
    ),
}
PARTS = {"blocked_host": "host", "computing": "compute"}  # of a step, in the words of a trace


def thread_lead(profile: Profile, series: RunSeries, judged: Judgement) -> Lead | None:
    """The lead; None with devices, whose work the thread waits for as well, and where its time is not recorded."""
    if profile.accelerated or series.mean_ms <= 0.0:
        return None
    try:
        blocked = {rank: measure(profile, "off_core_ms", rank=rank) for rank in series.ranks}
        waits = [measure(profile, "series_part_ms", part="data_wait", rank=rank).value for rank in series.ranks]
        ran = [measure(profile, "series_part_ms", part="thread_cpu", rank=rank) for rank in series.ranks]
    except UsageError:
        return None
    step, limits = measure(profile, "series_step_ms", statistic="mean"), profile.thresholds
    noted_ms = limits["unexplained_part_pct"] / 100.0 * series.mean_ms
    if max(waits) >= noted_ms:
        return None  # that has a lead of its own
    least, most = (pick(blocked.values(), key=lambda fact: fact.value) for pick in (min, max))
    if (
        len(blocked) > 1
        and most.value - least.value >= noted_ms
        and most.value >= limits["straggler_lead"] * least.value
    ):
        return _lead(profile, judged, "awaited_rank", (most, step, least), least.ranks)
    if least.value >= noted_ms:
        kind = "blocked_ranks" if len(blocked) > 1 else "blocked_host"
        return _lead(profile, judged, kind, (least, step), tuple(blocked))
    computing = min(ran, key=lambda fact: fact.value)
    if computing.value >= series.mean_ms - noted_ms:
        return _lead(profile, judged, "computing", (computing, step), tuple(blocked))
    return None


# What the function of a rank that is elsewhere does, by the frames of its stack: the first kind that fits.
DOES: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        "stack_collects": re.compile(r"^(?:collect|gc_collect\w*) \(|^gc\."),
        "stack_compiles": re.compile(r"\(.*torch/_(?:dynamo|inductor)/|\(.*triton/compiler/"),
        "stack_loads": re.compile(
            r"^(?:__next__|_next_data|fetch|__getitem__|collate\w*|\w*decode\w*|\w*transform\w*|\w*augment\w*"
            r"|\w*load_(?:data|batch|image|sample)\w*|\w*read\w*) \("
        ),
        "stack_evaluates": re.compile(r"^\w*(?:eval|validat)\w* \(", re.IGNORECASE),
        "stack_writes": re.compile(
            r"^\w*(?:save|write|flush|dump|checkpoint|serialize|upload)\w* \(|^(?:log|print|fsync)\w* \(", re.IGNORECASE
        ),
        "stack_reads_value": re.compile(r"^(?:item|cpu|numpy|tolist|synchronize) \("),
    }
)
ELSEWHERE_DECIDES = (
    "a trace of the same steps of rank {own} and of rank {other}, which shows whether the others wait for it"
)


def elsewhere_lead(profile: Profile) -> tuple[Lead, ...]:
    """The rank whose sampled stacks differ from those of all others, as the place of a straggler; its size is open (0).

    A rank that is in a collective waits for the others, and is none.
    """
    place = elsewhere(profile)
    if place is None or place.waits:
        return ()
    entry = table("leads")[_does(profile, place)]
    candidates = tuple(Candidate(each["cause"], each["likelihood"], each["why"]) for each in entry["candidates"])
    decide_by = ELSEWHERE_DECIDES.format(own=place.rank, other=place.others[0])
    where = Place("host", (place.rank,), EVERY_STEP, frame=place.name)
    return (Lead(where, 0.0, 0.0, place.claim, candidates, decide_by),)


def _does(profile: Profile, place: Elsewhere) -> str:
    """The kind of what the rank's stack does, from its innermost frame outwards."""
    record = profile.run.host_stacks
    if record is None:
        return "stack_other"
    own = record.training[record.training["rank"] == place.rank]
    stacks = [record.stacks[at] for at in own.sort_values("samples", ascending=False)["stack"]]
    stack = next((each for each in stacks if program_frame(each) == place.name), ())
    for frame in reversed(stack):
        for kind, pattern in DOES.items():
            if pattern.search(frame):
                return kind
    return "stack_other"


def _lead(profile: Profile, judged: Judgement, kind: str, facts: tuple[Fact, ...], ranks: tuple[int, ...]) -> Lead:
    size, step = facts[0], facts[1]
    names = tuple(str(rank) for fact in (facts[-1], size) for rank in fact.ranks[:1])
    claim = Sentence(SAID[kind], facts, names if kind == "awaited_rank" else ())
    candidates = tuple(
        Candidate(each["cause"], each["likelihood"], each["why"]) for each in table("leads")[kind]["candidates"]
    )
    place = Place(PARTS.get(kind, "exposed_communication"), ranks, EVERY_STEP)
    return Lead(place, size.value, 100.0 * size.value / step.value, claim, candidates, judged.needs)
