"""What changed between two runs, or why they cannot be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pandas as pd

from tools.comparison.parameter_shapes import layers
from tools.comparison.recorded_change import (
    Difference,
    What,
    by_series,
    difference,
    recorded_change,
    recorded_parts,
    recorded_step,
)
from tools.errors import NotComparableError
from tools.findings import Fact, Sentence
from tools.run.records import flag_values
from tools.views.parts import PARTS
from tools.views.profile import Profile
from tools.views.series import LEAST_STEPS
from tools.views.work import backward_nodes, kernel_work, operator_work, similarity

LIKENESS_LEAST = 0.3  # of layers, kernels, operators or backward nodes; the same model after a rewrite shares one view
# Names alone, where both runs tell the shapes of their layers and share hardly any: every training adds, copies and
# reduces, so two models have a third of their operators in common, while widths padded to a multiple change no name.
NAMES_LEAST = 0.5
SAME_ASSUMED = "Records do not tell model and devices; that they are the same was assumed."
APART_PCT = 3.0  # traced steps that differ less from unprofiled ones are not told twice
SHOWN = 5  # kernels and operators listed, each
NAME_LIMIT = 60


@dataclass(frozen=True)
class Comparison:
    """Two comparable runs: the baseline first, then what is held against it. Differences are largest first.

    ``step`` is of the unprofiled steps where both runs tell them; what is looked into is of the traced ones always.
    """

    step: Difference
    parts: tuple[Difference, ...]
    kernels: tuple[Difference, ...]
    operators: tuple[Difference, ...]
    loaders: tuple[str, str]  # name of the data-loader span in each run, "" for none (untrusted)
    likeness: float  # 0..1, how much of their layers or of their work the runs share
    headline: Sentence
    changes: tuple[Sentence, ...]
    notes: tuple[str, ...] = ()  # what could not be verified
    recorded: tuple[Difference, ...] = ()  # parts of unprofiled steps, collections among them


def compare(a: Profile, b: Profile) -> Comparison:
    """The changes from baseline ``a`` to run ``b``; ``NotComparableError`` names every reason against it."""
    if not a.traced or not b.traced:
        return _of_steps(a, b)
    reasons = [reason for reason in (check(a, b) for check in _CHECKS) if reason]
    shared, named = similarity(layers(a), layers(b)), _names_alike(a, b)
    if shared < LIKENESS_LEAST and named < (NAMES_LEAST if _layers_told(a, b) else LIKENESS_LEAST):
        reasons.append("they run clearly different models (their layers, kernels and operators have little in common)")
    if reasons:
        raise NotComparableError(
            f"the runs cannot be compared: {'; '.join(reasons)}. Record both with the same model, devices and ranks"
        )
    traced = difference(a, b, "step_time", "", "step_time_ms", statistic="mean")
    step, recorded = _recorded(a, b) if by_series(a, b) else (traced, ())
    parts = tuple(_noted(a, (difference(a, b, "part", part, "part_ms", part=part) for part in PARTS)))
    kernels = _by_name(a, b, "kernel", kernel_work, "kernel_name_ms")
    operators = _by_name(a, b, "operator", operator_work, "operator_name_ms")
    loaders = _loader(a), _loader(b)
    looked_into = (
        *_loader_change(loaders),
        *(_part_change(each) for each in parts),
        *(_work_change(each) for each in (*kernels, *operators)),
    )
    return Comparison(
        step=step,
        parts=parts,
        kernels=kernels,
        operators=operators,
        loaders=loaders,
        likeness=max(shared, named),
        headline=_headline(step, _which(a, b)),
        changes=(*_recorded_changes(a, recorded), *_of_traced(step, traced, looked_into)),
        notes=_notes(a, b),
        recorded=recorded,
    )


def _of_steps(a: Profile, b: Profile) -> Comparison:
    """Where a run has no trace: the step time and what else the records of both tell."""
    untold = [reason for reason in (_untold(a, "first"), _untold(b, "second")) if reason]
    reasons = untold or [reason for reason in (_world(a, b), _recorded_ranks(a, b)) if reason]
    if reasons:
        raise NotComparableError(
            f"the runs cannot be compared: {'; '.join(reasons)}. Record both with the same model, devices and ranks"
        )
    step, recorded = _recorded(a, b)
    changes = _recorded_changes(a, recorded)
    return Comparison(
        step, (), (), (), ("", ""), 0.0, _headline(step, _which(a, b)), changes, (SAME_ASSUMED,), recorded
    )


def _recorded(a: Profile, b: Profile) -> tuple[Difference, tuple[Difference, ...]]:
    """The unprofiled step and its parts."""
    step = recorded_step(a, b)
    return step, recorded_parts(a, b, step.before.value * a.thresholds["noted_pct"] / 100.0)


def _recorded_changes(a: Profile, recorded: tuple[Difference, ...]) -> tuple[Sentence, ...]:
    ranks = 0 if a.series is None else len(a.series.ranks)
    return tuple(recorded_change(each, ranks) for each in recorded)


def _of_traced(step: Difference, traced: Difference, looked_into: tuple[Sentence, ...]) -> tuple[Sentence, ...]:
    """What was looked into, after the clause that it is of other steps than the headline where it is."""
    if step == traced:
        return looked_into
    lead = "What follows is of the traced steps" if looked_into else "The traced steps"
    if _apart(step.before, traced.before) or _apart(step.after, traced.after):
        which = ", which took" if looked_into else " took"
        return (Sentence(f"{lead}{which} {{0}} before and {{1}} now.", (traced.before, traced.after)), *looked_into)
    return (Sentence(f"{lead}."), *looked_into) if looked_into else ()


def _apart(step: Fact, traced: Fact) -> bool:
    return abs(traced.value - step.value) > APART_PCT / 100.0 * step.value


def _untold(profile: Profile, which: str) -> str:
    """Why a run's records do not tell its step time; empty where they do."""
    if profile.series is not None:
        return ""
    if profile.run.records is None and profile.run.step_log is None:
        return f"the {which} one has no records or step log, and the other one no trace"
    return f"the {which} one has records of fewer than {LEAST_STEPS} steps after the first ones"


def _recorded_ranks(a: Profile, b: Profile) -> str:
    first, second = (() if each.series is None else each.series.ranks for each in (a, b))
    return "" if first == second else f"records of other ranks ({_listed(first)}; {_listed(second)})"


def _accelerator(a: Profile, b: Profile) -> str:
    if a.run.has_device == b.run.has_device:
        return ""
    first, second = ("an accelerator", "the CPU only") if a.run.has_device else ("the CPU only", "an accelerator")
    return f"the first used {first}, the second {second}"


def _device(a: Profile, b: Profile) -> str:
    first, second = _devices(a), _devices(b)
    return f"another device model ({_listed(first)}; {_listed(second)})" if first and second and first != second else ""


def _world(a: Profile, b: Profile) -> str:
    first, second = a.run.layout.world_size, b.run.layout.world_size
    return f"another world size ({first}; {second})" if first and second and first != second else ""


def _ranks(a: Profile, b: Profile) -> str:
    first, second = a.run.rank_numbers, b.run.rank_numbers
    return "" if first == second else f"traces of other ranks ({_listed(first)}; {_listed(second)})"


def _layout(a: Profile, b: Profile) -> str:
    for name in ("data_parallel", "tensor_parallel", "pipeline_parallel", "expert_parallel"):
        first, second = getattr(a.run.layout, name), getattr(b.run.layout, name)
        if first and second and first != second:
            return f"another {name.replace('_', '-')} size ({first}; {second})"
    return ""


_CHECKS: tuple[Callable[[Profile, Profile], str], ...] = (_accelerator, _device, _world, _ranks, _layout)


def _devices(profile: Profile) -> tuple[str, ...]:
    return tuple(sorted({device.name for rank in profile.ranks for device in rank.rank.devices}))


def _listed(values: tuple[object, ...]) -> str:
    return ", ".join(_plain(str(value)) for value in values[:SHOWN]) or "none"


def _plain(name: str) -> str:
    """A name from a trace, fit for an error message: printable and short."""
    return "".join(letter for letter in name if letter.isprintable())[:NAME_LIMIT]


def _layers_told(a: Profile, b: Profile) -> bool:
    return len(layers(a)) > 0 and len(layers(b)) > 0


def _names_alike(a: Profile, b: Profile) -> float:
    """The best of three views: rewriting kernels, fusing operators or moving the loader changes one, not all."""
    kernels = similarity(kernel_work(a)["count"], kernel_work(b)["count"])
    operators = similarity(operator_work(a)["count"], operator_work(b)["count"])
    backward = similarity(backward_nodes(operator_work(a)), backward_nodes(operator_work(b)))
    return max(kernels, operators, backward)


def _noted(a: Profile, differences: Iterable[Difference]) -> list[Difference]:
    least_ms = a.median_step_ms * a.thresholds["noted_pct"] / 100.0
    return sorted((each for each in differences if abs(each.delta) >= least_ms), key=lambda each: -abs(each.delta))


def _by_name(
    a: Profile, b: Profile, what: What, work: Callable[[Profile], pd.DataFrame], metric: str
) -> tuple[Difference, ...]:
    change = work(b)["ms"].sub(work(a)["ms"], fill_value=0.0)
    largest = change.abs().sort_values(ascending=False, kind="stable").index[:SHOWN]
    return tuple(_noted(a, [difference(a, b, what, str(name), metric, name=str(name)) for name in largest]))


def _loader(profile: Profile) -> str:
    names = [view.names(view.loader_rows[:1]) for view in profile.ranks if len(view.loader_rows)]
    return names[0][0] if names else ""


def _host_only(profile: Profile) -> bool:
    """Whether there is no device to name: neither the trace nor what the monitor was told of torch holds one."""
    return not profile.run.has_device and not _devices(profile) and not _accelerator_told(profile)


def _accelerator_told(profile: Profile) -> bool:
    records = profile.run.records
    if records is None:
        return False
    ranks = {each.rank for each in records.ranks}
    told = {value for rank in ranks for value in flag_values(records.environments, rank, "accelerator")}
    return not told <= {"none", "unknown"}


def _notes(a: Profile, b: Profile) -> tuple[str, ...]:
    notes = []
    if not (_devices(a) and _devices(b)) and not (_host_only(a) and _host_only(b)):
        notes.append("At least one run does not name its devices; that they are the same was assumed.")
    if a.run.layout.world_size is None or b.run.layout.world_size is None:
        notes.append("At least one run does not tell its world size; that it is the same was assumed.")
    return tuple(notes)


def _which(a: Profile, b: Profile) -> str:
    """How the step of the headline is called; a diagnosis that knows unprofiled steps speaks of those."""
    if by_series(a, b):
        return "unprofiled step"
    return "step" if a.series is None and b.series is None else "traced step"


def _headline(step: Difference, which: str) -> Sentence:
    if step.delta == 0:
        return Sentence(f"The average {which} is as long as before: {{0}}.", (step.after,))
    return Sentence(f"The average {which} {step.verb} from {{0}} to {{1}}.", (step.before, step.after))


def _loader_change(loaders: tuple[str, str]) -> tuple[Sentence, ...]:
    if loaders[0] == loaders[1]:
        return ()
    match loaders:
        case (before, ""):
            return (Sentence("The data-loader span {n0} is gone.", names=(before,)),)
        case ("", after):
            return (Sentence("There is a data-loader span {n0} now.", names=(after,)),)
        case _:
            return (Sentence("Data comes through {n1} instead of {n0}.", names=loaders),)


def _part_change(part: Difference) -> Sentence:
    what = part.name.replace("_", " ").replace("memcpy", "copy").capitalize()
    return Sentence(f"{what} {part.verb} from {{0}} to {{1}} per step.", (part.before, part.after))


def _work_change(work: Difference) -> Sentence:
    own = "own time of the operator" if work.what == "operator" else "kernel"
    return Sentence(
        f"The {own} {{n0}} {work.verb} from {{0}} to {{1}} per step.", (work.before, work.after), (work.name,)
    )
