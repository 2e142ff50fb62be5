"""Where does the time of a rank's step go?"""

from __future__ import annotations

from hermes_agent.model.display import PART_TITLES
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.places import no_such_rank, step_list
from hermes_agent.questions.prose import blocks, bullets
from hermes_agent.questions.question import Question
from tools.errors import UsageError
from tools.metrics.recorded.series import run_series
from tools.views.parts import PARTS
from tools.views.profile import NO_TRACE

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
        return _by_records(discussion, question)
    ranks: tuple[int | None, ...] = question.ranks or (None,)
    steps: tuple[int | None, ...] = question.steps or (None,)
    return blocks(_parts(discussion, rank, step) for rank in ranks for step in steps)


def _by_records(discussion: Discussion, question: Question) -> str:
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
