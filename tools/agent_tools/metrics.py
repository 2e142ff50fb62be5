"""Any single figure, by the name of its metric."""

from __future__ import annotations

import inspect
from typing import get_type_hints

from pydantic import Field, create_model

from tools.agent_tools.context import MOST_ROWS, ToolContext, page
from tools.agent_tools.tool import Arguments, check_arguments
from tools.errors import UsageError
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
    called = f"{known.name}({_signature(known)})"
    arguments = check_arguments(called, _arguments(known), asked.arguments).model_dump(exclude_unset=True)
    fact = context.measure(known.name, **arguments)
    scope = ", ".join(f"{name}={value}" for name, value in arguments.items())
    return context.say("{n0}: {0}", fact, names=(f"{known.name}({scope})",))


def _arguments(metric: Metric) -> type[Arguments]:
    """The arguments that the metric's function declares."""
    hints = get_type_hints(metric.function)
    fields = {
        name: (hints[name], ... if each.default is each.empty else each.default)
        for name, each in _parameters(metric).items()
    }
    model: type[Arguments] = create_model(metric.name, __base__=Arguments, **fields)  # type: ignore[call-overload]
    return model


def _signature(metric: Metric) -> str:
    return ", ".join(
        f"{name}: {each.annotation}" + ("" if each.default is each.empty else f" = {each.default!r}")
        for name, each in _parameters(metric).items()
    )


def _parameters(metric: Metric) -> dict[str, inspect.Parameter]:
    parameters = dict(inspect.signature(metric.function).parameters)
    parameters.pop("profile")
    return parameters
