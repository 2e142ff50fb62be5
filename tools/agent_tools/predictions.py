"""What a change would bring: causes gone and settings changed, plans by simulation; or why it is not predicted."""

from __future__ import annotations

import json
from typing import Literal

from pydantic import Field, JsonValue

from tools.agent_tools.find_events import nearest
from tools.agent_tools.result import Figure, Result, Row, measured
from tools.agent_tools.tool import Arguments, ToolContext
from tools.errors import UsageError
from tools.judgement.ranking import ranking
from tools.judgement.what_if import answered
from tools.knowledge.taxonomy import causes
from tools.whatif.asked_changes import FORMS, NEVER, asked_changes
from tools.whatif.planners.recorded_gradients import plan_run
from tools.whatif.planners.registry import planner

MOST_CHANGES = 8
WORKLOADS = {
    "batch_size": "the kernels of another batch size were not recorded, and how their time grows is not known from one",
    "sequence_length": "the kernels of another sequence length were not recorded",
    "tensor_parallel": "a split of the layers over more devices makes other kernels and other collectives",
    "data_parallel": "the time of collectives among more ranks was not recorded",
    "pipeline_parallel": "another split into stages makes other transfers and another bubble",
    "precision": "the kernels of another precision were not recorded",
}


class Change(Arguments):
    """One change to the run."""

    what: Literal[
        "without_cause",
        "batch_size",
        "sequence_length",
        "tensor_parallel",
        "data_parallel",
        "pipeline_parallel",
        "precision",
    ] = "without_cause"
    cause: str | None = Field(default=None, max_length=60, description="of without_cause: a cause found, by its id")
    mechanism: str | None = Field(default=None, max_length=60, description="to narrow the cause")
    value: float | str | None = Field(default=None, description="of the other changes: the new value")


WRITTEN = ", ".join(form.written for form in FORMS if form.kind not in NEVER)


class WhatIf(Arguments):
    """The changes, made together: ``settings`` by the grammar of ``hermes-dx whatif``, else ``changes``."""

    changes: tuple[Change, ...] = Field(default=(), max_length=MOST_CHANGES)
    settings: tuple[str, ...] = Field(default=(), max_length=MOST_CHANGES, description=f"each one of: {WRITTEN}")


def what_if(context: ToolContext, asked: WhatIf) -> Result:
    """Step time with causes gone, each alone and all together, by one replay of the recorded steps.

    Both fixes together: two changes. Settings (bucket_cap_mb=50, num_workers=8, rank 3 as fast as the others, link 2x)
    are predicted together by replay, planner or formula. Changes of the workload (batch_size, tensor_parallel, ...)
    are refused with the reason and what to record instead, because a replay only knows recorded work.
    """
    if asked.settings:
        return _with_settings(context, asked)
    if not asked.changes:
        raise UsageError(f"name changes, or settings: {WRITTEN}")
    notes = [_refusal(each) for each in asked.changes if each.what != "without_cause"]
    named = [_key(each) for each in asked.changes if each.what == "without_cause"]
    if not named:
        return Result(notes=tuple(notes))
    known = ranking(context.profile())
    found = {each.finding.cause for each in (*known.causes, *known.below)}
    missing = [key for key in named if key.partition("/")[0] not in found]
    have = ", ".join(sorted(found)) or "none"
    notes += [
        f"{key} was not found in this run, so nothing would be gained by its fix; found are {have}." for key in missing
    ]
    present = [key for key in dict.fromkeys(named) if key not in missing]
    figures: list[Figure] = []
    for key in dict.fromkeys([*present, ",".join(present)]) if present else ():
        words = " and ".join(part.replace("_", " ") for part in key.split(","))
        figures += [
            (f"step without {words}", "joint_step_ms", {"causes": key}),
            (f"step without {words}, shortest expected", "joint_step_ms", {"causes": key, "bound": "low"}),
            (f"step without {words}, longest expected", "joint_step_ms", {"causes": key, "bound": "high"}),
            (f"speedup without {words}", "joint_speedup", {"causes": key}),
        ]
    facts, lacking = measured(context, figures)
    return Result(facts=facts, notes=(*notes, *lacking))


def _with_settings(context: ToolContext, asked: WhatIf) -> Result:
    """The step with settings changed, and what the prediction rests on."""
    if asked.changes:
        raise UsageError("give changes or settings; a cause that is gone is the setting `without CAUSE`")
    asked_changes(asked.settings)
    text = "; ".join(asked.settings)
    found = answered(context.profile(), text)
    refused = tuple(f"{each.asked}: {each.why}. What it needs: {each.needs}." for each in found.refused)
    if found.prediction is None:
        return Result(notes=refused)
    figures: list[Figure] = [
        (f"step with {text}", "changed_step_ms", {"changes": text}),
        (f"step with {text}, shortest expected", "changed_step_ms", {"changes": text, "bound": "low"}),
        (f"step with {text}, longest expected", "changed_step_ms", {"changes": text, "bound": "high"}),
        (f"speedup with {text}", "changed_speedup", {"changes": text}),
    ]
    facts, lacking = measured(context, figures)
    rests_on = tuple(f"{each.change} rests on a {each.basis}: {each.text}." for each in found.rests_on)
    return Result(facts=facts, notes=(*rests_on, *found.notes, *lacking))


def _key(change: Change) -> str:
    if change.cause is None:
        raise UsageError("name the cause that should be gone, for example {'cause': 'slow_data_processing'}")
    known = causes().get(change.cause)
    if known is None:
        near = ", ".join(nearest(change.cause, list(causes())))
        raise UsageError(f"there is no cause {change.cause!r}; the nearest are {near}")
    if change.mechanism not in (None, *known.mechanisms):
        have = ", ".join(known.mechanisms) or "none"
        raise UsageError(f"{change.cause} has no mechanism {change.mechanism!r}; it has {have}")
    return change.cause + (f"/{change.mechanism}" if change.mechanism else "")


def _refusal(change: Change) -> str:
    other = " The planner `layout` compares layouts from a model's sizes." if "parallel" in change.what else ""
    return (
        f"A change of {change.what} is not predicted: {WORKLOADS[change.what]}. A replay only removes or shortens work "
        f"that was recorded. Record a few steps with the new setting and use compare.{other}"
    )


class Plan(Arguments):
    """A planner and its input."""

    planner: Literal[
        "gradient-buckets", "pipeline-memory", "supernet", "expert-degree", "expert-schedule", "layout", "straggler"
    ]
    input: dict[str, JsonValue] | None = Field(
        default=None, description="see `hermes-dx plan NAME --schema`; without it from this run (gradient-buckets)"
    )


class PlanRow(Row):
    """A plan by simulation; ``before_ms`` is null where the input has no present setting."""

    planner: str
    before_ms: float | None
    after_ms: float
    gap_ms: float | None = Field(description="how much better a plan could be at most; null: nothing was searched")
    bound: str
    plan: dict[str, JsonValue]
    assumptions: tuple[str, ...]


def plan(context: ToolContext, asked: Plan) -> Result:
    """A plan by simulation: gradient buckets (from the run), pipeline stages and memory, expert degree, layout, ..."""
    if asked.input is None:
        if asked.planner != "gradient-buckets":
            raise UsageError(
                f"{asked.planner} cannot take its input from a run; give input, gradient-buckets needs none"
            )
        made = plan_run(context.profile())
    else:
        made = planner(asked.planner).plan(json.dumps(asked.input).encode())
    row = PlanRow(
        id=f"plan:{asked.planner}",
        planner=asked.planner,
        before_ms=made.before_ms,
        after_ms=made.after_ms,
        gap_ms=made.gap_ms,
        bound=made.bound,
        plan=made.plan.model_dump(mode="json"),
        assumptions=tuple(made.assumptions),
    )
    return Result(rows=(row,), total=1, notes=("Times are predictions by simulation, not measurements of this run.",))
