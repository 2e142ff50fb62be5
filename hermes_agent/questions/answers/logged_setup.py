"""Answers about the set-up of a run without a trace by the arguments that its output prints: batch size, precision,
epochs, devices."""

from __future__ import annotations

import re

from hermes_agent.model.display import counted
from hermes_agent.questions.answers.named_lines import may_state
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, listed, paragraph
from hermes_agent.questions.reading.question import Question, wording
from tools.run.recorded.job_log import JobLog
from tools.views.counters import counter_view

BATCH = (
    *("global_batch_size", "train_batch_size", "micro_batch_size", "train_micro_batch_size_per_gpu"),
    *("gradient_accumulation_steps", "num_micro_batches", "data_parallel_size"),
)
PRECISION = ("bf16", "fp16")
EPOCHS = "step_time.epochs"
NAMED = re.compile(r"\b(which|what)\b")


def batch_size(discussion: Discussion, _: Question) -> str | None:
    """The arguments that make up the batch, with their lines; None where a trace was read or no output."""
    log = _log(discussion)
    unknown = paragraph([wording("no_batch_size"), may_state(discussion, "batch")])
    return None if log is None else _stated(log, BATCH) or unknown


def precision(discussion: Discussion, _: Question) -> str | None:
    """The arguments that set the precision; None where a trace was read or no output."""
    log = _log(discussion)
    unknown = paragraph([wording("no_precision"), may_state(discussion, "precision")])
    return None if log is None else _stated(log, PRECISION) or unknown


def epochs(discussion: Discussion, _: Question) -> str | None:
    """How many epochs the arguments set and the lines show; None where a trace was read or no output."""
    log = _log(discussion)
    if log is None:
        return None
    seen = ""
    if log.epochs is not None and log.epochs.count > 1:
        seen = f"Its step lines are of {counted(log.epochs.count, 'epoch')}, from epoch {log.epochs.first} on."
    times = next((each.text for each in discussion.diagnosis.checks if each.analyzer == EPOCHS), [])
    return blocks([paragraph([_stated(log, ("epochs",)), seen]) or wording("no_epoch_count"), paragraph(times)])


def devices(discussion: Discussion, question: Question) -> str | None:
    """How many ranks the output states, and the devices that samples name; None where a trace was read or no output."""
    log = _log(discussion)
    if log is None:
        return None
    view = counter_view(discussion.profile())
    sampled = [] if view is None else sorted(view.devices)
    names = f"Sampled devices: {listed(sampled)}." if sampled else ""
    if NAMED.search(question.words):
        return names or wording("no_device_name")
    world = log.settings.get("world_size")
    stated = f"By line {world.line} the job has {counted(int(world.value), 'rank')}" if world else ""
    stated = f"{stated}; usually each has a device of its own." if stated else ""
    return paragraph([stated or wording("no_world_size"), names])


def _stated(log: JobLog, names: tuple[str, ...]) -> str:
    """The arguments of these names with their lines, as a sentence; empty where the output states none."""
    known = [(name, log.settings[name]) for name in names if name in log.settings]
    parts = [f"`{name}={each.value}` (line {each.line})" for name, each in known]
    return f"By the arguments that the output prints: {listed(parts)}." if parts else ""


def _log(discussion: Discussion) -> JobLog | None:
    """The job's output where no trace was read."""
    profile = discussion.profile()
    return None if profile.traced else profile.run.job_log
