"""Does the host pause between operators, and what does it do meanwhile by its Python frames?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tools.analyzers.support.answers import affected, cannot_answer, clean, confidence, say, values, worst_of
from tools.analyzers.support.figures import measure_all, measure_ranks, measured
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding, Sentence
from tools.knowledge.name_patterns import matching
from tools.metrics.host.pauses import Cover, covering, pause_places, pauses
from tools.run.events import EventKind
from tools.views.device.unrecorded import without_launches
from tools.views.host.batch_making import makes_batch
from tools.views.profile import Profile
from tools.whatif.change import Scale
from tools.whatif.threads import main_track

NAMED_CAP = 0.9
ONCE_CAP = 0.45  # below the confidence of a verdict: how often a pause comes that one step has is not known
LEFT = 0.0


@dataclass(frozen=True)
class Work:
    """What frames of a kind say: the cause, and what the host does in words."""

    pattern: str
    cause: str
    mechanism: str | None
    doing: str
    signal: str


# The first that matches; code of the program itself is what is left.
KINDS = (
    Work(
        "saving_frame",
        "checkpoint_stall",
        "synchronous_save",
        "saves state",
        "periodic long steps at the save interval",
    ),
    Work("garbage_collection", "garbage_collection", None, "collects garbage", "gc frames in host gaps"),
    Work("reading_frame", "slow_data_reading", None, "reads data", "worker time in read calls"),
    Work("processing_frame", "slow_data_processing", "heavy_transform", "prepares data", "single-process loader"),
)
PROGRAM = Work("", "operator_dispatch", None, "runs Python code", "long host pauses between launches")
BATCH = Work("", "slow_data_processing", "heavy_transform", "makes the next batch", "single-process loader")


def work_of(profile: Profile, rank: int, found: Cover) -> Work:
    """What the frames that cover a pause are about: by their names, else by what is made of their values."""
    own = [name for name in (found.name, found.inner) if not name.startswith("nn.Module")]
    names = pd.Series(
        [name.rpartition(": ")[2] if "/torch/" not in f"/{name}" else name for name in own], dtype="category"
    )
    named = next((kind for kind in KINDS if matching(names, kind.pattern).any()), None)
    if named is not None:
        return named
    view = profile.rank(rank)
    calls = view.in_steps(
        np.flatnonzero((view.codes == view.code(found.name or found.inner)) & view.on_training_thread)
    )
    return BATCH if makes_batch(profile, rank, view.covered(calls)) else PROGRAM


@check(
    *("cpu.host_pauses", "Host pauses", "Does the host pause between operators, and what does it do meanwhile?"),
    causes=("operator_dispatch", "slow_data_processing", "slow_data_reading", "checkpoint_stall", "garbage_collection"),
)
def host_pauses(profile: Profile) -> Check | Finding:
    """Pauses of the host that one Python frame covers; what is not covered is a lead, not a cause."""
    blind = without_launches(profile)
    ranks = [rank for rank in profile.run.rank_numbers if rank not in blind]
    if not ranks:
        return cannot_answer(*next(iter(blind.values())))
    shares = measure_ranks(profile, ranks, "host_pause_pct")
    worst = worst_of(values(shares))
    cost, share = measure_all(profile, "host_pause_ms", "host_pause_pct", rank=worst)
    if share.value < profile.thresholds["noted_pct"]:
        return clean(say("Pauses of the host between operators take {0} of the step at most.", share))
    found = covering(profile, worst)
    if not found.framed:
        stacks = any((view.kind == EventKind.PYTHON).any() for view in profile.ranks)
        unnamed = (
            "no Python function fills most of these pauses" if stacks else "no Python frames show what it does then"
        )
        reason = f"the host pauses between operators, and {unnamed}"
        needs = "a `py-spy dump` of the process while it pauses" if stacks else "the same steps with with_stack=True"
        return cannot_answer(reason, needs, say("Such pauses take {0} of the step.", share), *_off_cpu(profile, worst))
    noted = affected(shares, profile.thresholds["noted_pct"])
    chosen = tuple(rank for rank in noted if covering(profile, rank) == found)
    work = work_of(profile, worst, found)
    places = [", inside {n0}"] if found.name else []
    places += [f", much of it in {{n{len(places)}}}"] if found.inner else []
    text = f"Between operators the host {work.doing} for {{0}} per step ({{1}})" + "".join(places) + "."
    return Finding(
        cause=work.cause,
        mechanism=work.mechanism,
        claim=say(text, cost, share, names=tuple(filter(None, (found.name, found.inner)))),
        confidence=confidence((share.value, profile.thresholds["cause_share_pct"]), at_most=_cap(profile, worst, work)),
        ranks=chosen,
        steps=share.steps,
        details=_off_cpu(profile, worst),
        change=tuple(Scale(rank, main_track(profile.rank(rank)), pauses(profile, rank), LEFT, 0.5) for rank in chosen),
        disproved_by="the step is as long without that call",
        signals=(work.signal,),
        hints={"where": found.name or found.inner},
    )


def _off_cpu(profile: Profile, rank: int) -> tuple[Sentence, ...]:
    """Whether the thread computes during the pauses, where the scheduler's events show it."""
    off = measured(profile, "host_pause_off_cpu_pct", rank=rank)
    text = "During {0} of these pauses the thread is on no processor: it is blocked or not scheduled."
    return () if off is None else (say(text, off),)


def _cap(profile: Profile, rank: int, work: Work) -> float:
    """Work of the program is its usual work only where it is as noticeable without the step that has most of it."""
    table, walls_ns = pause_places(profile, rank), profile.rank(rank).breakdown.set_index("number")["wall_ns"]
    paused_ns = (table["end_ns"] - table["start_ns"]).groupby(table["step"]).sum().reindex(walls_ns.index, fill_value=0)
    others = paused_ns.index != paused_ns.idxmax()
    left_pct = 100.0 * float(paused_ns[others].sum()) / max(float(walls_ns[others].sum()), 1.0)
    once = work is PROGRAM and left_pct < profile.thresholds["cause_share_pct"]
    return ONCE_CAP if once else NAMED_CAP
