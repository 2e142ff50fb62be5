"""Answers about the recording: devices, ranks, steps, layout and shapes."""

from __future__ import annotations

from hermes_agent.evidence.ledger import quoted
from hermes_agent.model.display import plain, rank_list
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets, capital, listed, span
from hermes_agent.questions.question import Question, wording
from tools.views.operator_cost import tensor_shapes
from tools.views.profile import Profile
from tools.views.work import operator_rows, operator_work

LISTED = 5  # files, and operators with their shapes


def what_is_recorded(discussion: Discussion, _: Question) -> str:
    """Files, devices, ranks, steps, parallel layout and the operators' shapes."""
    run, profile = discussion.diagnosis.run, discussion.profile()
    ranks = capital(rank_list(discussion.ranks)) if discussion.ranks else ""
    settings = [quoted(f"{name}={value}") for name, value in run.layout.items() if value is not None]
    layout = f"Layout: {listed(settings) if settings else 'not recorded'}"
    unknown = wording("model_not_recorded")
    if not profile.traced:
        time = discussion.say("A step takes {series_step_ms:statistic=median} as the median")
        rows = bullets([ranks, time, layout])
        return blocks([f"No trace was read; this is what the records say of the run:\n{rows}", unknown])
    files = [quoted(source.path.rsplit("/", 1)[-1]) for source in run.sources if source.status != "excluded"]
    more = " and more files" if len(files) > LISTED else ""
    origin = f"Read from: {listed(files[:LISTED])}{more}" if files else ""
    steps = "Steps: none"
    if run.steps:
        time = discussion.say("{step_time_ms:statistic=median}")
        steps = f"{capital(span('step', run.steps))}, marked by {plain(run.step_origin)}, with a median of {time}"
    rows = bullets([origin, _devices(run.devices, profile), ranks, steps, layout])
    shapes = bullets(_shapes(discussion))
    seen = f"Shapes seen, in the operators with recorded inputs that take most time:\n{shapes}"
    recorded = f"What the recording says of the run:\n{rows}"
    return blocks([recorded, unknown, seen if shapes else wording("no_shapes")])


def _devices(names: list[str], profile: Profile) -> str:
    if names:
        return f"Devices: {listed([quoted(name) for name in names])}"
    return f"Device: {'not named in the trace' if profile.run.has_device else 'none, no work on a device is recorded'}"


def _shapes(discussion: Discussion) -> list[str]:
    """The commonest input shapes of the operators with most own time, each with that time."""
    profile = discussion.profile()
    common = _commonest_shapes(profile)
    names = [str(name) for name in operator_work(profile).index if str(name) in common][:LISTED]
    text = "{n0} on {n1}, {operator_name_ms} per step"
    return [discussion.say(text, names=(name, common[name]), name=name) for name in names]


def _commonest_shapes(profile: Profile) -> dict[str, str]:
    """The most frequent tensor shapes of every operator of the first rank that recorded any, by operator name."""
    for view in profile.ranks:
        details = view.events.details.operators
        inside = details[details["row"].isin(operator_rows(view))]
        if not inside.empty:
            names = view.events.frame["name"].iloc[inside["row"].to_numpy()].astype(str).to_numpy()
            counts = inside.assign(name=names, dims=inside["dims"].astype(str)).groupby(["name", "dims"]).size()
            commonest = counts.sort_values(ascending=False, kind="stable").reset_index().drop_duplicates("name")
            shapes = {
                str(name): _dims(str(dims)) for name, dims in zip(commonest["name"], commonest["dims"], strict=True)
            }
            return {name: text for name, text in shapes.items() if text}
    return {}


def _dims(dims: str) -> str:
    """``64x3x224x224, 64x3x7x7``; empty without a tensor that has dimensions."""
    return ", ".join("x".join(str(size) for size in shape) for shape in tensor_shapes(dims) if shape)
