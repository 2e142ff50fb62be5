"""Is one rank's host slower than the others' at the same operators, so that its device waits?"""

from __future__ import annotations

from tools.analyzers.overlap.idle import waiting_ms
from tools.analyzers.support.answers import cannot_answer, clean, confidence, measure_all, say, worst_of
from tools.analyzers.support.changes import shortened
from tools.analyzers.support.recorded import measured
from tools.analyzers.support.spec import check
from tools.findings import Check, Finding
from tools.metrics.host.operator_speed import launching_rows, operator_speed
from tools.metrics.registry import measure
from tools.views.profile import Profile

FEW = "So few steps are compared that one moment may have done it."
AGREEING = 0.6  # share of the compared time in operators that are slower, below which content rather than speed differs
HELD_UP_PCT = 50.0  # of the excess in single calls: then the host was taken away, else all of its calls are slow
HELD_UP_CAP, EVEN_CAP = 0.7, 0.45  # who had the core is not in a trace; even slowness may be a lower clock
ENOUGH_STEPS = 3  # in fewer one moment may have done it, and then it is no more than a hypothesis
OPEN = (
    "What else ran on that rank's cores is not in the trace: another process, too many threads of its own, a quota and"
    " a second Python thread look alike."
)
NO_WAITING = "a rank's host takes longer for the same operators, but it hardly waits for a core by the records"
NEEDED = "the traces with Python frames (with_stack=True), and the frequencies of the cores"
EVEN = "All calls are slower alike, as on a processor with a lower clock."


@check(
    *("cpu.host_speed", "Host speed across ranks", "Is one rank's host slower at the same operators?"),
    causes=("cpu_contention",),
)
def host_speed(profile: Profile) -> Check | Finding:
    """A rank whose operators take longer on the host than the same ones on the other ranks, while its device waits."""
    speeds = operator_speed(profile)
    if not speeds:
        return cannot_answer(
            "no two traced ranks with a device call the same operators equally often",
            "the traces of several ranks with ProfilerActivity.CPU and CUDA",
        )
    limit = profile.thresholds["host_slowdown_pct"]
    slow = {
        rank: measure(profile, "launching_operator_slowdown_pct", rank=rank).value
        for rank, speed in speeds.items()
        if speed.slower_share >= AGREEING
        and speed.steps_slower >= 1.0
        and speed.steadiness >= profile.thresholds["straggler_steadiness"]
    }
    worst = worst_of({rank: max(speed.excess_ms, 0.0) for rank, speed in speeds.items()})
    excess = measure(profile, "launching_operator_excess_ms", rank=worst)
    if slow.get(worst, 0.0) < limit or exposed_pct(profile, worst) < profile.thresholds["noted_pct"]:
        text = "At the same operators the slowest rank's host takes {0} per step longer than the others'."
        return clean(say(text, excess))
    waited = measured(profile, "counter_share_pct", rank=worst, field="training_run_delay_us")
    if waited is None:
        return _finding(profile, worst)
    if waited.value < profile.thresholds["run_delay_pct"]:
        return cannot_answer(NO_WAITING, NEEDED)
    text = "A host takes {0} per step longer for the same operators; by the records it waits for a core {1}."
    return clean(say(text, excess, waited))


def exposed_pct(profile: Profile, rank: int) -> float:
    """Share of the step that the rank's slower host can cost: no more than its excess, nor than the device waits."""
    view = profile.rank(rank)
    step_ms = float((view.steps["end_ns"] - view.steps["start_ns"]).mean()) / 1e6
    return 100.0 * min(waiting_ms(profile, rank), operator_speed(profile)[rank].excess_ms) / step_ms


def _finding(profile: Profile, rank: int) -> Finding:
    view, speed, limits = profile.rank(rank), operator_speed(profile)[rank], profile.thresholds
    metrics = ("launching_operator_excess_ms", "launching_operator_ms", "launching_operator_slowdown_pct")
    excess, own, slowdown = measure_all(profile, *metrics, rank=rank)
    held_up = measure(profile, "held_up_pct", rank=rank)
    uneven, few = held_up.value >= HELD_UP_PCT, speed.steps < ENOUGH_STEPS
    factor = min(1.0, speed.expected_ns / max(speed.own_ns, 1.0))
    return Finding(
        cause="cpu_contention",
        claim=say(
            f"The host of rank {rank} takes {{0}} per step for its operators, {{1}} longer than the other ranks for the"
            " same ones, and its device waits.",
            *(own, excess),
        ),
        confidence=confidence(
            (exposed_pct(profile, rank), limits["noted_pct"]),
            (slowdown.value, limits["host_slowdown_pct"]),
            at_most=HELD_UP_CAP if uneven and not few else EVEN_CAP,
        ),
        ranks=(rank,),
        steps=excess.steps,
        change=shortened(view, launching_rows(view), factor),
        details=(say("{0} of that is in single slow calls: the fastest calls are as fast as elsewhere.", held_up),),
        against=tuple(say(text) for text in (OPEN, *((FEW,) if few else ()), *(() if uneven else (EVEN,)))),
        disproved_by="the monitor's records show that the training thread hardly waits for a core",
        signals=("host operators slow on one node only",),
        symptom_of=("garbage_collection", "operator_compilation"),
    )
