"""The lead of a run without a trace: the largest part of a step that records show, and the trace that would decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from tools.analyzers.support.figures import measured
from tools.errors import UsageError
from tools.findings import Check, Fact, Finding, Sentence
from tools.judgement.drift_lead import drift_lead
from tools.judgement.lead import EVERY_STEP, Candidate, Lead, Place, candidates_of
from tools.judgement.level_lead import level_lead
from tools.judgement.ranked_cause import RankedCause
from tools.judgement.thread_leads import thread_lead
from tools.judgement.unpriced_leads import OF_FAMILY
from tools.judgement.verdict import Judgement
from tools.knowledge.tables import table
from tools.knowledge.timer_names import fetches_batches
from tools.metrics.recorded.job_tables import step_timers
from tools.metrics.recorded.side_work import series_without
from tools.metrics.registry import measure
from tools.views.counters import counter_view
from tools.views.profile import Profile
from tools.views.steps.modes import steps_text
from tools.views.steps.series import P95_STEPS, RunSeries, longest_range, longest_steps

# Parts of a step that records hold, and what they are called in a trace.
OF_DATA = {"slow_data_reading", "slow_data_processing"}
PARTS: Mapping[str, str] = MappingProxyType({"waiting": "exposed_communication", "data_wait": "data_wait"})
SAID: Mapping[str, str] = MappingProxyType(
    {
        "waiting": "Every rank waits at least {0} of each {1} step for others or for transfers.",
        "data_wait": "Rank {n0} waits {0} of each {1} step for data.",
        "step": "A step takes {0} on average; what it consists of is not recorded.",
        "waited": "A step takes {0} on average, {1} of it waiting for data by the lines; other parts of it are not read"
        " from them.",
        "uneven_waited": "A step takes {0} on average, {1} at the median and {2} at the p95, and waits for data {3} of"
        " it by the lines: whether the work of the steps differs, or what else they wait for, is not recorded.",
        "uneven": "A step takes {0} on average, {1} at the median and {2} at the p95: whether the work of the"
        " steps differs, or what they wait for, is not recorded.",
        "uneven_lines": "A step takes {0} on average; %s {1}, the longest, while the median line gives {2}: whether the"
        " work of the steps differs, or what they wait for, is not recorded.",
        "uneven_lines_waited": "A step takes {0} on average, {3} of it waiting for data by the lines; %s {1}, the"
        " longest, while the median line gives {2}.",
        "uneven_lines_by_wait": "A step takes {0} on average, {3} of it waiting for data by the lines; %s {1}, the"
        " longest, {4} of it waiting for data, while the median line gives {2}.",
        "timed_data": "By the job's timers {0} of each {1} step goes to {n0}, the time for a batch of data.",
        "timed": "A step takes {0} on average, {1} of it in {n0} by the job's timers; what that consists of is not"
        " recorded.",
    }
)


def record_leads(
    profile: Profile, causes: Sequence[RankedCause], judged: Judgement, open_places: Sequence[RankedCause] = ()
) -> tuple[Lead, ...]:
    """The leads of an inconclusive verdict on records alone: its largest hypothesis or place without a cause, else its
    largest recorded part.

    Losses of the series that neither of them is are ``tools.judgement.series_losses``.
    """
    series = profile.series
    if series is None or judged.verdict != "inconclusive":
        return ()
    of_thread = thread_lead(profile, series, judged)
    known = [open_lead(profile, series, each) for each in open_places]
    known += [_hypothesis(profile, series, causes[0], judged)] if causes else []
    known.sort(key=lambda each: -each.impact_pct)
    first, *others = known or [_largest_part(profile, series, judged)]
    if of_thread is not None and _instead(of_thread, first, bool(known)):
        first, others = of_thread, []
    return (*_with_change(profile, series, first), *others)


def _with_change(profile: Profile, series: RunSeries, first: Lead) -> tuple[Lead, ...]:
    """The lead next to a change of level or growth, the larger first; the whole step comes last."""
    change = level_lead(profile, series) or drift_lead(profile, series)
    if change is None:
        return (first,)
    whole = first.place.part == "step" and first.place.steps == EVERY_STEP
    return (first, change) if not whole and first.impact_pct > change.impact_pct else (change, first)


def open_lead(profile: Profile, series: RunSeries, place: RankedCause, loss: str = "") -> Lead:
    """The place that a finding shows without its cause, with the causes that would look like it."""
    finding = place.finding
    candidates, decide_by = candidates_of(profile, finding.hints["open"], finding.ranks[0])
    steps = steps_text(finding.steps, series.numbers()) if finding.steps else EVERY_STEP
    where = Place(finding.hints["part"], finding.ranks, steps)
    return Lead(where, place.impact_ms, place.impact_pct, finding.claim, candidates, decide_by, loss=loss)


def _instead(of_thread: Lead, first: Lead, hypothesis: bool) -> bool:
    """Return whether the thread's lead takes the place of another: of the whole step, or of a smaller hypothesis.

    That a thread computes is no loss by itself, and takes the place of no hypothesis.
    """
    if not hypothesis:
        return first.place.part == "step"
    return of_thread.place.part != "compute" and of_thread.impact_pct > first.impact_pct


MOST_WITHOUT_STEPS = 3
MOSTLY_WAIT = 0.5  # of what the longest line takes more than the median one
LOADER_WARNINGS = ("few_loader_workers", "many_loader_workers")
WARNED_LIKELIHOOD = 0.4  # a judgement: the warning names what may be slow, nothing shows that it is


def leads_without_steps(findings: Sequence[Finding], judged: Judgement) -> tuple[Lead, ...]:
    """What was found where no steps are known, the surest first: its size is open (0), and so is the verdict."""
    why = "found in the samples or the output; what it costs a step is not known without step times"
    surest = sorted(findings, key=lambda each: -each.confidence)[:MOST_WITHOUT_STEPS]
    return tuple(_without_size(each, why, judged) for each in surest)


OF_HANGS = ("communication.flight_recorder", "communication.ras")


def leads_of_hang(checks: Sequence[Check], judged: Judgement) -> tuple[Lead, ...]:
    """The ranks that hold up collectives which do not end; the size is open (0): such a step has no length."""
    why = "records of the collectives show the rank, and not what it does"
    found = [finding for check in checks if check.name in OF_HANGS for finding in check.findings]
    return tuple(_without_size(each, why, judged) for each in found)


def _without_size(finding: Finding, why: str, judged: Judgement) -> Lead:
    candidate = Candidate(finding.cause, round(finding.confidence, 2), why, finding.mechanism)
    place = Place(OF_FAMILY.get(finding.family, "step"), finding.ranks, "steps not known")
    return Lead(place, 0.0, 0.0, finding.claim, (candidate,), judged.needs)


def _hypothesis(profile: Profile, series: RunSeries, cause: RankedCause, judged: Judgement) -> Lead:
    """The cause of low confidence, next to those that would look the same where its check names their kind of place."""
    finding = cause.finding
    steps = steps_text(finding.steps, series.numbers()) if finding.steps else EVERY_STEP
    why = "the largest of what the records show, but not well supported"
    candidate = Candidate(finding.cause, round(finding.confidence, 2), why)
    place = Place(OF_FAMILY.get(finding.family, "step"), finding.ranks, steps)
    if alike := finding.hints.get("alike"):
        candidates, decide_by = candidates_of(profile, alike, finding.ranks[0])
        return Lead(place, cause.impact_ms, cause.impact_pct, finding.claim, candidates, decide_by)
    return Lead(place, cause.impact_ms, cause.impact_pct, finding.claim, (candidate,), judged.needs)


def _largest_part(profile: Profile, series: RunSeries, judged: Judgement) -> Lead:
    """Waiting or data wait where it is noticeable, else the step as a whole, on the slowest rank."""
    step = measure(profile, "series_step_ms", statistic="mean")
    known = {part: facts for part in PARTS if (facts := _by_rank(profile, series, part))}
    # What every rank waits in collectives is no waiting for another rank; data may hold up one rank alone.
    least = {"waiting": min, "data_wait": max}
    sizes = {part: least[part](facts, key=lambda each: each.value) for part, facts in known.items()}
    part = max(sizes, key=lambda each: sizes[each].value, default="step")
    size = sizes.get(part, step)
    share_pct = 100.0 * size.value / series.mean_ms if series.mean_ms > 0.0 and part in PARTS else 0.0
    if share_pct < profile.thresholds["unexplained_part_pct"]:
        if (timed_data := _timed_data(profile, series, step)) is not None:
            return timed_data
        part, size, share_pct = "step", step, 100.0
    ranks = series.ranks if part == "waiting" else size.ranks
    claim = Sentence(SAID[part], (size, step), tuple(map(str, size.ranks))) if part in PARTS else _whole(profile, step)
    long = series.mean_ms > 1e3 * profile.thresholds["many_operators_step_s"]
    kind = PARTS.get(part) or ("unseen_uneven" if _uneven(profile) else "unseen_long" if long else "unseen")
    place = Place(PARTS.get(part, "step"), ranks, EVERY_STEP)
    timed = "data_wait" in known or bool(_stated_wait(profile, step))
    timed &= not (kind == "unseen_uneven" and _wait_of_longest(profile, step))
    return Lead(place, size.value, share_pct, claim, _candidates(profile, kind, timed), judged.needs)


def _timed_data(profile: Profile, series: RunSeries, step: Fact) -> Lead | None:
    """The largest of the job's own timers of a batch of data, where it is large and the lines state no wait for it."""
    if _stated_wait(profile, step):
        return None
    try:
        names = [name for name in sorted(step_timers(profile)) if fetches_batches(name)]
    except UsageError:
        return None
    shares = [(measure(profile, "timer_pct", name=name), name) for name in names]
    share, name = max(shares, key=lambda each: each[0].value, default=(None, ""))
    if share is None or share.value < profile.thresholds["unexplained_part_pct"]:
        return None
    candidates, decide_by = candidates_of(profile, "stated_data_wait", series.slowest_rank)
    claim = Sentence(SAID["timed_data"], (share, step), (name,))
    place = Place("data_wait", (), EVERY_STEP)
    return Lead(place, share.value / 100.0 * series.mean_ms, share.value, claim, candidates, decide_by)


def _uneven(profile: Profile) -> bool:
    """Whether steps differ by more than what they compute does."""
    most, median = (_spread(profile, each) for each in ("max" if _few_or_means(profile) else "p95", "median"))
    return most.value >= profile.thresholds["uneven_steps_ratio"] * median.value > 0.0


def _spread(profile: Profile, statistic: str) -> Fact:
    """A figure of the steps, of those without evaluations and saves where it is known which these are."""
    free = measured(profile, "side_work_free_ms", statistic=statistic)
    return measure(profile, "series_step_ms", statistic=statistic) if free is None else free


def _few_or_means(profile: Profile) -> bool:
    """Whether lines are too few for a p95, or none of single steps."""
    series = profile.series
    return series is not None and (bool(series.averaged) or len(series.slowest_ms) < P95_STEPS)


def _whole(profile: Profile, step: Fact) -> Sentence:
    """The step as a whole, with the largest of the timers that the job's output has of it."""
    try:
        shares = {name: measure(profile, "timer_pct", name=name) for name in sorted(step_timers(profile))}
    except UsageError:
        return _of_length(profile, step)
    largest = max(shares, key=lambda name: shares[name].value)
    return Sentence(SAID["timed"], (step, shares[largest]), (largest,))


GENERATES = " Steps generate text (line %d states its length): longer texts take longer, and may be why steps differ."


def _of_length(profile: Profile, step: Fact) -> Sentence:
    """The step of which only the length is known, with what makes its length differ where the output names it."""
    said, log = _length(profile, step), profile.run.job_log
    if log is None or log.generated is None or not _uneven(profile):
        return said
    return replace(said, template=said.template + GENERATES % log.generated.line)


def _length(profile: Profile, step: Fact) -> Sentence:
    """The step of which only the length is known, and how much that differs where it differs a lot."""
    waited = _stated_wait(profile, step)
    if not _uneven(profile):
        return Sentence(SAID["waited" if waited else "step"], (step, *waited))
    series = profile.series
    if series is not None and _few_or_means(profile):
        spread = (_spread(profile, each) for each in ("max", "median"))
        by_wait = _wait_of_longest(profile, step)
        said = SAID["uneven_lines_by_wait" if by_wait else "uneven_lines_waited" if waited else "uneven_lines"]
        shown = series_without(profile) or series
        said = said % longest_steps(shown) + _named_work(profile, shown)
        return Sentence(said, (step, *spread, *waited, *by_wait))
    spread = (_spread(profile, each) for each in ("median", "p95"))
    return Sentence(SAID["uneven_waited" if waited else "uneven"], (step, *spread, *waited))


NAMED_WORK = " The output names %s at step %d, one of these, which may be all that they take longer."


def _named_work(profile: Profile, series: RunSeries) -> str:
    """What the output says that it does at one of the longest steps, by its number: an evaluation or a save."""
    log, steps = profile.run.job_log, longest_range(series)
    if log is None or series.origin != "job_log" or len(steps) == 1:
        return ""
    works = (("an evaluation", log.evaluations), ("a save", log.saves))
    named = {work: [each.step for each in notes if each.step in steps] for work, notes in works}
    found = [work for work, at in named.items() if at]
    return NAMED_WORK % (" and ".join(found), named[found[0]][0]) if found else ""


def _stated_wait(profile: Profile, step: Fact) -> tuple[Fact, ...]:
    """The share of the step that its rank waits for data by the job's lines; () where they do not state it."""
    try:
        return (measure(profile, "logged_data_wait_pct", rank=step.ranks[0]),) if len(step.ranks) == 1 else ()
    except UsageError:
        return ()


def _wait_of_longest(profile: Profile, step: Fact) -> tuple[Fact, ...]:
    """What the longest line waits for data, where that is most of what it takes more than the median line; else ()."""
    if not _stated_wait(profile, step):
        return ()
    most, median = (_spread(profile, each) for each in ("max", "median"))
    wait = measured(profile, "logged_longest_wait_ms", rank=step.ranks[0])
    return () if wait is None or wait.value < MOSTLY_WAIT * (most.value - median.value) else (wait,)


def _by_rank(profile: Profile, series: RunSeries, part: str) -> list[Fact]:
    """The mean of the part on each rank; nothing where some rank's records do not hold it."""
    try:
        return [measure(profile, "series_part_ms", part=part, rank=rank, statistic="mean") for rank in series.ranks]
    except UsageError:
        return []


def _candidates(profile: Profile, kind: str, timed: bool) -> tuple[Candidate, ...]:
    """The causes that would look like this, less a wait for a core that the monitor would have recorded.

    ``timed``: the wait for data is known, and is not what makes steps long.
    """
    seen = {"cpu_contention"} if profile.host_records is not None else set()
    seen |= {"straggler"} if len(profile.rank_numbers) < 2 else set()
    seen |= OF_DATA if timed else set()
    seen |= {"compute_bound"} if _mostly_idle(profile) else set()
    warned = _warned_of(profile) if kind == "unseen" else ()
    seen |= {each.cause for each in warned}
    entries = [each for each in table("leads")[kind]["candidates"] if each["cause"] not in seen]
    return (*warned, *(Candidate(each["cause"], each["likelihood"], each["why"]) for each in entries))


def _warned_of(profile: Profile) -> tuple[Candidate, ...]:
    """The cause that a warning of the job's output speaks of."""
    log = profile.run.job_log
    kinds = set() if log is None else {each.kind for each in log.warnings}
    if kinds.isdisjoint(LOADER_WARNINGS):
        return ()
    return (Candidate("slow_data_processing", WARNED_LIKELIHOOD, "the output warns of the workers of its data loader"),)


def _mostly_idle(profile: Profile) -> bool:
    """Whether samples show every device without a kernel for most of the time."""
    view = counter_view(profile)
    known = (
        [each.table["device_busy_pct"].mean() for each in view.devices.values() if each.has("device_busy_pct")]
        if view
        else []
    )
    return bool(known) and max(known) < profile.thresholds["device_loaded_pct"]
