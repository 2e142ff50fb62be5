"""Answers about steps: how long, which is slow, and where the time goes."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from hermes_agent.model.display import PART_TITLES, family_title
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets, capital, milliseconds, paragraph, span, table
from hermes_agent.questions.reading.question import Question, wording
from hermes_agent.questions.tool_context import called
from tools.agent_tools.steps import StepRow
from tools.analyzers.steps.output_warnings import MOST_FEW, few_lines
from tools.errors import UsageError
from tools.findings import Argument
from tools.metrics.recorded.series import rank_stalls, run_series
from tools.views.parts import PARTS
from tools.views.profile import NO_TRACE
from tools.views.steps.coarse import step_series
from tools.views.steps.series import RunSeries
from tools.views.work import host_calls, most_grown, step_kernels
from tools.whatif.critical_path import FAMILIES

TIMERS = "step_time.timers"
COARSE_CHECKS = ("step_time.trend", "step_time.change_point", "step_time.periodicity")
RECORDED_PARTS = ("data_wait", "waiting", "gc")
DRAINED = 1e-6  # a window longer than its marks by more than this share holds more than the step
DEVICE_PARTS = ("compute", "exposed_communication")
RECORDED_LISTED = 5
FASTEST = re.compile(r"\b(fastest|shortest|quickest|min(imum|imal)?)\b")
SLOWEST = re.compile(r"\b(slowest|longest|max(imum|imal)?)\b")
WHAT_SLOW = re.compile(r"^what (is|was|are) (so )?slow\b")
UNPROFILED = re.compile(r"\b(without|w o|no|outside of) (a |the |any )?profil\w*|\bunprofiled\b")
MOST_ROWS = 500  # of one page of a tool
FEW_STEPS = 3  # with fewer there is no usual step to compare with
IN_THREE = (
    "{{{0}:statistic=median}} as the median and {{{0}:statistic=mean}} as the mean; "
    "the longest takes {{{0}:statistic=max}}."
)
USUAL_STEP = "{series_step_ms:statistic=median} is the median"
TRACED, RECORDED = (IN_THREE.format(metric) for metric in ("step_time_ms", "series_step_ms"))


def how_long(discussion: Discussion, question: Question) -> str:
    """Median, mean and longest step time of a rank or the slowest one, of unprofiled steps first."""
    if question.steps:
        return which_step(discussion, question)
    if stated := _stated(discussion):
        return stated
    unprofiled = UNPROFILED.search(question.words) and discussion.profile().series is None
    if unprofiled and not question.ranks:
        logged = discussion.measured("logged_step_ms") is not None
        said = discussion.say(wording("logged_steps")) if logged else wording("traced_only")
        return blocks([said, _duration(discussion, None)])
    return blocks(_duration(discussion, rank) for rank in (question.ranks or (None,)))


def _stated(discussion: Discussion) -> str:
    """The step time of a run without a series, as its records state it as a whole or in a single line; else empty."""
    profile = discussion.profile()
    if profile.traced or profile.series is not None:
        return ""
    if discussion.measured("stated_mean_step_ms") is not None:
        text = (
            "A step takes {stated_mean_step_ms} on average over the whole training, with evaluations and saves, if it"
        )
        return discussion.say(f"{text} was not resumed; single steps are not recorded.")
    log = profile.run.job_log
    if log is not None and 1 < log.steps["wall_ms"].notna().sum() <= MOST_FEW:
        few = few_lines(profile, log)
        return discussion.say(few.template, *few.facts)
    if discussion.measured("logged_step_ms") is not None:
        return discussion.say("The output states {logged_step_ms}; so few lines do not show how steady the steps are.")
    return ""


def longest_first(discussion: Discussion, question: Question) -> str:
    """The longest recorded steps where it is asked what is slow and no trace and no cause says it; else empty."""
    if discussion.diagnosis.causes or not WHAT_SLOW.search(question.words):  # nothing is read of the run for it
        return ""
    profile = discussion.profile()
    recorded = not profile.traced and profile.series is not None
    return slowest_recorded(discussion, question) if recorded else ""


def rhythm(discussion: Discussion, _: Question) -> str | None:
    """How often long steps recur on the rank that loses most to them, and how long they are; None without a rhythm."""
    profile = discussion.profile()
    stalls = {} if profile.series is None else rank_stalls(profile)
    if not stalls:
        return None
    rank = max(stalls, key=lambda each: (stalls[each].cost_ms, -each))
    where = f" of rank {rank}" if len(discussion.ranks) > 1 else ""
    return discussion.say(wording("rhythm").format(where=where), rank=rank)


def which_step(discussion: Discussion, question: Question) -> str:
    """The slowest step, how many are far over the usual one, and the outcome of the coarse checks."""
    profile = discussion.profile()
    if not profile.traced and profile.series is not None and not question.steps:
        return slowest_recorded(discussion, question)
    if not profile.traced and profile.series is not None:
        return _recorded_steps(discussion, profile.series, question)
    known = [int(number) for number in profile.step_ms.index]
    if any(step not in known for step in question.steps):
        return f"This run has no such step; it has {span('step', known)}."
    if question.steps:
        return blocks(_one_step(discussion, step) for step in question.steps)
    if len(known) < FEW_STEPS:
        return discussion.say(wording("too_few"))
    series, recorded = step_series(profile), profile.series is not None
    traced = "traced step" if recorded else "step"
    spikes = series.fluctuating(profile.thresholds["fluctuation_pct"])
    lead = "" if len(spikes) else f"No {traced} stands out."
    fastest, slowest = int(series.numbers[series.ms.argmin()]), int(series.numbers[series.ms.argmax()])
    if FASTEST.search(question.words):
        shortest = _one_step(discussion, fastest, f"the fastest {'traced one' if recorded else 'one'}")
        longest = _one_step(discussion, slowest, f"the slowest {'traced one' if recorded else 'one'}")
        return blocks([shortest, longest if SLOWEST.search(question.words) else ""])
    found = [check for check in discussion.diagnosis.checks if check.status == "found"]
    coarse = [sentence for check in found if check.analyzer in COARSE_CHECKS for sentence in check.text]
    return blocks(
        [
            discussion.say(wording("unprofiled")) if recorded else "",
            paragraph([lead, _one_step(discussion, slowest, "the slowest traced one" if recorded else "the slowest")]),
            paragraph([discussion.say(wording("variation").format(traced)), *coarse]),
        ]
    )


def on_critical_path(discussion: Discussion, _: Question) -> str:
    """The time on the critical path of a step by family of work, the largest first."""
    facts = {family: discussion.measure("critical_path_ms", family=family) for family in FAMILIES}
    order = sorted((family for family in FAMILIES if facts[family].value > 0), key=lambda each: -facts[each].value)
    rows = bullets(discussion.say(f"{family_title(each)}: {{0}}", facts[each]) for each in order)
    return blocks([discussion.say(wording("path_of_step")), rows])


def break_down(discussion: Discussion, question: Question) -> str:
    """The parts of the step of each rank and step that was named, else of the mean over all."""
    profile = discussion.profile()
    if profile.traced or question.steps:
        pairs = [(rank, step) for rank in question.ranks or (None,) for step in question.steps or (None,)]
        return blocks(_parts(discussion, rank, step) for rank, step in pairs)
    ranks = question.ranks or (run_series(profile).slowest_rank,)
    found = [text for rank in ranks if (text := _recorded_parts(discussion, rank))]
    timed = timed_parts(discussion)
    if not found and not timed:
        raise UsageError(NO_TRACE)
    return blocks([*found, timed or wording("rest_not_recorded")])


def timed_parts(discussion: Discussion) -> str:
    """What the timers of the job's own output say of a step; empty where it prints none."""
    return paragraph(next((each.text for each in discussion.diagnosis.checks if each.analyzer == TIMERS), []))


def slowest_recorded(discussion: Discussion, question: Question) -> str:
    """The longest steps of the records one by one, or the lines with the longest ones where a line is of several."""
    series = run_series(discussion.profile())
    found = called(discussion, "series", question.page, source="records", limit=RECORDED_LISTED)
    rows = [row for row in found.rows if isinstance(row, StepRow)]
    columns, cells = _recorded_cells(discussion, series, rows)
    if series.averaged:
        lead = discussion.say(wording("longest_lines").format(averaged=series.averaged, total=found.total))
    else:
        usual = discussion.say(wording("longest_recorded"))
        lead = f"{usual} Of {found.total} recorded steps these are the longest, in ms:"
    return blocks([lead, table(columns, cells)])


def _recorded_cells(
    discussion: Discussion, series: RunSeries, rows: Sequence[StepRow]
) -> tuple[list[str], list[list[str]]]:
    """Columns and cells of rows of the records: the ranks only where these are stated, the steps that a mean is of."""
    counted = series.spans and not series.window
    spans = series.usual.set_index(["rank", "step"])["span"].to_dict() if counted else {}
    named = "line of step" if series.window else "steps" if spans else "step"
    waits = [row.parts_ms.get("data_wait") for row in rows]
    shown = {
        "id": [row.id for row in rows],
        named: [_steps_of(row.step, int(spans.get((row.rank, row.step), 1))) for row in rows],
        "rank": [str(row.rank) for row in rows] if ranks_stated(discussion) else [],
        "takes": [milliseconds(row.duration_ms) for row in rows],
        "waits for data": [milliseconds(wait) for wait in waits] if any(wait is not None for wait in waits) else [],
    }
    held = {name: column for name, column in shown.items() if column}
    return list(held), [list(cells) for cells in zip(*held.values(), strict=True)]


def _steps_of(last: int, count: int) -> str:
    """``280``, or ``271 to 280, mean`` of a line over ten steps."""
    return str(last) if count <= 1 else f"{last - count + 1} to {last}, mean"


def _recorded_steps(discussion: Discussion, series: RunSeries, question: Question) -> str:
    """The recorded steps that a question names, on the slowest rank of each or the one that is named."""
    rank = question.ranks[0] if question.ranks else None
    own = series.usual if rank is None else series.of(rank)
    known = sorted({int(number) for number in own["step"]})
    holding = {step: _line_of(step, known) for step in question.steps}
    pages = sorted({bisect_left(known, line) // MOST_ROWS for line in holding.values() if line is not None})
    given = {"source": "records", "rank": rank, "sort": "step", "limit": MOST_ROWS}
    found = [row for page in pages for row in called(discussion, "series", page, **given).rows]
    rows = [row for row in found if isinstance(row, StepRow) and row.step in holding.values()]
    kept = {step for step, line in holding.items() if line in {row.step for row in rows}}
    printed = _printed_steps(discussion, [step for step in question.steps if step not in kept])
    if not rows:
        start = ", without those of the start" if series.start else ""
        return printed or f"This run has no such step; the lines that were read are of {span('step', known)}{start}."
    others = [f"step {step} has no line of its own, the next one is of step {line}"
              for step, line in holding.items() if line is not None and line != step]  # fmt: skip
    lacking = [] if printed or kept >= set(question.steps) else ["the others have no line of their own"]
    if left := [step for step in question.steps if step < known[0]] if not printed else []:
        lacking = [*lacking, f"{span('step', left)} {'is' if len(left) == 1 else 'are'} of the start"]
    lead = "; ".join(["The steps that were asked for, in ms", *others, *lacking, *filter(None, [series.averaged])])
    columns, cells = _recorded_cells(discussion, series, rows)
    usual = "{series_step_ms:statistic=mean} is the mean" if series.averaged else USUAL_STEP
    said = discussion.say(f"{usual}; why a step takes longer is not recorded.")
    return blocks([paragraph([said, printed]), f"{lead}:", table(columns, cells)])


def _line_of(step: int, known: Sequence[int]) -> int | None:
    """The step of the line that is of this one, or of the next line where not every step has one."""
    at = bisect_left(known, step)
    return known[at] if at < len(known) and step >= known[0] else None


def _printed_steps(discussion: Discussion, steps: Sequence[int]) -> str:
    """What the lines of steps state that are left out of the step times, as those of the start are."""
    stated = {step: discussion.measured("logged_step_ms", statistic="mean", step=step) for step in steps}
    left = "it is left out of the step times, of which the mean is {series_step_ms:statistic=mean}."
    return paragraph(
        discussion.say(f"The line of step {step} states {{0}}; {left}", fact)
        for step, fact in stated.items()
        if fact is not None
    )


def _duration(discussion: Discussion, rank: int | None) -> str:
    profile = discussion.profile()
    series = profile.series if profile.traced else run_series(profile)
    ranks = [view.rank.rank for view in profile.ranks] if series is None else series.ranks
    whose = f" of rank {rank}" if rank is not None else " on its slowest rank" if len(ranks) > 1 else ""
    if series is not None and (rank is None or rank in series.ranks or not profile.traced):
        lead = f"By its records an unprofiled step{whose} takes {RECORDED}"
        text = f"{lead} The step time varies by {{series_variation_pct}}."
        if series.averaged:
            lead = f"By its records an unprofiled step{whose} takes {{series_step_ms:statistic=mean}} on average"
            text = f"{lead}; {series.averaged}."
        traced = discussion.say(f"The traced steps take {TRACED}", rank=rank) if profile.traced else ""
        return paragraph([discussion.say(text, rank=rank), _held(discussion), start_left_out(series), traced])
    if len(profile.step_ms if rank is None else profile.rank(rank).steps) < FEW_STEPS:
        lead = f"A step{whose} takes {{step_time_ms:statistic=mean}}, as the mean of what was recorded."
        return discussion.say(f"{lead} So few steps do not show how steady it is; record ten or more.", rank=rank)
    text = f"A step{whose} takes {TRACED} The step time varies by {{step_variation_pct}}."
    return discussion.say(text, rank=rank)


def _held(discussion: Discussion) -> str:
    """What steps take without the evaluations and saves that are in their times; empty where that is not known."""
    free = discussion.measured("side_work_free_ms")
    return "" if free is None else discussion.say(wording("held_work"), free)


def start_left_out(series: RunSeries) -> str:
    """How many of the first step lines are none of the steps that figures are of, as a sentence; "" where all are."""
    return f"{capital(series.start)}." if series.start else ""


def ranks_stated(discussion: Discussion) -> bool:
    """Whether the ranks of the records are known: the lines of a job's output often name none."""
    recorded = discussion.diagnosis.run.recorded
    return recorded is None or recorded.ranks_stated


def _one_step(discussion: Discussion, step: int, title: str = "") -> str:
    profile = discussion.profile()
    of_rank = ((view.rank.rank, step_series(profile, view.rank.rank)) for view in profile.ranks)
    times = {rank: float(own.ms[own.numbers == step][0]) for rank, own in of_rank if step in own.numbers}
    rank, marked_ms = max(times.items(), key=lambda item: (item[1], -item[0]))  # from mark to mark
    wall = discussion.measure("part_ms", part="wall", rank=rank, step=step)
    where = f" on rank {rank}" if len(profile.ranks) > 1 else ""
    name = f"Step {step} is {title}: it takes" if title else f"Step {step} takes"
    if len(profile.step_ms) < FEW_STEPS:
        return discussion.say(f"{name} {{0}}{where}.", wall)
    excess = discussion.measure("step_excess_ms", step=step)
    if wall.value > marked_ms * (1 + DRAINED):
        queued = "its recorded window of {1} also holds what was still in the device's queue after the last mark"
        return discussion.say(f"{name} {{0}} more than the usual step{where}; {queued}.", excess, wall)
    if excess.value <= 0:
        return discussion.say(f"{name} {{0}}{where}, which is not more than usual.", wall)
    lead = discussion.say(f"{name} {{0}}{where}, which is {{1}} more than the usual step.", wall, excess)
    if 100.0 * excess.value < discussion.profile().thresholds["noticed_excess_pct"] * wall.value:
        return f"{lead} That is within the usual variation of steps."
    return paragraph([lead, _grown_part(discussion, step, rank)])


def _grown_part(discussion: Discussion, step: int, rank: int) -> str:
    """The part of the step that exceeds the rank's usual one most."""
    table = discussion.profile().rank(rank).breakdown
    usual, own = table.median(numeric_only=True), table[table["number"] == step].iloc[0]
    extra = {part: float(own[f"{part}_ns"] - usual[f"{part}_ns"]) for part in PARTS}
    part = max(PARTS, key=lambda name: extra[name])
    if extra[part] <= 0:
        return ""
    fact = discussion.measure("step_part_excess_ms", part=part, step=step, rank=rank)
    text = f"What grew most is {PART_TITLES[part]}: {{0}} more than in this rank's usual step."
    call = "" if part == "data_wait" else _grown_call(discussion, step, rank, part, fact.value)  # that part is one call
    return paragraph([discussion.say(text, fact), call])


def _grown_call(discussion: Discussion, step: int, rank: int, part: str, grown_ms: float) -> str:
    """The kernel or host call whose own time grew most, where that is a fair share of what the part grew by."""
    profile = discussion.profile()
    view = profile.rank(rank)
    place = "device" if part in DEVICE_PARTS and view.rank.has_device else "host"
    if place == "device":
        kernels = view.compute_kernels if part == "compute" else view.communication_kernels
        table, kind = step_kernels(profile, rank), "kernels"
        table = table[table["row"].isin(kernels)]
    else:
        table, kind = host_calls(profile, rank), "host calls"
    name = most_grown(view, table, step)
    if not name:
        return ""
    where: dict[str, Argument] = {"rank": rank, "step": step, "name": name, "place": place}
    excess, longest = (discussion.measure(f"step_name_{what}_ms", **where) for what in ("excess", "longest"))
    if excess.value < discussion.profile().thresholds["explaining_call_share"] * grown_ms:
        return ""
    text = f"Of the {kind} {{n0}} grew most: {{0}} more than usual, the longest single one takes {{1}}."
    return discussion.say(text, excess, longest, names=(name,))


def _recorded_parts(discussion: Discussion, rank: int) -> str:
    """The parts of a rank's step in its records; empty where they hold none, as in step logs."""
    facts = {part: discussion.measured("series_part_ms", part=part, rank=rank) for part in RECORDED_PARTS}
    rows = [
        discussion.say(f"{wording('recorded_' + part)}: {{0}}", fact)
        for part, fact in facts.items()
        if fact is not None and (part == "data_wait" or fact.value > 0)
    ]
    whose = f" of rank {rank}" if ranks_stated(discussion) else ""
    lead = f"By its records a step{whose} takes {{series_step_ms:statistic=mean}} as the mean, in it:"
    return blocks([discussion.say(lead, rank=rank), bullets(rows)]) if rows else ""


def _parts(discussion: Discussion, rank: int | None, step: int | None) -> str:
    table = discussion.profile().breakdown
    numbers = (table if rank is None else table[table["rank"] == rank])["number"]
    if step is not None and not (numbers == step).any():
        known = [int(number) for number in discussion.profile().step_ms.index]
        return f"There is no such step; the run has {span('step', known)}."
    shares = {part: discussion.measure("part_pct", part=part, rank=rank, step=step) for part in PARTS}
    parts = [part for part in sorted(PARTS, key=lambda name: -shares[name].value) if shares[part].value > 0]
    rows = [
        discussion.say(f"{PART_TITLES[part]}: {{part_ms:part={part}}}, {{0}}", shares[part], rank=rank, step=step)
        for part in parts
    ]
    overlapped = discussion.measure("part_ms", part="overlapped_communication", rank=rank, step=step)
    if overlapped.value > 0:
        rows.append(discussion.say("communication of {0} overlaps with compute, which costs no time", overlapped))
    means = [name for name, one in (("steps", step), ("ranks", rank)) if one is None]
    whole = f"{'A step' if step is None else f'Step {step}'}{'' if rank is None else f' of rank {rank}'} takes"
    mean = f", as the mean over {'its steps' if rank is not None else ' and '.join(means)}," if means else ""
    return blocks([discussion.say(f"{whole}{mean} {{part_ms:part=wall}}:", rank=rank, step=step), bullets(rows)])
