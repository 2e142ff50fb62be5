"""Steps: how long, which is slow, and where the time goes."""

from __future__ import annotations

from hermes_agent.model.display import PART_TITLES
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets, paragraph
from hermes_agent.questions.question import Question
from hermes_agent.questions.recording import no_such_rank, step_list
from tools.errors import UsageError
from tools.findings import Argument
from tools.metrics.recorded.series import run_series
from tools.views.coarse import step_series
from tools.views.host_calls import host_calls, most_grown, step_kernels
from tools.views.parts import PARTS
from tools.views.profile import NO_TRACE, Profile

COARSE_CHECKS = ("step_time.trend", "step_time.change_point", "step_time.periodicity")
QUEUED = "what was still in the device's queue after the last mark"
DRAINED = 1e-6  # a window longer than its marks by more than this share holds more than the step
DEVICE_PARTS = ("compute", "exposed_communication")
NOTICED_PCT = 1.0  # of the step; a smaller excess is not explained
CALL_SHARE = 0.25  # of what a step's part grew by; a call that grew by less does not explain it
FEW_STEPS = 3  # with fewer there is no usual step to compare with


def which_step(discussion: Discussion, question: Question) -> str:
    """The slowest step, how many are far over the usual one, and what else the coarse checks say."""
    profile = discussion.material.profile()
    known = [int(number) for number in profile.step_ms.index]
    if any(step not in known for step in question.steps):
        return f"This run has no such step; it has {step_list(known[0], known[-1])}."
    if question.steps:
        return blocks(_one_step(discussion, step) for step in question.steps)
    if len(known) < FEW_STEPS:
        fact = discussion.measure("step_time_ms", statistic="max")
        text = "Too few steps were recorded to compare them; the longest takes {0}. What it needs: ten steps or more."
        return discussion.say(text, fact)
    series = step_series(profile)
    slowest = int(series.numbers[series.ms.argmax()])
    spikes = series.fluctuating(profile.thresholds["fluctuation_pct"])
    lead = "" if len(spikes) else "No step stands out." if profile.series is None else "No traced step stands out."
    title = "the slowest" if profile.series is None else "the slowest traced one"
    told = paragraph([lead, _one_step(discussion, slowest, title)])
    return blocks([_unprofiled(discussion), told, _steadiness(discussion)])


def _unprofiled(discussion: Discussion) -> str:
    """The longest of the steps that no profiler touched, which cannot be looked into; empty where none is known."""
    if discussion.material.profile().series is None:
        return ""
    text = (
        "The longest unprofiled step takes {0}, where the median one takes {1}; only traced steps can be looked into."
    )
    longest, median = (discussion.measure("series_step_ms", statistic=name) for name in ("max", "median"))
    return discussion.say(text, longest, median)


def _one_step(discussion: Discussion, step: int, title: str = "") -> str:
    profile = discussion.material.profile()
    rank, marked_ms = _longest(profile, step)
    wall = discussion.measure("part_ms", part="wall", rank=rank, step=step)
    where = f" on rank {rank}" if len(profile.ranks) > 1 else ""
    name = f"Step {step} is {title}: it takes" if title else f"Step {step} takes"
    if len(profile.step_ms) < FEW_STEPS:
        return discussion.say(f"{name} {{0}}{where}.", wall)
    excess = discussion.measure("step_excess_ms", step=step)
    if wall.value > marked_ms * (1 + DRAINED):
        text = f"{name} {{0}} more than the usual step{where}; its recorded window of {{1}} also holds {QUEUED}."
        return discussion.say(text, excess, wall)
    if excess.value <= 0:
        return discussion.say(f"{name} {{0}}{where}, which is not more than usual.", wall)
    lead = discussion.say(f"{name} {{0}}{where}, which is {{1}} more than the usual step.", wall, excess)
    if 100.0 * excess.value < NOTICED_PCT * wall.value:
        return paragraph([lead, "That is no more than steps differ anyway."])
    return paragraph([lead, _part(discussion, step, rank)])


def _longest(profile: Profile, step: int) -> tuple[int, float]:
    """The rank on which a step took longest, and how long, from mark to mark."""
    times = {}
    for view in profile.ranks:
        series = step_series(profile, view.rank.rank)
        if step in series.numbers:
            times[view.rank.rank] = float(series.ms[series.numbers == step][0])
    return max(times.items(), key=lambda item: (item[1], -item[0]))


def _part(discussion: Discussion, step: int, rank: int) -> str:
    """The part of the step that exceeds the rank's usual one most."""
    table = discussion.material.profile().rank(rank).breakdown
    extra = {
        part: float(table.loc[table["number"] == step, f"{part}_ns"].iloc[0] - table[f"{part}_ns"].median())
        for part in PARTS
    }
    part = max(PARTS, key=lambda name: extra[name])
    if extra[part] <= 0:
        return ""
    fact = discussion.measure("step_part_excess_ms", part=part, step=step, rank=rank)
    text = f"What grew most is {PART_TITLES[part]}: {{0}} more than in this rank's usual step."
    if part == "data_wait":  # the part names its call already
        return discussion.say(text, fact)
    return paragraph([discussion.say(text, fact), _call(discussion, step, rank, part, fact.value)])


def _call(discussion: Discussion, step: int, rank: int, part: str, grown_ms: float) -> str:
    """The kernel or host call whose own time grew most, where that is a fair share of what the part grew by."""
    profile = discussion.material.profile()
    view = profile.rank(rank)
    place = "device" if part in DEVICE_PARTS and view.rank.has_device else "host"
    if place == "device":
        kernels = view.compute_kernels if part == "compute" else view.communication_kernels
        table = step_kernels(profile, rank)
        table = table[table["row"].isin(kernels)]
    else:
        table = host_calls(profile, rank)
    name = most_grown(view, table, step)
    if not name:
        return ""
    where: dict[str, Argument] = {"rank": rank, "step": step, "name": name, "place": place}
    excess = discussion.measure("step_name_excess_ms", **where)
    if excess.value < CALL_SHARE * grown_ms:
        return ""
    longest = discussion.measure("step_name_longest_ms", **where)
    what = "Of the kernels" if place == "device" else "Of the host's calls"
    text = f"{what} {{n0}} grew most: {{0}} more than usual, the longest single one takes {{1}}."
    return discussion.say(text, excess, longest, names=(name,))


def _steadiness(discussion: Discussion) -> str:
    """How steady the step time is, in figures, and the drift, jump or rhythm that the coarse checks saw."""
    facts = (discussion.measure("step_variation_pct"), discussion.measure("fluctuating_steps"))
    which = "step" if discussion.material.profile().series is None else "traced step"
    told = discussion.say(f"The {which} time varies by {{0}}; the steps far over the usual one number {{1}}.", *facts)
    seen = [
        sentence
        for check in discussion.diagnosis.checks
        if check.analyzer in COARSE_CHECKS and check.status == "found"
        for sentence in check.text
    ]
    return paragraph([told, *seen])


DURATIONS_FEW_STEPS = 3


def how_long(discussion: Discussion, question: Question) -> str:
    """Median, mean and longest step time, of the rank that was named or of the slowest rank.

    Of the steps that no profiler touched where records tell them, as in the diagnosis; the traced ones second.
    """
    if question.steps:
        return which_step(discussion, question)
    if refusal := no_such_rank(discussion, question):
        return refusal
    return blocks(_of(discussion, rank) for rank in (question.ranks or (None,)))


def _by_records(discussion: Discussion, rank: int | None) -> str:
    """As monitor records or step logs tell it, of steps that no profiler touched."""
    names = ("median", "mean", "max")
    median, mean, longest = (discussion.measure("series_step_ms", statistic=name, rank=rank) for name in names)
    several = len(run_series(discussion.material.profile()).ranks) > 1
    whose = f" of rank {rank}" if rank is not None else " on its slowest rank" if several else ""
    lead = f"By its records an unprofiled step{whose} takes"
    text = f"{lead} {{0}} as the median and {{1}} as the mean; the longest takes {{2}}."
    spread = discussion.measure("series_variation_pct", rank=rank)
    return paragraph(
        [discussion.say(text, median, mean, longest), discussion.say("The step time varies by {0}.", spread)]
    )


def _of(discussion: Discussion, rank: int | None) -> str:
    profile = discussion.material.profile()
    if not profile.traced:
        return _by_records(discussion, rank)
    if profile.series is not None and (rank is None or rank in profile.series.ranks):
        return paragraph([_by_records(discussion, rank), _traced(discussion, rank)])
    return _by_trace(discussion, profile, rank)


def _traced(discussion: Discussion, rank: int | None) -> str:
    """The steps that a profiler recorded, beside those that it did not touch."""
    where = {} if rank is None else {"rank": rank}
    facts = [discussion.measure("step_time_ms", statistic=name, **where) for name in ("median", "mean", "max")]
    return discussion.say("The traced steps take {0} as the median and {1} as the mean; the longest takes {2}.", *facts)


def _by_trace(discussion: Discussion, profile: Profile, rank: int | None) -> str:
    where = {} if rank is None else {"rank": rank}
    facts = {name: discussion.measure("step_time_ms", statistic=name, **where) for name in ("median", "mean", "max")}
    whose = f" of rank {rank}" if rank is not None else " on its slowest rank" if len(profile.ranks) > 1 else ""
    count = len(profile.step_ms if rank is None else profile.rank(rank).steps)
    if count < DURATIONS_FEW_STEPS:
        lead = discussion.say(f"A step{whose} takes {{0}}, as the mean of what was recorded.", facts["mean"])
        return paragraph([lead, "So few steps do not say how steady it is; record ten or more."])
    text = f"A step{whose} takes {{0}} as the median and {{1}} as the mean; the longest takes {{2}}."
    spread = discussion.measure("step_variation_pct", **where)
    return paragraph(
        [
            discussion.say(text, facts["median"], facts["mean"], facts["max"]),
            discussion.say("The step time varies by {0}.", spread),
        ]
    )


RECORDED_PARTS = {
    "data_wait": "waiting for data",
    "waiting": "waiting for other ranks, as far as the training marks it",
    "gc": "collecting garbage",
}
NOT_RECORDED = (
    "What the rest of the step goes into is not recorded. "
    "What it needs: a trace of a few steps, `hermes-dx monitor profile RUN_FOLDER`."
)


def break_down(discussion: Discussion, question: Question) -> str:
    """The parts of the step of each rank and step that was named, else of the mean over all."""
    if refusal := no_such_rank(discussion, question):
        return refusal
    if not discussion.material.profile().traced and not question.steps:
        return _parts_by_records(discussion, question)
    ranks: tuple[int | None, ...] = question.ranks or (None,)
    steps: tuple[int | None, ...] = question.steps or (None,)
    return blocks(_parts(discussion, rank, step) for rank in ranks for step in steps)


def _parts_by_records(discussion: Discussion, question: Question) -> str:
    """Where there is no trace: what the monitor saw of whole steps, on the ranks named or on the slowest."""
    ranks = question.ranks or (run_series(discussion.material.profile()).slowest_rank,)
    told = [each for each in (_recorded_parts(discussion, rank) for rank in ranks) if each]
    if not told:
        raise UsageError(NO_TRACE)
    return blocks([*told, NOT_RECORDED])


def _recorded_parts(discussion: Discussion, rank: int) -> str:
    """The parts of a rank's step that its records tell; empty where they tell none, as step logs do."""
    rows = []
    for part, title in RECORDED_PARTS.items():
        try:
            fact = discussion.measure("series_part_ms", part=part, rank=rank)
        except UsageError:
            continue
        if part == "data_wait" or fact.value > 0:
            rows.append(discussion.say(f"{title}: {{0}}", fact))
    if not rows:
        return ""
    wall = discussion.measure("series_step_ms", statistic="mean", rank=rank)
    lead = discussion.say(f"By its records a step of rank {rank} takes {{0}} as the mean, in it:", wall)
    return blocks([lead, bullets(rows)])


def _parts(discussion: Discussion, rank: int | None, step: int | None) -> str:
    if step is not None and not _exists(discussion, rank, step):
        known = sorted(discussion.material.profile().step_ms.index)
        return f"There is no such step; the run has {step_list(known[0], known[-1])}."
    arguments = {name: number for name, number in (("rank", rank), ("step", step)) if number is not None}
    wall = discussion.measure("part_ms", part="wall", **arguments)
    shares = {part: discussion.measure("part_pct", part=part, **arguments) for part in PARTS}
    rows = []
    for part in sorted(PARTS, key=lambda name: -shares[name].value):
        if shares[part].value > 0:
            amount = discussion.measure("part_ms", part=part, **arguments)
            rows.append(discussion.say(f"{PART_TITLES[part]}: {{0}}, {{1}}", amount, shares[part]))
    overlapped = discussion.measure("part_ms", part="overlapped_communication", **arguments)
    if overlapped.value > 0:
        rows.append(discussion.say("beside computation runs communication of {0}, which costs no time", overlapped))
    return blocks([discussion.say(f"{_scope(rank, step)} {{0}}:", wall), bullets(rows)])


def _exists(discussion: Discussion, rank: int | None, step: int) -> bool:
    table = discussion.material.profile().breakdown
    chosen = table if rank is None else table[table["rank"] == rank]
    return bool((chosen["number"] == step).any())


def _scope(rank: int | None, step: int | None) -> str:
    match rank, step:
        case None, None:
            return "A step takes, as the mean over steps and ranks,"
        case None, _:
            return f"Step {step} takes, as the mean over ranks,"
        case _, None:
            return f"A step of rank {rank} takes, as the mean over its steps,"
        case _:
            return f"Step {step} of rank {rank} takes"
