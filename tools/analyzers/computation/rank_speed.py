"""Is one rank slower than the others at the same work: kernels, operators on the host, or launching?"""

from __future__ import annotations

import numpy as np

from tools.analyzers.communication.arrival import slowest_by_waiting
from tools.analyzers.cpu.contention import contention
from tools.analyzers.overlap.idle import waiting_ms
from tools.analyzers.support.answers import cannot_answer, clean, confidence, found, say, worst_of
from tools.analyzers.support.changes import device_ranks, host_shortened, shortened
from tools.analyzers.support.figures import measure_all, measure_ranks, measured
from tools.analyzers.support.spec import Need, check
from tools.findings import Check, Finding
from tools.intervals import length
from tools.metrics.rank_speed import HOST_SPEED_COLUMNS as SPEED_COLUMNS
from tools.metrics.rank_speed import device_speed, host_speed, launching_rows, operator_speed
from tools.metrics.registry import measure
from tools.views.device.roofline import group_rows
from tools.views.host.held_up import held_up
from tools.views.profile import Profile
from tools.whatif.change import Change

AGREEING = 0.6  # share of the compared time that is slower, below which content rather than speed differs
SURE = 1.5  # times the limit: in a few steps one of two equal ranks may happen to be slower
FEW = "So few steps are compared that one moment may have done it."
HELD_UP_PCT = 50.0  # of the excess in single calls: then the host was taken away, else all of its calls are slow
HELD_UP_CAP, EVEN_CAP = 0.7, 0.45  # who had the core is not in a trace; even slowness may be a lower clock
ALONE = 5.0  # times what any other rank is held up: ranks that share their cores hold each other up
NO_WAIT = "the monitor's records show that its training thread neither waits for a core nor is throttled"
HALTED = "By the records its thread waits for no core: the machine halts it, or computes slower now and then."
STOPPED = (
    "A trace does not show why: another process on its core, a CPU quota, or a machine that stops it now and then."
)
ENOUGH_STEPS = 3  # in fewer one moment may have done it, and then it is no more than a hypothesis
NO_WAITING = "a rank's host takes longer for the same operators, but it hardly waits for a core by the records"
NEEDED = "the traces with Python frames (with_stack=True), and the frequencies of the cores"
EVEN = "All calls are slower alike, as on a processor with a lower clock."


@check(
    *("computation.slow_device", "Device speed across ranks", "Does one rank's device run slower than the others?"),
    causes=("slow_device", "cpu_contention"),
    needs=(Need.RANKS,),
)
def slow_device(profile: Profile) -> Check | Finding:
    """A rank whose kernels take longer than the same kernels elsewhere."""
    if not profile.run.has_device:
        return _on_hosts(profile)
    table = device_speed(profile)
    if table.empty:
        return cannot_answer(
            "no kernel ran often enough on two ranks to be compared", "several steps of ranks that run the same model"
        )
    views = [profile.rank(rank).rank for rank in device_ranks(profile)]
    if len({view.devices[0].name for view in views if view.devices}) > 1:
        return cannot_answer("the ranks run on different device models", "ranks on equal devices")
    limit = 1.0 + profile.thresholds["device_slowdown_pct"] / 100
    slow = table[(table["ratio"] >= limit) & (table["slower_share"] >= AGREEING)]
    if slow.empty:
        worst = int(table["rank"].to_numpy()[int(table["ratio"].to_numpy().argmax())])
        fact = measure(profile, "device_slowdown_pct", rank=worst)
        none = "No rank's kernels take longer than the median rank's; those of the slowest differ by {0}."
        longer = "The slowest rank's kernels take {0} longer than the median rank's."
        return clean(say(longer if fact.value >= 0 else none, fact))
    rows = zip(slow["rank"], slow["ratio"], slow["slower_share"], strict=True)
    return found(*(_finding(profile, *row) for row in rows))


def _finding(profile: Profile, rank: int, ratio: float, slower_share: float) -> Finding:
    fact = measure(profile, "device_slowdown_pct", rank=rank)
    return Finding(
        cause="slow_device",
        claim=say(f"The kernels of rank {rank} take {{0}} longer than the same kernels on the median rank.", fact),
        confidence=confidence((fact.value, profile.thresholds["device_slowdown_pct"]), (slower_share, AGREEING)),
        ranks=(rank,),
        change=shortened(profile.rank(rank), group_rows(profile, rank, "computing"), 1.0 / ratio),
        against=(say("Clocks and temperatures are not in the trace; data-dependent kernels differ by content."),),
    )


def _on_hosts(profile: Profile) -> Check | Finding:
    """A rank whose operators take longer than the same operators elsewhere, step after step, or is held up alone."""
    table = host_speed(profile)
    if table.empty:
        return cannot_answer("the ranks share no operators of equal names and shapes", "ranks that run the same model")
    place = int(table["ratio"].to_numpy().argmax())
    worst, _, share, steps, slowed = (table[name].to_numpy()[place].item() for name in SPEED_COLUMNS)
    fact, limit = measure(profile, "host_slowdown_pct", rank=worst), profile.thresholds["host_slowdown_pct"]
    if fact.value < limit or share < AGREEING or steps < 1.0:
        if (alone := _held_up_alone(profile)) is not None:
            return alone
        none = (
            "No rank's operators take longer than the same ones on the other ranks; those of the slowest differ by {0}."
        )
        longer = "The slowest rank's operators take {0} longer than the same ones on the other ranks."
        return clean(say(longer if fact.value >= 0 else none, fact))
    text = f"In every recorded step the operators of rank {worst} take {{0}} longer than on the other ranks."
    return Finding(
        cause="slow_device",
        claim=say(text, fact),
        confidence=confidence((fact.value, SURE * limit), (share, AGREEING), at_most=0.8),
        ranks=(worst,),
        change=_as_fast_as_others(profile, worst, min(1.0, 1.0 / slowed)),
        against=(say("What else ran on that rank's cores is not in the trace."),),
        symptom_of=("cpu_contention", "garbage_collection"),
    )


def _held_up_alone(profile: Profile) -> Finding | None:
    """The rank that the others wait for, where single calls of it are held up step after step and theirs are not."""
    rank, recorded = slowest_by_waiting(profile), contention.once(profile)
    if rank is None or (recorded is not None and recorded.status == "found"):
        return None
    limits, table = profile.thresholds, host_speed(profile).set_index("rank")
    lost = measure_ranks(profile, profile.run.rank_numbers, "delayed_calls_pct")
    others = max(fact.value for other, fact in lost.items() if other != rank)
    steps, view = profile.rank(rank).steps["number"], profile.rank(rank)
    struck = np.unique(view.step_of(held_up(profile, rank)["row"].to_numpy(np.int64)))
    often = len(struck) / max(len(steps), 1)
    if (
        len(steps) < ENOUGH_STEPS
        or often < AGREEING
        or lost[rank].value < max(limits["cause_share_pct"], ALONE * others)
    ):
        return None
    count, slowed = measure(profile, "delayed_calls_count", rank=rank), float(table["slowed"].loc[rank])
    text = (
        f"Rank {rank}, for which the others wait, is held up alone: {{0}} of a step take {{1}} of it longer than such"
        " calls usually do, which those of the other ranks do not."
    )
    running = recorded is not None and recorded.status == "clean"  # by the records it waits for no core
    return Finding(
        cause="slow_device" if running else "cpu_contention",
        claim=say(text, count, lost[rank]),
        confidence=confidence((lost[rank].value, limits["cause_share_pct"]), (often, AGREEING), at_most=HELD_UP_CAP),
        ranks=(rank,),
        steps=tuple(int(step) for step in struck),
        change=_as_fast_as_others(profile, rank, min(1.0, 1.0 / slowed)),
        against=(say(HALTED if running else STOPPED),),
        disproved_by="the same process on another machine is held up as well" if running else NO_WAIT,
        signals=() if running else ("run-queue pressure", "involuntary context switches"),
    )


def _as_fast_as_others(profile: Profile, rank: int, left: float) -> Change:
    """Operators keep ``left``, and the program between them too, but no less than it takes on the other ranks."""
    spent_ns = {view.rank.rank: float(length(view.parts.host)) for view in profile.ranks}
    usual_ns = float(np.median([each for other, each in spent_ns.items() if other != rank]))
    return host_shortened(profile.rank(rank), left, min(1.0, max(left, usual_ns / max(spent_ns[rank], 1.0))))


@check(
    *("cpu.host_speed", "Host speed across ranks", "Is one rank's host slower at the same operators?"),
    causes=("cpu_contention",),
)
def launching_speed(profile: Profile) -> Check | Finding:
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
        return _slow_host(profile, worst)
    if waited.value < profile.thresholds["run_delay_pct"]:
        return cannot_answer(NO_WAITING, NEEDED)
    text = "A host takes {0} per step longer for the same operators; by the records it waits for a core {1}."
    return clean(say(text, excess, waited))


def exposed_pct(profile: Profile, rank: int) -> float:
    """Share of the step that the rank's slower host can cost: no more than its excess, nor than the device waits."""
    view = profile.rank(rank)
    step_ms = float((view.steps["end_ns"] - view.steps["start_ns"]).mean()) / 1e6
    return 100.0 * min(waiting_ms(profile, rank), operator_speed(profile)[rank].excess_ms) / step_ms


def _slow_host(profile: Profile, rank: int) -> Finding:
    view, speed, limits = profile.rank(rank), operator_speed(profile)[rank], profile.thresholds
    metrics = ("launching_operator_excess_ms", "launching_operator_ms", "launching_operator_slowdown_pct")
    excess, own, slowdown = measure_all(profile, *metrics, rank=rank)
    held_up = measure(profile, "held_up_pct", rank=rank)
    uneven, few = held_up.value >= HELD_UP_PCT, speed.steps < ENOUGH_STEPS
    factor = min(1.0, speed.expected_ns / max(speed.own_ns, 1.0))
    text = (
        f"The host of rank {rank} takes {{0}} per step for its operators, {{1}} longer than others; its device waits."
    )
    return Finding(
        cause="cpu_contention",
        claim=say(text, own, excess),
        confidence=confidence(
            (exposed_pct(profile, rank), limits["noted_pct"]),
            (slowdown.value, limits["host_slowdown_pct"]),
            at_most=HELD_UP_CAP if uneven and not few else EVEN_CAP,
        ),
        ranks=(rank,),
        change=shortened(view, launching_rows(view), factor),
        details=(say("{0} of that is in single slow calls: the fastest calls are as fast as elsewhere.", held_up),),
        against=tuple(say(text) for text in (*((FEW,) if few else ()), *(() if uneven else (EVEN,)))),
        symptom_of=("garbage_collection", "operator_compilation"),
    )
