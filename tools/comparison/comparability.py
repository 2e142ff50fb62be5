"""Comparability of two runs: reasons against it, the layers and work they share, and what was assumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

import numpy as np
import pandas as pd

from tools.comparison.job_settings import changed_settings, same_model_stated
from tools.errors import NotComparableError
from tools.run.events import name_mask
from tools.run.recorded.job_log import JobLog
from tools.run.recorded.records import flag_values
from tools.views.device.operator_cost import tensor_shapes
from tools.views.profile import Profile
from tools.views.rank_profile import RankProfile
from tools.views.steps.recorded import LEAST_STEPS
from tools.views.work import backward_nodes, kernel_work, operator_rows, operator_work, similarity

LIKENESS_LEAST = 0.3  # of layers, kernels, operators or backward nodes; the same model after a rewrite shares one view
# Names alone, where both runs record the shapes of their layers and share hardly any: every training adds, copies and
# reduces, so two models have a third of their operators in common, while widths padded to a multiple change no name.
NAMES_LEAST = 0.5
ALIKE = 0.95  # from where runs are called the same
NAMES_LISTED, NAME_LIMIT = 5, 60
PARALLEL = ("data_parallel", "tensor_parallel", "pipeline_parallel", "expert_parallel")

# Operator of a forward pass -> which of its tensors is the parameter.
WEIGHT_AT: Mapping[str, int] = MappingProxyType(
    {"aten::convolution": 1, "aten::linear": 1, "aten::addmm": 2, "aten::embedding": 0}
)


LEAST = 0.3  # of the comparability: below it runs are not compared
# What is left of the comparability where the runs differ so, or do not state whether they do.
OTHER_DEVICE, OTHER_WORK, OTHER_LAYOUT, OTHER_CLOCK, NOT_STATED = 0.5, 0.5, 0.8, 0.8, 0.9
DEVICES_UNKNOWN = "the devices"  # neither records nor outputs name them so that they can be compared
ALL_UNKNOWN = 3  # model, world size and devices
# What is left where two outputs state none of these and are alike only in the program that wrote their step lines: with
# 0.9 for each it is above ``LEAST``, and below it with any difference of work or layout.
SAME_LINES = 0.5


@dataclass(frozen=True)
class Comparability:
    """How far two runs can be compared, from 0 (not at all) to 1 (alike in all that is known), and what is against."""

    score: float
    reasons: tuple[str, ...]  # clauses


def comparability(a: Profile, b: Profile, alike: float) -> Comparability:
    """Of two traced runs that have so much of their layers or work in common; NotComparableError below ``LEAST``."""
    devices = _device_models(a, b)
    reasons = [f"they have {100.0 * alike:.0f} % of their layers or work in common"] if alike < ALIKE else []
    reasons += [devices] if devices else []
    unknown = _not_recorded(a, b)
    reasons += unknown
    score = alike * (OTHER_DEVICE if devices else 1.0) * NOT_STATED ** len(unknown)
    return _refused_below_least(score, reasons)


def comparability_of_records(a: Profile, b: Profile) -> Comparability:
    """Of two runs of which the steps alone are compared; NotComparableError where the jobs state other models."""
    logs = a.run.job_log, b.run.job_log
    changed = changed_settings(*logs)
    refuse([_differ(each.name, [each.before], [each.after]) for each in changed if each.weight == "model"])
    weights = {"work": OTHER_WORK, "layout": OTHER_LAYOUT, "model": 0.0}
    reasons = [_differ(each.name, [each.before], [each.after]) for each in changed]
    score = prod(weights[each.weight] for each in changed)
    origins = ["a trace" if each.series is None else each.series.source for each in (a, b)]
    if len(set(origins)) > 1:
        reasons.append(f"step times of {origins[0]} against those of {origins[1]}")
        score *= OTHER_CLOCK
    if not any(each.weight == "work" for each in changed) and (samples := _samples_differ(a, b)):
        reasons.append(samples)
        score *= OTHER_WORK
    unknown = unknown_of_records(a, b)
    reasons += [f"not stated by both: {', '.join(unknown)}"]
    score *= NOT_STATED ** len(unknown)
    if len(unknown) == ALL_UNKNOWN:
        score *= SAME_LINES if _same_lines(*logs) else 0.0
    return _refused_below_least(score, reasons)


def _same_lines(first: JobLog | None, second: JobLog | None) -> bool:
    """Whether one program, as far as its step lines show, wrote both outputs."""
    return first is not None and second is not None and bool(set(first.grammars) & set(second.grammars))


def _samples_differ(a: Profile, b: Profile) -> str:
    """The samples of a usual step where the step lines of both state them and they differ."""
    stated = [_samples(each.run.job_log) for each in (a, b)]
    return _differ("number of samples per step", stated[:1], stated[1:]) if None not in stated else ""


def _samples(log: JobLog | None) -> float | None:
    """Samples of the median step by the step lines; None where these do not state them."""
    known = None if log is None else log.steps["samples"].dropna()
    return None if known is None or known.empty else float(known.median())


def unknown_of_records(a: Profile, b: Profile) -> tuple[str, ...]:
    """What two runs without traces would have to share and do not both state.

    ``require_series`` refuses world sizes that differ.
    """
    sized = a.run.layout.world_size is not None and b.run.layout.world_size is not None
    return (
        *(() if same_model_stated(a.run.job_log, b.run.job_log) else ("the model",)),
        *(() if sized else ("the world size",)),
        DEVICES_UNKNOWN,
    )


def _refused_below_least(score: float, reasons: Sequence[str]) -> Comparability:
    if score < LEAST:
        refuse([f"comparability {score:.2f} is below {LEAST:g}: {', '.join(reasons)}"])
    return Comparability(round(score, 2), tuple(reasons))


def likeness(a: Profile, b: Profile) -> float:
    """The share of layers or work that two traced runs have in common; NotComparableError with all reasons against.

    Another device model is no reason where the shapes of the layers show the same model.
    """
    same_layers = len(layers(a)) > 0 and similarity(layers(a), layers(b)) >= NAMES_LEAST
    reasons = [
        _accelerator(a, b),
        "" if same_layers else _device_models(a, b),
        _sizes(a, b, ("world_size",)),
        _differ("ranks", a.run.rank_numbers, b.run.rank_numbers, "traces of other "),
        _sizes(a, b, PARALLEL),
    ]
    shared, named = similarity(layers(a), layers(b)), _names_alike(a, b)
    with_shapes = len(layers(a)) > 0 and len(layers(b)) > 0
    if shared < LIKENESS_LEAST and named < (NAMES_LEAST if with_shapes else LIKENESS_LEAST):
        reasons.append("they run clearly different models (their layers, kernels and operators have little in common)")
    refuse(reasons)
    return max(shared, named)


def require_series(a: Profile, b: Profile) -> None:
    """Raises NotComparableError with the reasons why the step times in the records of two runs cannot be compared."""
    refuse([_no_series(a, "first"), _no_series(b, "second")])
    first, second = (() if each.series is None else each.series.ranks for each in (a, b))
    refuse([_sizes(a, b, ("world_size",)), _differ("ranks", first, second, "records of other ")])


def require_steps(a: Profile, b: Profile) -> None:
    """The same of a traced run and one with records alone, whose ranks may differ."""
    missing = [_no_series(each, which) for each, which in ((a, "first"), (b, "second")) if not each.traced]
    refuse([*missing, _sizes(a, b, ("world_size",))])


def assumptions(a: Profile, b: Profile) -> tuple[str, ...]:
    """Notes on what two traced runs do not record and was taken to be the same."""
    return tuple(
        f"{reason[:1].upper()}{reason[1:]}; that it is the same was assumed." for reason in _not_recorded(a, b)
    )


def _not_recorded(a: Profile, b: Profile) -> list[str]:
    """What would have to be the same and at least one of two traced runs does not record, as clauses."""
    named = (_devices(a) and _devices(b)) or (_host_only(a) and _host_only(b))
    sized = a.run.layout.world_size is not None and b.run.layout.world_size is not None
    return [
        *(() if named else ("the device model is not recorded of both runs",)),
        *(() if sized else ("the world size is not recorded of both runs",)),
    ]


def layers(profile: Profile) -> pd.Series[float]:
    """One entry (1.0) per operator and parameter shape of convolutions, linear layers and embeddings."""
    found = sorted(set().union(*(profile.memo("layers", lambda: [_layers(view) for view in profile.ranks]))))
    return pd.Series(1.0, index=pd.Index(found, dtype="str"), dtype="float64")


def _layers(view: RankProfile) -> set[str]:
    names, details = view.events.frame["name"], view.events.details.operators
    shaped = np.full(len(view.kind), -1, dtype=np.int64)
    shaped[details["row"].to_numpy()] = details["dims"].cat.codes.to_numpy()
    wanted = name_mask(names, WEIGHT_AT.__contains__)
    rows = operator_rows(view)
    rows = rows[wanted[rows] & (shaped[rows] >= 0)]
    calls = pd.DataFrame({"name": names.cat.codes.to_numpy()[rows], "dims": shaped[rows]}).drop_duplicates()
    texts = details["dims"].cat.categories
    pairs = calls.itertuples(index=False)
    return {_layer(str(names.cat.categories[name]), str(texts[dims])) for name, dims in pairs} - {""}


def _layer(operator: str, dims: str) -> str:
    shapes, place = tensor_shapes(dims), WEIGHT_AT[operator]
    return f"{operator} {shapes[place]}" if len(shapes) > place and shapes[place] else ""


def _device_models(a: Profile, b: Profile) -> str:
    first, second = _devices(a), _devices(b)
    return _differ("device model", first, second) if first and second else ""


def refuse(reasons: Sequence[str]) -> None:
    """Raises NotComparableError with the reasons that are given; does nothing where all are empty."""
    if given := "; ".join(reason for reason in reasons if reason):
        advice = "Record both with the same model, devices and ranks"
        score = "" if "comparability " in given else f" (comparability 0 of 1, {LEAST:g} is the least)"
        raise NotComparableError(f"the runs cannot be compared: {given}{score}. {advice}")


def _differ(what: str, first: Sequence[object], second: Sequence[object], lead: str = "another ") -> str:
    return f"{lead}{what} ({_listed(first)}; {_listed(second)})" if tuple(first) != tuple(second) else ""


def _accelerator(a: Profile, b: Profile) -> str:
    if a.run.has_device == b.run.has_device:
        return ""
    first, second = ("an accelerator", "the CPU only") if a.run.has_device else ("the CPU only", "an accelerator")
    return f"the first used {first}, the second {second}"


def _sizes(a: Profile, b: Profile, names: Sequence[str]) -> str:
    """The first of these sizes that both runs record differently."""
    sizes = ((name, getattr(a.run.layout, name), getattr(b.run.layout, name)) for name in names)
    texts = (
        _differ(f"{name.removesuffix('_size').replace('_', '-')} size", [x], [y]) for name, x, y in sizes if x and y
    )
    return next((text for text in texts if text), "")


def _no_series(profile: Profile, which: str) -> str:
    if profile.series is not None:
        return ""
    run = profile.run
    if run.records is None and run.step_log is None and run.job_log is None:
        return f"the {which} one has no records or step log, and the other one no trace"
    return f"the {which} one has records of fewer than {LEAST_STEPS} steps after the first ones"


def _names_alike(a: Profile, b: Profile) -> float:
    """The best of three views: rewriting kernels, fusing operators or moving the loader changes one, not all."""
    kernels = similarity(kernel_work(a)["count"], kernel_work(b)["count"])
    operators = similarity(operator_work(a)["count"], operator_work(b)["count"])
    backward = similarity(backward_nodes(operator_work(a)), backward_nodes(operator_work(b)))
    return max(kernels, operators, backward)


def _devices(profile: Profile) -> tuple[str, ...]:
    return tuple(sorted({device.name for rank in profile.ranks for device in rank.rank.devices}))


def _listed(values: Sequence[object]) -> str:
    texts = ("".join(letter for letter in str(value) if letter.isprintable()) for value in values[:NAMES_LISTED])
    return ", ".join(text[:NAME_LIMIT] for text in texts) or "none"


def _host_only(profile: Profile) -> bool:
    records = profile.run.records
    if profile.run.has_device or _devices(profile) or records is None:
        return not (profile.run.has_device or _devices(profile))
    ranks = {each.rank for each in records.ranks}
    named = {value for rank in ranks for value in flag_values(records.environments, rank, "accelerator")}
    return named <= {"none", "unknown"}
