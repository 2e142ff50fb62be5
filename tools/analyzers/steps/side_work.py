"""What do evaluations and saves that the job's output names cost its steps?"""

from __future__ import annotations

from dataclasses import replace

from tools.analyzers.support.answers import clean, confidence, found, say
from tools.analyzers.support.figures import measure_all, measured, saving
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding, Sentence
from tools.metrics.recorded.side_work import WORKS, Work
from tools.metrics.registry import measure
from tools.views.profile import Profile
from tools.views.steps.shape import PERIOD_STEPS

CAP = 0.85  # the lines say what is done; that nothing else happens at the same steps, they do not
WANTED = "Evaluation is wanted work; what can change is how often it runs and on how many batches."
NOT_ALONE = "Whatever else is done at these step lines, such as starting the data loader again, is in their time."
DONE = {"evaluation": "evaluates the model", "save": "saves its state"}
DONE_BOTH = "evaluates the model and saves its state"
UNDIVIDED = "How much of it the evaluation takes and how much the save is not recorded: either alone may be nearly all."
UNDIVIDED_CAP = 0.45  # a hypothesis: one of two works that the lines name
CAUSE = {"evaluation": "evaluation_stall", "save": "checkpoint_stall"}
HELD = "At {0} the output says that it %s: %s takes {1} longer, which adds {2} to the mean step"
METRICS = ("side_work_lines", "side_work_each_ms", "side_work_cost_ms", "side_work_pct")


@check(
    *("step_time.side_work", "Evaluations and saves", "What do evaluations and saves cost by the job's output?"),
    family="storage",
    causes=("evaluation_stall", "checkpoint_stall"),
    mechanisms=("synchronous_save",),
    from_records="output",
)
def side_work(profile: Profile) -> Check | None:
    """Step lines that hold such work against the others; both kinds of it each with its own cost."""
    if profile.traced:
        return None
    if measured(profile, "evaluations_apart_pct") is not None:
        return _apart(profile)
    works = works_named(profile)
    if not works or (len(works) == 1 and _at_a_rhythm(profile, works[0])):
        return None
    shares = {work: measure(profile, "side_work_pct", work=work) for work in works}
    large = [work for work in works if shares[work].value >= profile.thresholds["cause_share_pct"]]
    said = [_said(profile, work) for work in works if work not in large]
    if said and not large:
        said.append(say("Without them a step takes {0}.", measure(profile, "side_work_free_ms")))
    return replace(
        clean(*said),
        status="found" if large else "clean",
        findings=tuple(_finding(profile, work) for work in large),
    )


def _apart(profile: Profile) -> Check:
    """Evaluations that the time of a step does not hold, by the times that lines state of them."""
    count, whole, share = measure_all(profile, "evaluations_apart", "evaluations_apart_s", "evaluations_apart_pct")
    claim = say(
        "Next to the steps {0} take {1} together, {2} of the time of steps and evaluations.", count, whole, share
    )
    if share.value < profile.thresholds["cause_share_pct"]:
        return clean(claim)
    finding = Finding(
        cause="evaluation_stall",
        claim=claim,
        confidence=confidence((share.value, profile.thresholds["noted_pct"]), at_most=CAP),
        impact_method="evaluations are not part of the step time, so the step would not be shorter, but the run",
        against=(say(WANTED),),
        disproved_by="the run takes as long with evaluation turned off",
        signals=("evaluation lines in the log",),
    )
    return found(finding)


def _at_a_rhythm(profile: Profile, work: Work) -> bool:
    """Whether the check of periodic stalls answers for this work."""
    if profile.series is None or profile.series.unseen(PERIOD_STEPS):
        return False
    rank = profile.series.slowest_rank
    return measured(profile, f"logged_{work}_steps", rank=rank) is not None


def works_named(profile: Profile) -> tuple[Work, ...]:
    """The kinds of work at steps that stand out, by the job's output."""
    return tuple(work for work in WORKS if measured(profile, "side_work_lines", work=work) is not None)


def _said(profile: Profile, work: Work) -> Sentence:
    lines, each, cost, share = measure_all(profile, *METRICS, work=work)
    done = DONE_BOTH if _undivided(profile, work) else DONE[work]
    which = "each" if lines.value > 1 else "it"
    return say(f"{HELD % (done, which)} ({{3}} of it).", lines, each, cost, share)


def _undivided(profile: Profile, work: Work) -> bool:
    """Whether every one of these step lines holds the other work as well, so that the cost of neither is known."""
    both = measured(profile, "both_works_lines") if work == "evaluation" else None
    return both is not None and both.value >= measure(profile, "side_work_lines", work=work).value


def _finding(profile: Profile, work: Work) -> Finding:
    lines, _, cost, share = measure_all(profile, *METRICS, work=work)
    both = measured(profile, "both_works_lines") if work == "evaluation" else None
    undivided = _undivided(profile, work)
    return Finding(
        cause=CAUSE[work],
        mechanism="synchronous_save" if work == "save" else None,
        claim=_said(profile, work),
        confidence=confidence(
            (share.value, profile.thresholds["noted_pct"]), at_most=UNDIVIDED_CAP if undivided else CAP
        ),
        ranks=cost.ranks,
        steps=lines.steps,
        saving=replace(
            saving(
                profile,
                cost.value,
                0.0 if undivided else 0.3,
                1.0,
                f"step lines that hold {work} against those without",
            ),
            bound_ms=cost.value,
        ),
        details=(
            say("Without evaluations and saves a step takes {0}.", measure(profile, "side_work_free_ms")),
            *(() if both is None or undivided else (say("At {0} of them it saves its state as well.", both),)),
        ),
        against=(
            *((say(UNDIVIDED),) if undivided else ()),
            *((say(WANTED),) if work == "evaluation" else ()),
            say(NOT_ALONE),
        ),
        disproved_by="these steps stay long with evaluations and saves turned off",
        signals=(
            "evaluation lines in the log" if work == "evaluation" else "periodic long steps at the save interval",
        ),
    )
