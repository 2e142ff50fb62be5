"""Any metric by its name: the list of metrics, and one figure."""

from __future__ import annotations

import inspect
from typing import get_type_hints

from pydantic import Field, create_model

from tools.agent_tools.result import Paged, Result, Row, cited
from tools.agent_tools.tool import Arguments, ToolContext, check_arguments
from tools.judgement.catalog import metrics
from tools.metrics.measurement import Metric, choice


class ListMetrics(Paged):
    """A part of the metrics."""

    contains: str = Field(default="", max_length=80, description="only metrics with this text in name or question")


class MetricRow(Row):
    """One metric; ``id`` is its name."""

    arguments: str
    unit: str
    question: str


def list_metrics(_: ToolContext, asked: ListMetrics) -> Result:
    """The metrics that measure can take, with their arguments, unit and the question each answers."""
    text = asked.contains.lower()
    chosen = [metric for metric in metrics().values() if text in f"{metric.name} {metric.question}".lower()]
    page, cursor = asked.page(chosen)
    rows = tuple(
        MetricRow(id=each.name, arguments=_signature(each), unit=each.unit, question=each.question) for each in page
    )
    return Result(rows=rows, cursor=cursor, total=len(chosen))


class Measure(Arguments):
    """A metric with its arguments."""

    metric: str = Field(max_length=80, description="a name from list_metrics")
    arguments: dict[str, str | int | float | None] = Field(
        default_factory=dict, description='the arguments of that metric, for example {"rank": 0}'
    )


def measure(context: ToolContext, asked: Measure) -> Result:
    """One figure of the run by the name of its metric, with an id."""
    known = metrics()[choice("metric", asked.metric, metrics())]
    called = f"{known.name}({_signature(known)})"
    arguments = check_arguments(called, _arguments(known), asked.arguments).model_dump(exclude_unset=True)
    fact = context.measure(known.name, **arguments)
    scope = ", ".join(f"{name}={value}" for name, value in arguments.items())
    return Result(facts=(cited(context, "", fact, f"{known.name}({scope})"),))


def _arguments(metric: Metric) -> type[Arguments]:
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
