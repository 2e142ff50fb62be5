"""Do the tables in a job's output show where its time goes: its timers, torch.profiler, DeepSpeed's communication?"""

from __future__ import annotations

from tools.analyzers.support.answers import clean, say, symptom
from tools.analyzers.support.figures import measured
from tools.analyzers.support.spec import check
from tools.errors import UsageError
from tools.findings import Check, Fact
from tools.knowledge.timer_names import fetches_batches
from tools.metrics.recorded.job_tables import COMMUNICATION, MICRO_STEP, ON_DEVICE, operators, step_timers
from tools.metrics.registry import measure
from tools.run.recorded.job_log import JobLog
from tools.views.profile import Profile

SHOWN = 4
MICRO = "By DeepSpeed's timers forward, backward and step of a micro-step take {} together on average: {}. "
MICRO_STEPS = {
    None: "How many micro-steps a step has is not stated.",
    1: "A step has one micro-step by the gradient accumulation that the output states.",
}
STEPLESS = "No line states the time of a step."
NESTED = "Timers may contain one another."
OPTIMIZER = " What DeepSpeed calls step is that of the optimizer, with its offloaded part."


@check(
    *("step_time.timers", "Timers of the job", "Where does a step go by the job's own timers?"),
    family="parallel",
    from_records="output",
)
def timers(profile: Profile) -> Check | None:
    """The largest timers of a step, the wait for data, and how far ranks differ where timers show several."""
    if profile.run.job_log is None or profile.traced:
        return None
    try:
        names = sorted(step_timers(profile))
    except UsageError:
        return _printed(profile)
    noted = profile.thresholds["noted_pct"]
    measured_shares = [(measure(profile, "timer_pct", name=name), name) for name in names]
    shares = sorted(measured_shares, key=lambda each: -each[0].value)
    largest = [each for each in shares if each[0].value >= noted][:SHOWN]
    if not largest:
        return None
    text = f"By the job's timers a step spends {_listed(len(largest))}. {NESTED}"
    said = [say(text, *_facts(largest), names=_names(largest))]
    data = [each for each in shares if fetches_batches(each[1]) and each[0].value >= noted]
    if data:
        said.append(say("Of that, {0} in {n0} is time for a batch of data.", data[0][0], names=(data[0][1],)))
    spread = [(measure(profile, "timer_spread_pct", name=name), name) for name in names]
    apart = max(spread, key=lambda each: each[0].value)
    if apart[0].value >= noted:
        said.append(say("Ranks differ most in {n0}: by {0} of a step.", apart[0], names=(apart[1],)))
    return symptom(*said) if len(said) > 1 else clean(*said)


def _printed(profile: Profile) -> Check | None:
    """The largest timers of steps that are too few for a series."""
    log = profile.run.job_log
    if log is None or profile.series is not None:
        return None
    if log.steps.empty:
        return _lone(profile, log)
    known = [(measured(profile, "printed_timer_pct", name=name), name) for name in sorted(set(log.timers["name"]))]
    shares = [(fact, name) for fact, name in known if fact is not None]
    largest = sorted(shares, key=lambda each: -each[0].value)[:SHOWN]
    if not largest:
        return None
    step = measure(profile, "logged_step_ms", statistic="mean")
    text = f"By the job's timers a printed step of {{{len(largest)}}} spends {_listed(len(largest))}. {NESTED}"
    text += OPTIMIZER if "DeepSpeed timers" in log.grammars else ""
    return clean(say(text, *_facts(largest), step, names=_names(largest)))


def _lone(profile: Profile, log: JobLog) -> Check | None:
    """The largest timers where no line states the time of a step."""
    micro = measured(profile, "micro_step_ms")
    rows = log.timers[log.timers["name"].isin(MICRO_STEP)] if micro is not None else log.timers
    timed = [(measure(profile, "lone_timer_ms", name=name), name) for name in sorted(set(rows["name"]))]
    largest = sorted(timed, key=lambda each: -each[0].value)[:SHOWN]
    if not largest:
        return None
    listed, facts, names = _listed(len(largest)), _facts(largest), _names(largest)
    if micro is not None:
        count = log.whole("gradient_accumulation_steps")
        many = (
            MICRO_STEPS.get(count)
            or f"A step has {count} micro-steps by the gradient accumulation that the output states."
        )
        text = MICRO.format(f"{{{len(largest)}}}", listed) + many
        return clean(say(text, *facts, micro, names=names))
    return clean(
        say(f"By the job's timers the largest parts are on average: {listed}. {NESTED} {STEPLESS}", *facts, names=names)
    )


@check(
    "computation.output_operators",
    "Operators by torch.profiler's table",
    "Which operators take the time by torch.profiler's table?",
    from_records="output",
)
def operator_table(profile: Profile) -> Check | None:
    """The totals below the table and its largest rows."""
    log = profile.run.job_log
    if log is None or profile.traced:
        return None
    try:
        rows = operators(log)
    except UsageError:
        return None
    host, device = (measured(profile, "profiled_total_ms", where=where) for where in ("host", "device"))
    assert host is not None
    totals = say("In torch.profiler's table operators take {0} on the host.", host)
    if device is not None:
        totals = say("In torch.profiler's table operators take {0} on the host and {1} on the device.", host, device)
    names = list(dict.fromkeys(rows["action"]))[:SHOWN]
    where = "device" if ON_DEVICE in set(rows["table"]) else "host"
    shares = [(measured(profile, "profiled_operator_pct", name=name), name) for name in names]
    known = [(share, name) for share, name in shares if share is not None]
    largest = [each for each in known if each[0].value >= profile.thresholds["noted_pct"]]
    if not known:  # the line with their total is missing
        own = [(measure(profile, "profiled_operator_ms", name=name), name) for name in names]
        text = f"Most time of the {where}: {_listed(len(own))}."
        return clean(totals, say(text, *_facts(own), names=_names(own)))
    if not largest:
        return clean(totals)
    return clean(totals, say(f"Of the {where}'s, {_listed(len(largest))}.", *_facts(largest), names=_names(largest)))


@check(
    "communication.output_operations",
    "Collectives by DeepSpeed's log",
    "How long do collectives take by DeepSpeed's communication log?",
    from_records="output",
)
def operations(profile: Profile) -> Check | None:
    """Operations of DeepSpeed's communication log, which waits for each before the next."""
    log = profile.run.job_log
    if log is None or not (log.actions["table"] == COMMUNICATION).any():
        return None
    rows = log.actions[log.actions["table"] == COMMUNICATION].sort_values("total_ms", ascending=False, kind="stable")
    whole = measure(profile, "logged_collectives_ms")
    names = list(dict.fromkeys(rows["action"]))[:SHOWN]
    largest = [(measure(profile, "logged_collectives_ms", name=name), name) for name in names]
    return clean(
        say("DeepSpeed's communication log counts {0} in collectives, each waited for.", whole),
        say(f"Of that, {_listed(len(largest))}.", *_facts(largest), names=_names(largest)),
    )


def _listed(count: int) -> str:
    return ", ".join(f"{{{at}}} in {{n{at}}}" for at in range(count))


def _facts(shares: list[tuple[Fact, str]]) -> tuple[Fact, ...]:
    return tuple(fact for fact, _ in shares)


def _names(shares: list[tuple[Fact, str]]) -> tuple[str, ...]:
    return tuple(name for _, name in shares)
