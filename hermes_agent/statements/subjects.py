"""What a figure or a cause is about, as groups of the vocabulary."""

from __future__ import annotations

from functools import lru_cache

from hermes_agent.model.diagnosis import EvidenceRecord
from hermes_agent.statements.wording import groups_of, vocabulary
from tools.judgement.catalog import metrics
from tools.knowledge.taxonomy import causes

OF_PREDICTION = ("predicted", "joint")
OF_SAVING = (*OF_PREDICTION, "saving", "impact", "cost")


def subjects_of_cause(name: str | None) -> frozenset[str]:
    """The subjects of a cause, ``slow_link`` or ``operator_dispatch:small_operators``; none for an unknown one."""
    cause, _, mechanism = (name or "").partition(":")
    if (known := causes().get(cause)) is None:
        return frozenset()
    lists = vocabulary()
    own = lists.causes.get(cause, frozenset()) | lists.families[known.family]
    return own | _subjects(f"{cause} {mechanism}")


def subjects_of_figure(record: EvidenceRecord) -> frozenset[str]:
    """The subjects of a figure; none where it is about the step as a whole."""
    if isinstance(cause := record.arguments.get("cause"), str):
        return subjects_of_cause(cause)
    values = tuple(str(value) for value in record.arguments.values() if isinstance(value, str))
    return _of_metric(record.metric, values)


def kinds_of_figure(record: EvidenceRecord) -> frozenset[str]:
    """The groups of ``figures_of`` whose words may stand with the figure."""
    statistic = record.arguments.get("statistic")
    kinds = {"cost"}
    if any(part in record.metric for part in OF_SAVING):
        kinds |= {"saving", "predicted"}
    if record.unit == "x" and "speedup" in record.metric and record.value != 1.0:
        kinds.add("faster" if record.value > 1.0 else "slower")
    if statistic in (None, "mean"):
        kinds.add("mean")
    if statistic == "median" or (statistic is None and record.metric == "step_time_ms"):
        kinds.add("median")
    if statistic == "max" or "longest" in record.metric:
        kinds.add("maximum")
    return frozenset(kinds)


def is_predicted(record: EvidenceRecord) -> bool:
    """Return whether the figure was predicted, not measured."""
    return any(part in record.metric for part in OF_PREDICTION)


def is_predicted_time(record: EvidenceRecord) -> bool:
    """Return whether the figure is what a step would take."""
    return is_predicted(record) and record.unit == "ms"


def is_saving(record: EvidenceRecord) -> bool:
    """Return whether the figure is what a step loses to something, or would save."""
    return not is_predicted(record) and any(part in record.metric for part in OF_SAVING)


@lru_cache(maxsize=4096)
def _of_metric(metric: str, values: tuple[str, ...]) -> frozenset[str]:
    lists = vocabulary()
    named = [part for part in lists.metrics if part in metric]
    own = lists.metrics[max(named, key=len)] if named else _subjects(metric)
    own |= frozenset().union(*(lists.values.get(value, _subjects(value)) for value in values))
    if not own and not named and (known := metrics().get(metric)) is not None and not metric.startswith("step"):
        own = _subjects(known.question)
    return own


def _subjects(text: str) -> frozenset[str]:
    groups = groups_of(text.lower().replace("_", " ").replace(":", " ").replace(".", " ").split()).values()
    return frozenset().union(*groups) - vocabulary().figure_groups
