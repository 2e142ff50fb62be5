"""What changed between two runs, or why they cannot be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from tools.errors import NotComparableError
from tools.findings import Argument, Fact, Sentence
from tools.metrics.registry import measure
from tools.profilers.layers import layers
from tools.profilers.parts import PARTS
from tools.profilers.profile import Profile
from tools.profilers.work import backward_nodes, kernel_work, operator_work, similarity

What = Literal["step_time", "part", "kernel", "operator"]

LIKENESS_LEAST = 0.3  # of layers, kernels, operators or backward nodes; the same model after a rewrite shares one view
# Names alone, where both runs tell the shapes of their layers and share hardly any: every training adds, copies and
# reduces, so two models have a third of their operators in common, while widths padded to a multiple change no name.
NAMES_LEAST = 0.5
SAME_ASSUMED = "Records do not tell model and devices; that they are the same was assumed."
SHOWN = 5  # kernels and operators listed, each
NAME_LIMIT = 60


@dataclass(frozen=True)
class Difference:
    """One figure in both runs. ``name`` is a part, or a kernel's or operator's name as recorded (untrusted)."""

    what: What
    name: str
    before: Fact
    after: Fact

    @property
    def delta(self) -> float:
        """After minus before, in the facts' unit."""
        return self.after.value - self.before.value


@dataclass(frozen=True)
class Comparison:
    """Two comparable runs: the baseline first, then what is held against it. Differences are largest first."""

    step: Difference
    parts: tuple[Difference, ...]
    kernels: tuple[Difference, ...]
    operators: tuple[Difference, ...]
    loaders: tuple[str, str]  # name of the data-loader span in each run, "" for none (untrusted)
    likeness: float  # 0..1, how much of their layers or of their work the runs share
    headline: Sentence
    changes: tuple[Sentence, ...]
    notes: tuple[str, ...] = ()  # what could not be verified


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
    step = _difference(a, b, "step_time", "", "step_time_ms", statistic="mean")
    parts = tuple(_noted(a, (_difference(a, b, "part", part, "part_ms", part=part) for part in PARTS)))
    kernels = _by_name(a, b, "kernel", kernel_work, "kernel_name_ms")
    operators = _by_name(a, b, "operator", operator_work, "operator_name_ms")
    loaders = _loader(a), _loader(b)
    return Comparison(
        step=step,
        parts=parts,
        kernels=kernels,
        operators=operators,
        loaders=loaders,
        likeness=max(shared, named),
        headline=_headline(step),
        changes=(
            *_loader_change(loaders),
            *(_part_change(each) for each in parts),
            *(_work_change(each) for each in (*kernels, *operators)),
        ),
        notes=_notes(a, b),
    )


def _of_steps(a: Profile, b: Profile) -> Comparison:
    """Where a run has no trace: the step time alone, by records of both."""
    reasons = [] if a.series and b.series else ["one of them has no trace and the other one no records or step log"]
    reasons += [reason for reason in (_world(a, b), _recorded_ranks(a, b)) if reason]
    if reasons:
        raise NotComparableError(
            f"the runs cannot be compared: {'; '.join(reasons)}. Record both with the same model, devices and ranks"
        )
    step = _difference(a, b, "step_time", "", "series_step_ms", statistic="mean")
    return Comparison(step, (), (), (), ("", ""), 0.0, _headline(step), (), (SAME_ASSUMED,))


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


def _difference(a: Profile, b: Profile, what: What, shown: str, metric: str, **arguments: Argument) -> Difference:
    return Difference(what, shown, measure(a, metric, **arguments), measure(b, metric, **arguments))


def _noted(a: Profile, differences: Iterable[Difference]) -> list[Difference]:
    least_ms = a.median_step_ms * a.thresholds["noted_pct"] / 100.0
    return sorted((each for each in differences if abs(each.delta) >= least_ms), key=lambda each: -abs(each.delta))


def _by_name(
    a: Profile, b: Profile, what: What, work: Callable[[Profile], pd.DataFrame], metric: str
) -> tuple[Difference, ...]:
    change = work(b)["ms"].sub(work(a)["ms"], fill_value=0.0)
    largest = change.abs().sort_values(ascending=False, kind="stable").index[:SHOWN]
    return tuple(_noted(a, [_difference(a, b, what, str(name), metric, name=str(name)) for name in largest]))


def _loader(profile: Profile) -> str:
    names = [view.names(view.loader_rows[:1]) for view in profile.ranks if len(view.loader_rows)]
    return names[0][0] if names else ""


def _notes(a: Profile, b: Profile) -> tuple[str, ...]:
    notes = []
    if not _devices(a) or not _devices(b):
        notes.append("At least one run does not name its devices; that they are the same was assumed.")
    if a.run.layout.world_size is None or b.run.layout.world_size is None:
        notes.append("At least one run does not tell its world size; that it is the same was assumed.")
    return tuple(notes)


def _headline(step: Difference) -> Sentence:
    if step.delta == 0:
        return Sentence("The average step is as long as before: {0}.", (step.after,))
    verb = "fell" if step.delta < 0 else "rose"
    return Sentence(f"The average step {verb} from {{0}} to {{1}}.", (step.before, step.after))


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
    verb = "fell" if part.delta < 0 else "rose"
    what = part.name.replace("_", " ").replace("memcpy", "copy").capitalize()
    return Sentence(f"{what} {verb} from {{0}} to {{1}} per step.", (part.before, part.after))


def _work_change(work: Difference) -> Sentence:
    own = "own time of the operator" if work.what == "operator" else "kernel"
    verb = "fell" if work.delta < 0 else "rose"
    return Sentence(f"The {own} {{n0}} {verb} from {{0}} to {{1}} per step.", (work.before, work.after), (work.name,))
