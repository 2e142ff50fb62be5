"""The account that an Ascend profiler keeps of a step: its parts, and which ranks or pipeline stages differ."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tools.analyzers.support.answers import cannot_answer, clean, confidence, say, symptom
from tools.analyzers.support.figures import measure_all
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding, Saving
from tools.metrics.recorded.ascend import tables
from tools.metrics.registry import measure
from tools.views.profile import Profile

NO_ACCOUNT = ("the profiler's tables hold no account of its steps", "the profiler's step_trace_time (level 0 or more)")
ACCOUNT_CAP = 0.85  # the account gives times, not what they are spent on
FREE_PCT = 10.0  # of a step: beyond it the host bounds it (msprof-analyze)
FREE_CAP = 0.45  # below what makes a verdict: launching is one of several causes
AGAINST = -0.9  # correlation of free and communication time by rank: what one rank loses the others wait
EVENED = "profiler tables: stages computing alike"


def _steps(profile: Profile) -> pd.DataFrame:
    return tables(profile).steps


@check(
    *("step.account", "Step by the Ascend profiler's account", "What does the profiler's own account say of a step?"),
    family="parallel",
    stage="inter_operator",
    from_records="tables",
)
def account(profile: Profile) -> Check | None:
    """Compute, exposed communication and free time of the rank whose stage is longest."""
    if profile.run.ascend is None:
        return None
    steps = _steps(profile)
    if steps.empty:
        return cannot_answer(*NO_ACCOUNT)
    rank = int(str(steps.groupby("rank")["stage_ms"].mean().idxmax()))
    parts = ("computing", "exposed_communication", "free", "stage")
    facts = tuple(measure(profile, "account_ms", part=part, rank=rank) for part in parts)
    text = f"On rank {rank} the device computes {{0}}, communicates exposed {{1}} and is free {{2}} of {{3}}."
    return symptom(say(text, *facts))


@check(
    *("cpu.account", "Free time by tables", "Is the device free because the host does not launch work?"),
    causes=("operator_dispatch",),
    from_records="tables",
)
def free_time(profile: Profile) -> Check | Finding | None:
    """A device that is free for more than a tenth of the step on every rank; where traces show it, they answer."""
    record = profile.run.ascend
    if record is None or profile.traced or record.steps.empty or profile.series is None:
        return None
    shares = {int(rank): measure(profile, "account_pct", part="free", rank=int(rank)) for rank in record.steps["rank"]}
    least = min(shares, key=lambda rank: (shares[rank].value, rank))
    free = measure(profile, "account_ms", part="free", rank=least)
    text = f"The device has no work for at least {{0}} of a step ({{1}} on rank {least})."
    if shares[least].value < FREE_PCT:
        return clean(say(text, shares[least], free))
    return Finding(
        cause="operator_dispatch",
        claim=say(text, shares[least], free),
        confidence=confidence((shares[least].value, FREE_PCT), at_most=FREE_CAP),
        ranks=tuple(shares),
        saving=Saving(
            profile.mean_step_ms, free.value, 0.1 * free.value, free.value, "profiler tables: free time of every rank"
        ),
        against=(say("What the host does meanwhile is not in the tables: it may load data, save or wait."),),
        disproved_by="a timeline of these steps shows the host loading data, saving or waiting in the free time",
    )


@check(
    *("pipeline.account", "Pipeline balance by tables", "Does one pipeline stage compute longer by its tables?"),
    family="parallel",
    causes=("pipeline_imbalance",),
    from_records="tables",
)
def stage_balance(profile: Profile) -> Check | Finding | None:
    """Compute of each stage of the layout that the folders state; where traces show it, they answer."""
    record = profile.run.ascend
    if record is None or profile.traced or not record.stages:
        return None
    there = {int(rank) for rank in record.steps["rank"]}
    if not all(set(ranks) <= there for ranks in record.stages) or profile.series is None:
        return cannot_answer("not every rank's account is there", "step_trace_time of every rank")
    each = [measure(profile, "stage_account_ms", stage=stage) for stage in range(len(record.stages))]
    mean, limits = measure(profile, "stage_account_ms"), profile.thresholds
    heavy = int(np.argmax([fact.value for fact in each]))
    own, step_ms = each[heavy], profile.mean_step_ms
    saved_ms = own.value - mean.value
    saved_pct, over_pct = 100.0 * saved_ms / step_ms, 100.0 * saved_ms / mean.value
    if saved_pct < limits["noted_pct"] or over_pct < limits["rank_spread_pct"]:
        return clean(
            say("The heaviest pipeline stage computes {0} per step, the mean of the stages is {1}.", own, mean)
        )
    details = tuple(say(f"Stage {stage} computes {{0}} per step.", fact) for stage, fact in enumerate(each))
    return Finding(
        cause="pipeline_imbalance",
        claim=say(f"Pipeline stage {heavy} computes {{0}} per step, the mean of the stages is {{1}}.", own, mean),
        confidence=confidence(
            (over_pct, limits["rank_spread_pct"]), (saved_pct, 0.5 * limits["cause_share_pct"]), at_most=ACCOUNT_CAP
        ),
        ranks=record.stages[heavy],
        saving=Saving(step_ms, saved_ms, 0.5 * saved_ms, saved_ms, EVENED, bound_ms=saved_ms),
        details=details,
    )


@check(
    *("communication.account", "Ranks by tables", "Does one rank hold up the others by their tables?"),
    causes=("straggler",),
    from_records="tables",
)
def late_rank(profile: Profile) -> Check | Finding | None:
    """A rank that is free for longer while the others communicate for longer; where traces show it, they answer."""
    record = profile.run.ascend
    if record is None or profile.traced or record.steps.empty or profile.series is None:
        return None
    columns = ["computing_ms", "exposed_communication_ms", "free_ms", "stage_ms"]
    means = record.steps.groupby("rank")[columns].mean()
    if len(means) < 2:
        return cannot_answer("there is one rank's account only", "step_trace_time of the other ranks")
    if record.stages:
        return None
    parts = ("exposed_communication", "free", "computing")
    spreads = tuple(measure(profile, "account_spread_ms", part=part) for part in parts)
    own_ms = means["computing_ms"] + means["free_ms"]
    late, limits, step_ms = int(str(own_ms.idxmax())), profile.thresholds, profile.mean_step_ms
    saved_ms = float(own_ms.max() - own_ms.median())
    saved_pct = 100.0 * saved_ms / step_ms
    wide_pct = 100.0 * spreads[0].value / float(means["exposed_communication_ms"].mean() or 1.0)
    spread = say("Between ranks exposed communication differs by {0}, free time by {1}, compute by {2}.", *spreads)
    together = float(np.corrcoef(own_ms, means["exposed_communication_ms"])[0, 1]) if own_ms.nunique() > 1 else 0.0
    enough = len(means) > 2 and together <= AGAINST
    if saved_pct < limits["noted_pct"] or wide_pct < limits["rank_spread_pct"] or not enough:
        return clean(spread)
    facts = measure_all(profile, "account_ms", part="exposed_communication", rank=late)
    free = measure(profile, "account_ms", part="free", rank=late)
    text = f"Rank {late} communicates {{0}} per step, less than the others, and is free {{1}}: the others wait for it."
    return Finding(
        cause="straggler",
        claim=say(text, *facts, free),
        confidence=confidence(
            (saved_pct, limits["cause_share_pct"]), (wide_pct, limits["rank_spread_pct"]), at_most=ACCOUNT_CAP
        ),
        ranks=(late,),
        saving=Saving(
            step_ms, saved_ms, 0.5 * saved_ms, saved_ms, "profiler tables: the rank as fast as the median one"
        ),
        details=(spread,),
    )
