"""Where does the time of a rank's step go?"""

from __future__ import annotations

from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.places import no_such_rank, step_list
from hermes_agent.questions.prose import blocks, bullets
from hermes_agent.questions.question import Question
from hermes_agent.report.wording import PART_TITLES
from tools.profilers.parts import PARTS


def break_down(discussion: Discussion, question: Question) -> str:
    """The parts of the step of each rank and step that was named, else of the mean over all."""
    if refusal := no_such_rank(discussion, question):
        return refusal
    ranks: tuple[int | None, ...] = question.ranks or (None,)
    steps: tuple[int | None, ...] = question.steps or (None,)
    return blocks(_parts(discussion, rank, step) for rank in ranks for step in steps)


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
