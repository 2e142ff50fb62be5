"""The recording: devices, ranks, steps, layout and shapes."""

from __future__ import annotations

from collections.abc import Mapping

from hermes_agent.evidence.sentences import quoted
from hermes_agent.model.display import plain, rank_list
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets, capital, listed
from hermes_agent.questions.question import Question
from tools.views.operator_cost import tensor_shapes
from tools.views.profile import Profile
from tools.views.work import operator_rows, operator_work


def no_such_rank(discussion: Discussion, question: Question) -> str:
    """That a rank the question names was not recorded, and which were; empty when all were."""
    run = discussion.diagnosis.run
    known = run.ranks or (run.recorded.ranks if run.recorded else [])
    if all(rank in known for rank in question.ranks):
        return ""
    return f"This run has no such rank; it has {rank_list(known)}."


def step_list(first: int, last: int) -> str:
    """``step 3`` or ``steps 3 to 9``."""
    return f"step {first}" if first == last else f"steps {first} to {last}"


SHAPES_TOLD = 5
NOT_RECORDED = (
    "The model's name and the batch size are not written into a trace as such; what shows is the shapes of operators."
)
NO_SHAPES = (
    "No operator shapes are recorded, so the batch size cannot be read off. What it needs: `record_shapes=True`."
)


def what_is_recorded(discussion: Discussion, _: Question) -> str:
    """Files, devices, ranks, steps, parallel layout and the operators' shapes."""
    run = discussion.diagnosis.run
    profile = discussion.material.profile()
    if not profile.traced:
        return _records_only(discussion)
    files = [quoted(source.path.rsplit("/", 1)[-1]) for source in run.sources if source.status != "excluded"]
    rows = [
        f"Read from: {listed(files[:SHAPES_TOLD])}" + (" and more files" if len(files) > SHAPES_TOLD else "")
        if files
        else "",
        f"Devices: {listed([quoted(name) for name in run.devices])}" if run.devices else _no_device(profile),
        capital(rank_list(run.ranks)),
        _steps(discussion),
        _layout(run.layout),
    ]
    shapes = _shapes(discussion)
    seen = "Shapes seen, in the operators with recorded inputs that take most time:\n" + bullets(shapes)
    return blocks(
        ["What the recording says of the run:\n" + bullets(rows), NOT_RECORDED, seen if shapes else NO_SHAPES]
    )


def _records_only(discussion: Discussion) -> str:
    """Ranks, steps and step time where there is no trace."""
    recorded = discussion.diagnosis.run.recorded
    ranks = capital(rank_list(recorded.ranks)) if recorded and recorded.ranks else ""
    time = discussion.say("A step takes {0} as the median", discussion.measure("series_step_ms", statistic="median"))
    rows = [ranks, time, _layout(discussion.diagnosis.run.layout)]
    return blocks(["No trace was read; this is what the records say of the run:\n" + bullets(rows), NOT_RECORDED])


def _no_device(profile: Profile) -> str:
    return (
        "Device: not named in the trace" if profile.run.has_device else "Device: none, no work on a device is recorded"
    )


def _steps(discussion: Discussion) -> str:
    run = discussion.diagnosis.run
    if not run.steps:
        return "Steps: none"
    numbers = capital(step_list(min(run.steps), max(run.steps)))
    time = discussion.say("with a median of {0}", discussion.measure("step_time_ms", statistic="median"))
    return f"{numbers}, told by {plain(run.step_origin)}, {time[:1].lower()}{time[1:]}"


def _layout(layout: Mapping[str, int | str | None]) -> str:
    known = [quoted(f"{name}={value}") for name, value in layout.items() if value is not None]
    return f"Layout: {listed(known)}" if known else "Layout: not recorded"


def _shapes(discussion: Discussion) -> list[str]:
    """The commonest input shapes of the operators with most own time, each with that time."""
    profile = discussion.material.profile()
    common = _commonest_shapes(profile)
    names = [str(name) for name in operator_work(profile).index if str(name) in common][:SHAPES_TOLD]
    return [
        discussion.say(
            "{n0} on {n1}, {0} per step", discussion.measure("operator_name_ms", name=name), names=(name, common[name])
        )
        for name in names
    ]


def _commonest_shapes(profile: Profile) -> dict[str, str]:
    """The most frequent tensor shapes of every operator of the first rank that recorded any, by operator name."""
    for view in profile.ranks:
        details = view.events.details.operators
        inside = details[details["row"].isin(operator_rows(view))]
        if inside.empty:
            continue
        names = view.events.frame["name"].iloc[inside["row"].to_numpy()].astype(str).to_numpy()
        counts = inside.assign(name=names, dims=inside["dims"].astype(str)).groupby(["name", "dims"]).size()
        commonest = counts.sort_values(ascending=False, kind="stable").reset_index().drop_duplicates("name")
        shapes = {
            str(name): _written(str(dims)) for name, dims in zip(commonest["name"], commonest["dims"], strict=True)
        }
        return {name: text for name, text in shapes.items() if text}
    return {}


def _written(dims: str) -> str:
    """``64x3x224x224, 64x3x7x7``; empty without a tensor that has dimensions."""
    return ", ".join("x".join(str(size) for size in shape) for shape in tensor_shapes(dims) if shape)
