"""A rank that is late to its collectives, and what it did meanwhile."""

from __future__ import annotations

from tools.analyzers.communication.limit import untraced_straggler
from tools.analyzers.communication.uneven_work import unequal
from tools.analyzers.support.answers import cannot_answer, clean, confidence, say
from tools.analyzers.support.excess import EXPLAINED_BY, HOST_CAUSES, PART_NAMES, Excess, balance, excesses, removal
from tools.analyzers.support.figures import measure_all, saving
from tools.analyzers.support.spec import check
from tools.findings import Check, Fact, Finding, Sentence
from tools.metrics.communication.rank_work import as_fast, busiest_rank
from tools.metrics.host.pauses import covering
from tools.metrics.rank_speed import even_share
from tools.metrics.recorded.own_time import known_lateness
from tools.metrics.registry import measure
from tools.views.communication.arrivals import arrivals, blame, caused_share, steadiness
from tools.views.communication.collectives import collectives, unmatched
from tools.views.profile import Profile, memoized

CAP_BY_STEPS = {1: 0.45, 2: 0.7, 3: 0.8}  # in one step chance or the profiler's own start may make a rank late
CLOCK_MARGIN = 5.0  # times the spread of common ends: what clocks that far apart can still resolve
UNSURE_CAP = 0.45  # where it is late by something that was not recorded: a lead rather than a cause
HELD_UP = 0.5  # a rank of whose slowness the fastest calls show less than this part
TAKEN = "Its operators take longer only now and then, as when something else has its core."
PAUSING = "Its host pauses between operators, and no Python frames show what it does then."
EXPLAINED = 0.5  # the rank's own excess explains its lateness when it is at least this share of it
SKEW_STEPS = 8  # fewer steps cannot show that the late rank changes as a rule
SKEW_SHARE = 0.2  # of the steps that the second most awaited rank leads; less is an exception
NEEDS = "records of all ranks with `monitor.watch_model(model)` or `with monitor.waiting():`, which show their own time"
SURE = 0.85  # who is late is measured; why is not
TAKEN_OFF = "data wait, collections and waiting for a core"


def late_ranks(profile: Profile) -> tuple[int, ...]:
    """The one rank that is waited for much more than any other, or several that hardly wait; () within chance."""
    table = blame(profile).sort_values("share", ascending=False, kind="stable")
    lead, shares = profile.thresholds["straggler_lead"], table["share"].tolist()
    together = table[table["waited_ns"] * lead <= table["waited_ns"].max()]
    late: tuple[int, ...] = ()
    if shares[0] > 0 and shares[0] >= lead * shares[1]:
        late = (int(table.index[0]),)
    elif len(together) <= len(table) // 2:
        late = tuple(sorted(int(rank) for rank in together.index))
    return late if late and steadiness(profile, late) >= profile.thresholds["straggler_steadiness"] else ()


def _wait_pct(profile: Profile) -> float:
    """Share of the step that the most patient rank waits for others."""
    waiting_ms = max(measure(profile, "exposed_wait_ms", rank=rank).value for rank in profile.run.rank_numbers)
    return 100.0 * waiting_ms / profile.mean_step_ms


def _waiting_is_noted(profile: Profile) -> bool:
    limits, ratio = profile.thresholds, measure(profile, "collective_wait_pct")
    return _wait_pct(profile) >= limits["noted_pct"] and ratio.value >= limits["collective_wait_pct"]


@memoized
def slowest_by_waiting(profile: Profile) -> int | None:
    """The one traced rank that the others wait for noticeably and steadily; None where there is none."""
    if len(profile.ranks) < 2 or arrivals(profile).empty or not _waiting_is_noted(profile):
        return None
    late = late_ranks(profile)
    return late[0] if len(late) == 1 else None


def straggler(profile: Profile, late: tuple[int, ...]) -> Finding:
    """The finding for ranks that are late together (usually one)."""
    named = f"rank {late[0]}" if len(late) == 1 else f"ranks {', '.join(map(str, late[:-1]))} and {late[-1]}"
    claim = _claim(profile, late, named.capitalize())
    waiting, limits = claim.facts[0], profile.thresholds
    caused = caused_share(profile, late)
    own = {rank: excesses(profile, rank) for rank in late}
    explained = all(sum(each.fact.value for each in own[rank]) >= EXPLAINED * waiting.value for rank in late)
    parts = [each for rank in late for each in own[rank]]
    apart = {rank: tuple(each for each in own[rank] if not _of_its_work(profile, rank, each)) for rank in late}
    change = tuple(scale for rank in late for scale in removal(profile, rank, apart[rank])) if explained else ()
    of_work = apart != own  # counted where the work is: a rank with more of it cannot be as fast as the others
    cap = CAP_BY_STEPS.get(len(profile.step_ms), 0.95) * caused
    unsure = {text for rank in late if (text := _unsure(profile, rank, own[rank]))}
    return Finding(
        cause="straggler",
        claim=claim,
        confidence=confidence(
            (100.0 * waiting.value / profile.mean_step_ms, limits["cause_share_pct"]),
            (measure(profile, "collective_wait_pct").value, limits["collective_wait_pct"]),
            (steadiness(profile, late), limits["straggler_steadiness"]),
            at_most=min(cap, UNSURE_CAP) if unsure else cap,
        ),
        ranks=late,
        steps=waiting.steps,
        change=change,
        impact_ms=None if change else 0.0 if of_work else waiting.value,
        impact_method="" if change else "exposed waiting for the late rank, mean per step",
        details=_details(profile, late, own),
        against=(*(say(text) for text in sorted(unsure)), *_against(profile, late, own, explained)),
        symptom_of=tuple(dict.fromkeys(cause for each in parts for cause in EXPLAINED_BY[each.part])),
        hints={
            **({"open": "late_pause" if PAUSING in unsure else "late_rank"} if unsure else {}),
            "rank": str(late[0]),
            "part": max(parts, key=lambda each: each.fact.value).part if parts else "",
        },
    )


def _of_its_work(profile: Profile, rank: int, excess: Excess) -> bool:
    """Whether the rank computes longer because it has more work, which is a cause of its own, and for nothing else."""
    return excess.part == "compute" and busiest_rank(profile) == rank and unequal(profile) and as_fast(profile, rank)


def _unsure(profile: Profile, rank: int, own: tuple[Excess, ...]) -> str:
    """Why what makes the rank late is not known although it is seen where: a sentence, "" where nothing is open."""
    if not own or profile.run.has_device:
        return ""
    if own[0].part == "compute" and even_share(profile, rank) < HELD_UP:
        return TAKEN
    return PAUSING if own[0].part == "host" and not covering(profile, rank).framed else ""


def left_out(profile: Profile) -> tuple[Sentence, ...]:
    """That some collectives have no counterpart, when there are such."""
    text = "{0} collectives have no counterpart on another traced rank and are left out."
    return (say(text, measure(profile, "unmatched_collectives")),) if unmatched(profile) else ()


def _claim(profile: Profile, late: tuple[int, ...], named: str) -> Sentence:
    if len(late) > 1:
        patient = int(blame(profile)["waited_ns"].sort_values(kind="stable").index[-1])
        waiting = measure(profile, "exposed_wait_ms", rank=patient)
        return say(f"{named} are stragglers: rank {patient} waits {{0}} per step for them.", waiting)
    facts = measure(profile, "exposed_wait_ms", last_rank=late[0]), measure(profile, "wait_share_pct", rank=late[0])
    text = f"{named} is the straggler: the other ranks wait {{0}} per step for it, {{1}} of all their waiting."
    if profile.run.screening is not None:
        text = (
            f"{named} is the straggler: the ranks read in full wait {{0}} per step for it on average; it causes {{1}} "
            "of the waiting of all ranks."
        )
    return say(text, *facts)


def _details(profile: Profile, late: tuple[int, ...], own: dict[int, tuple[Excess, ...]]) -> tuple[Sentence, ...]:
    sentences = [say("R_wait over all shared collectives is {0}.", measure(profile, "wait_ratio_pct"))]
    mean = measure(profile, "collective_ms")
    for rank in late:
        text = f"Rank {rank} spends {{0}} per step in collectives (mean: {{1}}); in {{2}} most waiting is for it."
        inside, led = measure(profile, "collective_ms", rank=rank), measure(profile, "steps_waited_for", rank=rank)
        sentences.append(say(text, inside, mean, led))
        sentences += [
            say(f"rank {rank} spends {{0}} per step more than the others in {PART_NAMES[each.part]}.", each.fact)
            for each in own[rank]
        ]
        lone = measure(profile, "lone_arrivals", rank=rank)
        if lone.value:
            sentences.append(say(f"rank {rank} arrives apart from all other ranks in {{0}} collectives.", lone))
    return tuple(sentences)


def _against(
    profile: Profile, late: tuple[int, ...], own: dict[int, tuple[Excess, ...]], explained: bool
) -> tuple[Sentence, ...]:
    against = []
    if len(profile.step_ms) == 1:
        against.append(say("Only one step was recorded, so this may be chance."))
    if not explained:
        text = "What the rank does longer inside the recorded steps explains less than half of its lateness."
        nothing = "Nothing takes longer on that rank inside the recorded steps."
        against.append(say(text if any(own.values()) else nothing))
        resolved_ns = CLOCK_MARGIN * float(arrivals(profile)["end_spread_ns"].median())
        lags = {rank: measure(profile, "step_start_lag_ms", rank=rank) for rank in late}
        older = "rank {rank} began the recorded steps {{0}} after the others: its delay is older."
        against += [say(older.format(rank=rank), lag) for rank, lag in lags.items() if lag.value * 1e6 > resolved_ns]
    if profile.run.traced_count < (profile.run.layout.world_size or 0):
        against.append(say("Not all ranks of the job were traced; a rank that was not traced may be later still."))
    return (*against, *left_out(profile))


@check(
    *("communication.arrival_skew", "Straggler", "Do collectives wait for a straggler?"),
    causes=("straggler", "data_skew"),
)
def arrival_skew(profile: Profile) -> Check | Finding | None:
    """A straggler or data skew, by who is waited for in each step; else a late rank that was not traced."""
    if collectives(profile).empty:
        return None
    answer = _between_traced(profile)
    return answer if isinstance(answer, Finding) else untraced_straggler(profile) or answer


def _between_traced(profile: Profile) -> Check | Finding:
    if len(profile.ranks) < 2:
        return cannot_answer(
            "there is one rank's trace only: waiting for a straggler and slow transfer look alike",
            "the traces of the other ranks for the same steps",
        )
    if arrivals(profile).empty:
        return cannot_answer(
            "no collective could be matched between the traced ranks",
            "traces of ranks of the same job and group that cover the same whole steps",
        )
    ratio = measure(profile, "collective_wait_pct")
    if not _waiting_is_noted(profile):
        return clean(*_support(profile, ratio))
    late = late_ranks(profile)
    if late:
        return straggler(profile, late)
    led = sorted(blame(profile)["steps"].tolist(), reverse=True)
    if sum(led) >= SKEW_STEPS and led[1] >= SKEW_SHARE * sum(led):
        waiting, counts, change = measure(profile, "exposed_wait_ms"), blame(profile)["steps"], balance(profile)
        leading = tuple(int(rank) for rank in counts.index[counts > 0])
        text = "The ranks wait {0} per step for each other, and the rank that arrives last changes from step to step."
        return Finding(
            cause="data_skew",
            claim=say(text, waiting),
            confidence=confidence(
                (_wait_pct(profile), profile.thresholds["cause_share_pct"]),
                (measure(profile, "collective_wait_pct").value, profile.thresholds["collective_wait_pct"]),
                (len(leading), 2.0),
                at_most=0.7,
            ),
            ranks=leading,
            steps=waiting.steps,
            change=change,
            impact_ms=None if change else waiting.value,
            impact_method="" if change else "exposed waiting, mean per step and rank",
            details=tuple(
                say(f"rank {rank} is waited for most in {{0}}.", measure(profile, "steps_waited_for", rank=rank))
                for rank in leading
            ),
            symptom_of=HOST_CAUSES,
        )
    reason = "the ranks wait for each other, but not steadily for the same one in the few steps recorded"
    return cannot_answer(reason, "a longer recording, twenty steps or more, of all ranks", *_support(profile, ratio))


def _support(profile: Profile, ratio: Fact) -> tuple[Sentence, ...]:
    text = "Of the time inside {0} collectives that several ranks share, {1} is waiting."
    return (
        say("A rank only waits for a later one for {0} per step.", measure(profile, "exposed_wait_ms")),
        say(text, measure(profile, "matched_collectives"), ratio),
        *left_out(profile),
    )


@check(
    *("communication.slowest_rank", "Straggler by records", "Is one rank slower for no recorded reason?"),
    causes=("straggler",),
    from_records="host",
)
def recorded_straggler(profile: Profile) -> Check | Finding | None:
    """The slowest rank by its own time, beyond data wait, collections and waiting for a core; asked without a trace."""
    if profile.traced:
        return None
    series, late = profile.series, known_lateness(profile)
    if series is None or late is None:
        return cannot_answer("the records do not show the own time of several ranks", NEEDS)
    cost, excess = measure_all(profile, "unnamed_excess_ms", "unnamed_excess_pct", rank=late.rank)
    limits = profile.thresholds
    if excess.value < limits["host_slowdown_pct"] or 100.0 * cost.value < limits["noted_pct"] * series.mean_ms:
        text = (
            f"Beyond {TAKEN_OFF} rank {late.rank} takes {{0}} longer than the others, which makes steps {{1}} longer."
        )
        return clean(say(text, excess, cost))
    text = f"Beyond {TAKEN_OFF} rank {late.rank} takes {{0}} longer than the others, which wait {{1}} per step."
    return Finding(
        cause="straggler",
        claim=say(text, excess, cost),
        confidence=confidence(
            (excess.value, limits["host_slowdown_pct"]),
            (late.steadiness, limits["straggler_steadiness"]),
            at_most=SURE,
        ),
        ranks=(late.rank,),
        saving=saving(profile, cost.value, 0.5, 1.1, "own time of the slowest rank beyond the others'"),
        hints={"rank": str(late.rank)},
    )
