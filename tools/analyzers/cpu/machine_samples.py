"""Machines by sampled counters: who takes processor time from the training, and whether it waits for disks."""

from __future__ import annotations

from tools.analyzers.memory.host_reports import swapping
from tools.analyzers.support.answers import cannot_answer, clean, confidence, found, say, symptom
from tools.analyzers.support.figures import measured
from tools.analyzers.support.spec import check
from tools.findings import Check, Fact, Finding, Sentence, followed
from tools.metrics.registry import measure
from tools.views.counters import CounterView, counter_view
from tools.views.profile import Profile

NO_COST = "what it costs a step cannot be read from samples of a machine"
CPU_CAP, DISK_CAP = 0.6, 0.45  # samples do not say whose processes wait
MACHINE = ("cpu_busy_pct", "cpu_iowait_pct", "cpu_steal_pct", "pressure_cpu_some_pct", "pressure_io_full_pct")
PARTS = ("process_wait_pct", "process_cpu_pct")
QUEUE = "runnable_processes"
TRAINING = "python|pt_main_thread"  # names of processes that may be the training itself
MOST_NAMED = 2
WHOLE_PROCESSOR_PCT = 95.0
ONE_REPORT = "one report of a machine shows a mean since its start, or a moment"
SINCE_START = "This is one report; the first one of iostat, vmstat and top may be a mean since the machine was started."


def _level(profile: Profile, counter: str, statistic: str = "mean") -> Fact | None:
    return measured(profile, "machine_counter_pct", counter=counter, statistic=statistic)


def _view(profile: Profile) -> CounterView | None:
    view = counter_view(profile)
    if view is None or all(view.machine(counter, None).empty for counter in (*MACHINE, *PARTS, QUEUE)):
        return None
    return view


@check(
    *("cpu.machine_samples", "Processors by samples", "Does the machine have too little processor time?"),
    causes=("cpu_contention",),
    from_records="samples",
)
def processors(profile: Profile) -> Check | Finding | None:
    """Time that other virtual machines take, and processes that wait for a processor."""
    view = _view(profile)
    if view is None:
        return None
    if _one_report(view):
        needs = "`vmstat 1` or `pidstat -u 1` while it trains"
        apart = [] if _level(profile, "cpu_iowait_pct") else [say(SINCE_START)]  # else it is said of the disks
        return cannot_answer(ONE_REPORT, needs, *_figures(profile), *_others(profile), *_training(profile), *apart)
    steal, waiting = _level(profile, "cpu_steal_pct"), _level(profile, "pressure_cpu_some_pct")
    own = _waiting_process(profile)
    if steal is not None and steal.value >= profile.thresholds["stolen_cpu_pct"]:
        claim = say("Other virtual machines take {0} of the processor time.", steal)
        return found(
            _contention(
                profile, claim, confidence((steal.value, profile.thresholds["stolen_cpu_pct"]), at_most=CPU_CAP)
            )
        )
    if own is not None and own.value >= profile.thresholds["cpu_pressure_pct"]:
        claim = say("A Python process waits for a processor for {0} of the time.", own)
        for other in _others(profile):
            claim = followed(claim, other)
        return found(
            _contention(
                profile, claim, confidence((own.value, profile.thresholds["cpu_pressure_pct"]), at_most=CPU_CAP)
            )
        )
    if waiting is not None and waiting.value >= profile.thresholds["cpu_pressure_pct"]:
        claim = say("Some process waits for a processor for {0} of the time.", waiting)
        return found(
            _contention(
                profile, claim, confidence((waiting.value, profile.thresholds["cpu_pressure_pct"]), at_most=DISK_CAP)
            )
        )
    queue = _queue(profile)
    if isinstance(queue, Finding):
        return found(queue)
    support = [*_figures(profile), *queue, *_others(profile), *_training(profile)]
    if steal is None and waiting is None and own is None:
        return cannot_answer(
            "the samples do not show who waits for a processor", "`pidstat -u 1` while it trains", *support
        )
    return clean(*support)


def _contention(profile: Profile, claim: Sentence, sure: float) -> Finding:
    return Finding(
        cause="cpu_contention",
        claim=claim,
        confidence=sure,
        impact_ms=0.0,
        impact_method=NO_COST,
        details=tuple(_figures(profile)),
    )


def _waiting_process(profile: Profile) -> Fact | None:
    """The longest wait of a Python process, by the mean of its readings."""
    view = counter_view(profile)
    own = None if view is None else view.machine("process_wait_pct", None)
    if own is None or own.empty:
        return None
    python = own[own["part"].str.contains(TRAINING, case=False, regex=True).to_numpy(dtype=bool)]
    if python.empty:
        return None
    part = str(python.groupby("part")["value"].mean().idxmax())
    return measure(profile, "machine_counter_pct", counter="process_wait_pct", statistic="mean", part=part)


def _queue(profile: Profile) -> Finding | list[Sentence]:
    """More processes that run or wait than the machine has processors; their number alone where these are not known."""
    queue = measured(profile, "machine_counter_processes", counter=QUEUE)
    cores = measured(profile, "machine_processors")
    if queue is None:
        return []
    if cores is None:
        return [
            say(
                "At the median {0} run or wait for a processor; how many of these there are is not sampled.",
                queue,
            )
        ]
    claim = say("At the median {0} run or wait for a processor; the machine has {1}.", queue, cores)
    ratio = profile.thresholds["runnable_per_core"]
    if queue.value < ratio * cores.value:
        return [claim]
    for other in _others(profile):
        claim = followed(claim, other)
    return _contention(profile, claim, confidence((queue.value, ratio * cores.value), at_most=CPU_CAP))


def _others(profile: Profile) -> list[Sentence]:
    """The processes that are no Python and take most processor time, where it is that of a whole processor or more."""
    view = counter_view(profile)
    own = None if view is None else view.machine("process_cpu_pct", None)
    if own is None or own.empty:
        return []
    other = own[~own["part"].str.contains(TRAINING, case=False, regex=True).to_numpy(dtype=bool)]
    means = other.groupby("part")["value"].mean().sort_values(ascending=False)
    parts = [str(part) for part in means[means >= profile.thresholds["process_cpu_rise_pct"]].index[:MOST_NAMED]]
    facts = [
        measure(profile, "machine_counter_pct", counter="process_cpu_pct", statistic="mean", part=part)
        for part in parts
    ]
    text = "Process {n0} takes {0} of one processor."
    return [say(text, fact, names=(part,)) for part, fact in zip(parts, facts, strict=True)]


def _training(profile: Profile) -> list[Sentence]:
    """The Python process that takes most processor time, where that is a whole processor or nearly."""
    view = counter_view(profile)
    own = None if view is None else view.machine("process_cpu_pct", None)
    if own is None or own.empty:
        return []
    python = own[own["part"].str.contains(TRAINING, case=False, regex=True).to_numpy(dtype=bool)]
    means = python.groupby("part")["value"].mean()
    if means.empty or float(means.max()) < WHOLE_PROCESSOR_PCT:
        return []
    part = str(means.idxmax())
    fact = measure(profile, "machine_counter_pct", counter="process_cpu_pct", statistic="mean", part=part)
    text = (
        "Process {n0} takes {0} of one processor: one of its threads works all the time, or several for a part of it."
    )
    return [say(text, fact, names=(part,))]


def _figures(profile: Profile) -> list[Sentence]:
    """Processor time in use, and that lost to disks and other virtual machines."""
    known = {
        words: fact for name, words in OF_PROCESSORS.items() if (fact := _level(profile, f"cpu_{name}_pct")) is not None
    }
    if not known:
        return []
    listed = ", ".join(words.format(f"{{{at}}}") for at, words in enumerate(known))
    return [say(f"Of the processor time {listed}.", *known.values())]


OF_PROCESSORS = {
    "busy": "{} is in use",
    "iowait": "{} is idle while a disk works",
    "steal": "{} goes to other virtual machines",
}


@check(
    *("io.machine_samples", "Disks by samples", "Does the machine wait for its disks?"),
    causes=("slow_data_reading",),
    from_records="samples",
)
def disks(profile: Profile) -> Check | Finding | None:
    """Processes that all wait for a disk, and disks that always have requests."""
    view = counter_view(profile)
    if view is None:
        return None
    stalled, iowait = _level(profile, "pressure_io_full_pct"), _level(profile, "cpu_iowait_pct")
    busy, once = _busiest_disk(profile, view), _one_report(view)
    if stalled is None and iowait is None and busy is None:
        return None
    if stalled is not None and stalled.value >= profile.thresholds["disk_stall_pct"]:
        claim = say("All processes that could run wait for disks for {0} of the time.", stalled)
        return found(
            _reading(
                profile,
                claim,
                confidence((stalled.value, profile.thresholds["disk_stall_pct"]), at_most=DISK_CAP),
                busy,
            )
        )
    if (
        busy is not None
        and not once
        and busy[0].value >= profile.thresholds["disk_busy_pct"]
        and iowait is not None
        and iowait.value >= profile.thresholds["disk_wait_pct"]
    ):
        claim = say(
            "Processors are idle for {0} of the time while a disk works, which has requests for {1}.", iowait, busy[0]
        )
        return found(
            _reading(
                profile, claim, confidence((iowait.value, profile.thresholds["disk_wait_pct"]), at_most=DISK_CAP), busy
            )
        )
    said = [say("Processors are idle for {0} of the time while a disk works.", iowait)] if iowait is not None else []
    said += (
        [say("All processes that could run wait for disks for {0} of the time.", stalled)]
        if stalled is not None
        else []
    )
    said += [_at_work(profile, view)] if busy is not None else []
    said += [say(SINCE_START)] if once else []
    limits = profile.thresholds
    waits = iowait is not None and iowait.value >= limits["disk_wait_pct"]
    full = busy is not None and busy[0].value >= limits["disk_busy_pct"]
    return symptom(*said) if waits or full else clean(*said)


SHOWN_DISKS = 4
OF_DISK = (("a request", "ms", "disk_wait_ms"), ("of reads", "mib_per_s", "disk_read_bytes_per_s"))


def _at_work(profile: Profile, view: CounterView) -> Sentence:
    """The disks that always have requests, or the one that most often has: how long a request takes, and the reads."""
    share = view.machine("disk_busy_pct", None).groupby("part")["value"].mean().sort_values(ascending=False)
    full = share[share >= profile.thresholds["disk_busy_pct"]]
    shown = [str(part) for part in (full.index if len(full) else share.index[:1])]
    facts: list[Fact] = []
    said = []
    for place, part in enumerate(shown[:SHOWN_DISKS]):
        own = [measure(profile, "machine_counter_pct", counter="disk_busy_pct", part=part)]
        text = f"{{n{place}}} has requests for {{{len(facts)}}} of the time"
        parts = []
        for words, unit, counter in OF_DISK:
            if (fact := measured(profile, f"machine_counter_{unit}", counter=counter, part=part)) is not None:
                parts.append(f"{{{len(facts) + len(own)}}} {words}")
                own.append(fact)
        facts += own
        said.append(f"{text} ({', '.join(parts)})" if parts else text)
    more = f"; and {len(shown) - SHOWN_DISKS} more alike" if len(shown) > SHOWN_DISKS else ""
    return say(f"Disk {'; '.join(said)}{more}.", *facts, names=tuple(shown[:SHOWN_DISKS]))


def _one_report(view: CounterView) -> bool:
    """Whether all that is known of the processors and disks may be a mean since the machine was started."""
    counted = view.records.samples["counter"].isin([*MACHINE, "disk_busy_pct"]).to_numpy(dtype=bool)
    files = view.records.samples.loc[counted, ["file", "tick"]].drop_duplicates()
    stated = [view.records.sources[int(file)].since_start for file in files["file"]]
    return bool(stated) and all(stated) and files["file"].is_unique


def _reading(profile: Profile, claim: Sentence, sure: float, busy: tuple[Fact, Fact | None] | None) -> Finding:
    slow = busy is not None and busy[1] is not None
    return Finding(
        cause="slow_data_reading",
        claim=claim,
        confidence=sure,
        impact_ms=0.0,
        impact_method=NO_COST,
        details=(say("A request of the busiest disk takes {0}.", busy[1]),) if slow and busy and busy[1] else (),
        against=tuple(swapping(profile)),
    )


def _busiest_disk(profile: Profile, view: CounterView) -> tuple[Fact, Fact | None] | None:
    """The share of the time in which the busiest disk has requests, and the time of a request."""
    own = view.machine("disk_busy_pct", None)
    if own.empty:
        return None
    part = str(own.groupby("part")["value"].mean().idxmax())
    busy = measure(profile, "machine_counter_pct", counter="disk_busy_pct", part=part)
    return busy, measured(profile, "machine_counter_ms", counter="disk_wait_ms", part=part)
