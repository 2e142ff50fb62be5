"""The lead where nothing in the trace speaks for a cause: what was not observed, and what would settle it."""

from __future__ import annotations

from tools.findings import Fact, Sentence
from tools.judgement.lead import Lead, Place, candidates_of, shapes_known
from tools.judgement.ranked_cause import steps_marked
from tools.judgement.unseen import UNKNOWN_EVENTS, device_work_missing, host_missing, host_too
from tools.judgement.verdict import MARKS, Judgement, part_pct
from tools.metrics.registry import measure
from tools.run.events import EventKind
from tools.views.host.call_costs import costly_calls
from tools.views.profile import Profile
from tools.views.work import host_calls, names_by_time, step_kernels

EVERY_STEP = "every step"
HOST = "who else had the cores of the host"
OPERATORS = "shapes and types of the operators"


def unobserved(profile: Profile, judged: Judgement) -> Lead | None:
    """The lead of an inconclusive verdict without any other; None where much of the step is not computation.

    Computation is what a step is for: it is a lead with its size only where something in it stands out. Else what was
    not observed is the lead, and its size is not known (0).
    """
    rank = profile.run.rank_numbers[0]
    if device_work_missing(profile):
        step = measure(profile, "step_time_ms", statistic="mean")
        claim = Sentence("A step takes {0}, and the trace does not hold what the device did in it.", (step,))
        unsure = dict.fromkeys(each.name for own in profile.ranks for each in own.rank.devices if each.possible)
        if unsure:
            text = "A step takes {0}. Process {n0} may be a device: its work is not counted, and what the host"
            claim = Sentence(f"{text} waits for is not known.", (step,), (", ".join(unsure),))
        if judged.why == UNKNOWN_EVENTS:
            claim = Sentence("The recording takes {0}, and none of its events is of a known kind.", (step,))
            return Lead(Place("step", (rank,), EVERY_STEP), 0.0, 0.0, claim, (), judged.needs)
        candidates, _ = candidates_of(profile, "unseen", rank)
        return Lead(Place("step", (rank,), EVERY_STEP), 0.0, 0.0, claim, candidates, judged.needs)
    if part_pct(profile, "compute") < profile.thresholds["healthy_compute_pct"]:
        return None
    return _unequal(profile) or _nothing_stands_out(profile, judged)


def _unequal(profile: Profile) -> Lead | None:
    """An operator whose calls cost very different time within a step, where sizes and types are not recorded."""
    costs = {rank: measure(profile, "costly_calls_ms", rank=rank) for rank in profile.run.rank_numbers}
    rank = max(costs, key=lambda each: costs[each].value)
    cost, calls = costs[rank], costly_calls(profile, rank)
    share = 100.0 * cost.value / profile.mean_step_ms
    if calls.empty or share < profile.thresholds["cause_share_pct"]:
        return None
    longer, shorter = (measure(profile, "unequal_call_ms", rank=rank, which=which) for which in ("long", "short"))
    name = str(profile.rank(rank).categories[int(calls["name"].iloc[0])])
    text = (
        f"Some calls of {{n0}} on rank {rank} take {{1}} in every step, others {{2}}; the long ones take {{0}} of a"
        " step. Sizes and types, which may explain it, are not recorded."
    )
    candidates, decide_by = candidates_of(profile, "unequal_calls", rank)
    place = Place("compute", (rank,), EVERY_STEP)
    return Lead(place, cost.value, share, Sentence(text, (cost, longer, shorter), (name,)), candidates, decide_by)


def _nothing_stands_out(profile: Profile, judged: Judgement) -> Lead:
    rank = max(profile.run.rank_numbers, key=lambda each: measure(profile, "part_pct", part="compute", rank=each).value)
    share, known = measure(profile, "part_pct", part="compute", rank=rank), shapes_known(profile, rank)
    missing = [] if known else [OPERATORS]
    observed = profile.host_records is not None and profile.host_records.sampled_s(rank) > 0.0
    missing += [] if profile.run.has_device or observed else [HOST]
    alone = host_missing(profile, rank)
    missing += ["the host and its input of data"] if alone else []
    missing += ["the recording outside of the steps"] if judged.needs in MARKS else []
    marked = steps_marked(profile.run)
    largest = _largest(profile, rank)
    taken = "{1} per step of it" if marked else "{1} of it"
    end = "no single operation stands out in it" if largest is None else f"{taken} ({{2}}) are {{n0}}"
    text = f"Computation fills {{0}} of {'a step' if marked else 'the recording'} of rank {rank}; {end}."
    said = f"{text} Not observed: {' and '.join(missing)}." if missing else text
    candidates, decide_by = candidates_of(profile, "compute" if known else "unknown_operators", rank)
    decide_by = judged.needs if judged.needs in (*MARKS, host_too(profile)) else decide_by
    place = Place("compute", (rank,), EVERY_STEP)
    claim = Sentence(said, (share,)) if largest is None else Sentence(said, (share, *largest[1:]), largest[:1])
    return Lead(place, 0.0, 0.0, claim, candidates, decide_by)


def _largest(profile: Profile, rank: int) -> tuple[str, Fact, Fact] | None:
    """The kernel or host operator with the most time of a rank, and what it takes; None where none stands out."""
    view = profile.rank(rank)
    if view.rank.has_device:
        place, metric, table = "device", "rank_kernel_ms", step_kernels(profile, rank)
    else:
        place, metric, table = "host", "host_own_ms", host_calls(profile, rank)
        table = table[view.kind[table["row"].to_numpy()] == EventKind.OPERATOR]
    if table.empty:
        return None
    name = names_by_time(view, table)[0]
    taken = measure(profile, metric, rank=rank, name=name)
    share = measure(profile, "named_own_pct", rank=rank, name=name, place=place)
    return (name, taken, share) if share.value >= profile.thresholds["work_stands_out_pct"] else None
