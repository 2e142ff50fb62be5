"""The steps that a run tracker's records name: the time they state, else the time between the records of steps."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from tools.run.events import empty_table
from tools.run.recorded.job_log import ACTION_COLUMNS, COMM_TEST_COLUMNS, STEP_COLUMNS, TIMER_COLUMNS, Cited, JobLog
from tools.sources.job_log.grammars.generic_lines import STEP_KEYS, field_name, of_mapping
from tools.sources.job_log.messages import ARGUMENTS
from tools.sources.job_log.numbers import number
from tools.sources.job_log.prefixes import Stamp
from tools.sources.job_log.series import Series, StepRows

CLOCK = "_timestamp"
OWN_STEP = "_step"  # of the tracker: it counts records
CLOCK_S = 1e-3  # resolution of a tracker's clock
# Times whose unit the writer's source states, and not their name.
IN_SECONDS = {
    "iteration-time": "iteration_time_s",  # Megatron-LM, training_log
    "perf/time_per_step": "time_per_step_s",  # verl, compute_throughout_metrics
}
OF_INTERVAL = "time_metrics/end_to_end(s)"  # torchtitan: the mean over the steps since the last record
TOKENS = re.compile(r"(?:.*/)?(?:throughput\(tps\)|tokens?(?:_per_|/)s(?:ec(?:ond)?)?|tps)\Z")
# Of a model's configuration in Hugging Face Transformers, under Megatron-LM's names.
SIZE_NAMES = {"num_hidden_layers": "num_layers", "intermediate_size": "ffn_hidden_size"}
SUMMARY = re.compile(r"(?:.*/)?train_runtime\Z")  # the last record of HF Trainer: of the whole training


class TrackedSteps:
    """Collects the records of one tracker file that name a step."""

    def __init__(self, grammar: str) -> None:
        self.grammar = grammar
        self._named, self._numbered = StepRows(grammar, tracked=True), StepRows(grammar, tracked=True)

    def add(self, record: int, values: Mapping[str, object]) -> None:
        """Take one record; ``values`` with the time at which it was written under ``CLOCK``."""
        if any(SUMMARY.match(name) for name in values):
            return
        named = [name for name in values if name != OWN_STEP and STEP_KEYS.match(field_name(name))]
        rows = self._named if named else self._numbered
        ordered = {name: values[name] for name in (*named, OWN_STEP, CLOCK) if name in values}
        ordered |= {IN_SECONDS.get(name, name): value for name, value in values.items() if name not in ordered}
        if OF_INTERVAL in values:
            ordered["step_time_s"] = ordered.pop(OF_INTERVAL)
        found = of_mapping(ordered, self.grammar)
        if found is None:
            return
        tokens = next((number(str(value)) for name, value in values.items() if TOKENS.match(field_name(name))), None)
        clock = number(str(values.get(CLOCK)))
        stamp = None if clock is None else Stamp(clock, CLOCK_S, dated=True, zoned=True)
        if stamp is not None or found.wall_ms is not None:
            found = replace(found, epoch=None, tokens_per_s=tokens, of="mean" if OF_INTERVAL in values else found.of)
            rows.add(found, record, stamp)

    def series(self) -> tuple[Series | None, list[str]]:
        """The series of steps that the training names, else of those that the tracker counts; and notes."""
        series = self._named.series() if len(self._named) else None
        notes: list[str] = []
        if series is None and len(self._numbered):
            series = self._numbered.series()
            if series is not None:
                notes.append("its records name no step of the training: each record is taken for one step")
        if series is None:
            return None, notes
        if series.step_time == "stamps":
            notes.append("its records state no step time: the time between them is used")
        return series, [*series.notes, *notes]


def tracked_log(
    name: str,
    series: Series | None,
    settings: Mapping[str, tuple[str, int]] | None = None,
    summary: Mapping[str, Cited] = MappingProxyType({}),
) -> JobLog:
    """The record of one tracker file; ``settings`` by name with the record that states them, and a ``summary`` of the
    whole training."""
    named = {SIZE_NAMES.get(key, key): stated for key, stated in (settings or {}).items()}
    known = {key: Cited(value, record) for key, (value, record) in named.items() if key in ARGUMENTS}
    steps = empty_table(STEP_COLUMNS)
    if series is not None:
        steps = series.table.assign(rank=0, file=0)[list(STEP_COLUMNS)].astype(STEP_COLUMNS)
    return JobLog(
        steps=steps,
        timers=empty_table(TIMER_COLUMNS),
        comm_tests=empty_table(COMM_TEST_COLUMNS),
        actions=empty_table(ACTION_COLUMNS),
        files=(name,),
        step_time="step" if series is None else series.step_time,
        clock="none" if series is None else series.clock,
        grammars=() if series is None else (series.grammar,),
        settings={**known, **summary},
        ranks_stated=series is None,
    )


def most_steps(logs: Sequence[JobLog]) -> tuple[JobLog | None, tuple[str, ...]]:
    """Of the files of one tracker, which do not name their rank, the record with the most steps."""
    if len(logs) < 2:
        return (logs[0] if logs else None), ()
    best = max(logs, key=lambda log: len(log.steps))
    return best, (f"{len(logs)} files of a tracker hold steps or settings; {best.files[0]} has the most and is used",)
