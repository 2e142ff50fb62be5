"""Which step is slow? Spikes, and where the extra time of a step went."""

from __future__ import annotations

from hermes_agent.model.display import PART_TITLES
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.places import step_list
from hermes_agent.questions.prose import blocks, paragraph
from hermes_agent.questions.question import Question
from tools.findings import Argument
from tools.views.coarse import step_series
from tools.views.host_calls import host_calls, most_grown, step_kernels
from tools.views.parts import PARTS
from tools.views.profile import Profile

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
