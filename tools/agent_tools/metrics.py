"""Any single figure, by the name of its metric."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import get_type_hints

from pydantic import Field, TypeAdapter, ValidationError

from tools.agent_tools.context import MOST_ROWS, ToolContext, page
from tools.agent_tools.tool import Arguments
from tools.errors import UsageError
from tools.findings import Argument
from tools.judgement.catalog import metrics
from tools.metrics.measurement import Metric


class ListMetrics(Arguments):
    """A part of the metrics."""

    contains: str = Field(default="", max_length=80, description="only metrics with this text in name or question")


def list_metrics(_: ToolContext, asked: ListMetrics) -> str:
    """The metrics that measure can take, with their arguments, unit and the question each answers."""
    text = asked.contains.lower()
    chosen = [metric for metric in metrics().values() if text in f"{metric.name} {metric.question}".lower()]
    lines = [f"- {metric.name}({_signature(metric)}), {metric.unit}: {metric.question}" for metric in chosen]
    return page(lines[: 3 * MOST_ROWS], len(lines), "metrics")


class Measure(Arguments):
    """A metric with its arguments."""

    metric: str = Field(max_length=80, description="a name from list_metrics")
    arguments: dict[str, str | int | float | None] = Field(
        default_factory=dict, description='the arguments of that metric, for example {"rank": 0}'
    )


def measure(context: ToolContext, asked: Measure) -> str:
    """One figure of the run by the name of its metric, with an id."""
    known = metrics().get(asked.metric)
    if known is None:
        raise UsageError(f"there is no metric {asked.metric!r}; list_metrics gives those there are")
    arguments = _checked(known, asked.arguments)
    fact = context.measure(known.name, **arguments)
    scope = ", ".join(f"{name}={value}" for name, value in arguments.items())
    return context.say("{n0}: {0}", fact, names=(f"{known.name}({scope})",))


def _checked(metric: Metric, given: Mapping[str, Argument]) -> dict[str, Argument]:
    """The arguments as the metric's function declares them; raises UsageError naming those it takes."""
    parameters = _parameters(metric)
    hints = get_type_hints(metric.function)
    missing = [name for name, each in parameters.items() if each.default is each.empty and name not in given]
    unknown = [name for name in given if name not in parameters]
    if missing or unknown:
        what = f"needs {', '.join(missing)}" if missing else f"takes no {', '.join(unknown)}"
        raise UsageError(f"{metric.name} {what}; its arguments are ({_signature(metric)})")
    try:
        return {name: TypeAdapter(hints[name]).validate_python(value) for name, value in given.items()}
    except ValidationError as error:
        raise UsageError(f"the arguments do not fit {metric.name}({_signature(metric)})") from error


def _signature(metric: Metric) -> str:
    return ", ".join(
        f"{name}: {each.annotation}" + ("" if each.default is each.empty else f" = {each.default!r}")
        for name, each in _parameters(metric).items()
    )


def _parameters(metric: Metric) -> dict[str, inspect.Parameter]:
    parameters = dict(inspect.signature(metric.function).parameters)
    parameters.pop("profile")
    return parameters
