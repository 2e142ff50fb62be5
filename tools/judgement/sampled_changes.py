"""What samples show next to a lead of longer steps: readings that change with them are its first candidates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import floor

import numpy as np

from tools.analyzers.computation.sampled_clocks import NOT_ALIGNED
from tools.analyzers.registry import check_of
from tools.analyzers.support.figures import measured
from tools.findings import Fact, Sentence, followed
from tools.judgement.lead import Candidate, Lead
from tools.judgement.level_lead import AT_LEVELS
from tools.run.recorded.counters import COUNTERS
from tools.views.counters import CounterView, counter_view
from tools.views.profile import Profile
from tools.views.steps.sampled_levels import in_steps, timed_rows

SEEN_LIKELIHOOD = 0.5  # a judgement: of all candidates that change with the steps; that they do is no proof
FEWEST = 3  # readings of either kind of step
ON_ITS_SIDE = 0.8  # of the readings of either kind must be on their side of the middle
MOST_SAID = 3
LEVELS, SINGLE = ("longer", "shorter"), ("long_steps", "other_steps")
UNIT = {"%": "pct", "ms": "ms", "/s": "per_s", "bytes/s": "mib_per_s", "processes": "processes"}


@dataclass(frozen=True)
class Change:
    """A counter of a machine that may change with the steps: by how much at least, the cause, and words."""

    counter: str
    least: str  # the threshold, in the unit of the counter
    cause: str
    why: str
    of_parts: bool = False


CHANGES = (
    Change("cpu_steal_pct", "stolen_cpu_pct", "cpu_contention", "other virtual machines take more processor time"),
    Change("pressure_cpu_some_pct", "cpu_pressure_pct", "cpu_contention", "more processes wait for a processor"),
    Change("runnable_processes", "runnable_rise", "cpu_contention", "more processes want a processor"),
    Change("process_cpu_pct", "process_cpu_rise_pct", "cpu_contention", "another process takes processors", True),
    Change("pressure_io_full_pct", "disk_stall_pct", "slow_data_reading", "processes wait for disks"),
    Change("pressure_io_some_pct", "cpu_pressure_pct", "slow_data_reading", "some processes wait for disks"),
    Change("cpu_iowait_pct", "disk_wait_pct", "slow_data_reading", "processors are idle while a disk works"),
    Change("disk_busy_pct", "disk_rise_pct", "slow_data_reading", "a disk is busier", True),
    Change("pressure_memory_some_pct", "memory_stall_pct", "memory_pressure", "processes wait for memory"),
)


def with_samples(profile: Profile, lead: Lead) -> Lead:
    """The lead of longer or of long steps with what samples show to change with them, and these causes first."""
    during = LEVELS if lead.loss.startswith("longer steps") or lead.loss == AT_LEVELS else SINGLE
    of_steps = lead.place.part in ("step", "host") and not lead.place.between
    if counter_view(profile) is None or not of_steps:
        return lead
    seen = [*_clocks(profile, during), *_machines(profile, during)][:MOST_SAID]
    if not seen:
        return lead
    claim = lead.claim
    for _, sentence in seen:
        claim = followed(claim, sentence)
    return replace(lead, claim=claim, candidates=_first([each for each, _ in seen], lead.candidates))


def _clocks(profile: Profile, during: tuple[str, str]) -> Iterator[tuple[Candidate, Sentence]]:
    """A device with a lowered clock that costs nothing known, next to steps that change their level."""
    check = check_of(profile, "computation.clocks")
    for finding in () if check is None or during != LEVELS else check.findings:
        if finding.impact_method == NOT_ALIGNED:
            why = "samples show its lowered clock, and not when"
            candidate = Candidate(finding.cause, 1.0, why, finding.mechanism)
            yield candidate, finding.claim


def _machines(profile: Profile, during: tuple[str, str]) -> Iterator[tuple[Candidate, Sentence]]:
    """Counters of machines that are higher in these steps than in the others, by most of the readings of either."""
    view, known = counter_view(profile), set[str]()
    if view is None or timed_rows(profile) is None:
        return
    for change in CHANGES:
        part = _part(profile, view, change, during)
        if change.cause in known or part is None:
            continue
        pair = _pair(profile, change.counter, part, during)
        if pair is None or pair[0].value - pair[1].value < profile.thresholds[change.least]:
            continue
        if not _on_their_sides(profile, view, change.counter, part, during, (pair[0].value + pair[1].value) / 2.0):
            continue
        known.add(change.cause)
        steps = "these steps" if during == LEVELS else "long steps"
        of = " of {n0}" if part else ""
        text = f"In {steps} the samples show {COUNTERS[change.counter].label}{of}: {{0}} instead of {{1}}."
        why = f"in these steps {change.why}, by the samples"
        yield Candidate(change.cause, 1.0, why), Sentence(text, pair, (part,) if part else ())


def _part(profile: Profile, view: CounterView, change: Change, during: tuple[str, str]) -> str | None:
    """The part whose counter rises most, "" of a whole machine; None where no reading is of these steps."""
    table = view.machine(change.counter, None if change.of_parts else "")
    if table.empty:
        return None
    if not change.of_parts:
        return ""
    means = []
    for each in during:
        own = table[in_steps(profile, view, table, each)]
        means.append(own.groupby("part")["value"].mean())
    rise = means[0].sub(means[1], fill_value=0.0).dropna()
    return None if rise.empty else str(rise.idxmax())


def _pair(profile: Profile, counter: str, part: str, during: tuple[str, str]) -> tuple[Fact, Fact] | None:
    metric = f"machine_counter_{UNIT[COUNTERS[counter].unit]}"
    given = {"counter": counter, "statistic": "median"} | ({"part": part} if part else {})
    longer, others = (measured(profile, metric, **given, during=each) for each in during)
    return None if longer is None or others is None else (longer, others)


def _on_their_sides(
    profile: Profile, view: CounterView, counter: str, part: str, during: tuple[str, str], middle: float
) -> bool:
    table = view.machine(counter, part)
    high, low = (table.loc[in_steps(profile, view, table, each), "value"].to_numpy(np.float64) for each in during)
    if min(len(high), len(low)) < FEWEST:
        return False
    return bool((high > middle).mean() >= ON_ITS_SIDE and (low < middle).mean() >= ON_ITS_SIDE)


def _first(seen: list[Candidate], others: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """The candidates that samples show before the others, which share what is left."""
    causes = {each.cause for each in seen}
    left = [each for each in others if each.cause not in causes]
    most = max([SEEN_LIKELIHOOD / len(seen), *(each.likelihood for each in left)])
    share = floor(100.0 * min(most, 1.0 / len(seen))) / 100.0
    rest, taken = sum(each.likelihood for each in left) or 1.0, share * len(seen)
    scale = min(1.0, (1.0 - taken) / rest)
    first = [replace(each, likelihood=share) for each in seen]
    return (*first, *(replace(each, likelihood=floor(100.0 * scale * each.likelihood) / 100.0) for each in left))
