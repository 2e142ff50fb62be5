"""The kinds of questions: the answer of each, and what holds for answers of a kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from hermes_agent.questions import alternatives
from hermes_agent.questions.answers import (
    advice,
    bounded,
    causes,
    certainty,
    checkpoints,
    comparisons,
    counts,
    device,
    drifts,
    events,
    evidence_lookup,
    hangs,
    job_output,
    logged_setup,
    logged_steps,
    logged_work,
    other_processes,
    overlaps,
    percentiles,
    pipelines,
    places,
    ranks,
    setup,
    single_collective,
    steps,
    throughput,
    whole_run,
)
from hermes_agent.questions.answers.last_calls import last_call
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets
from hermes_agent.questions.reading.question import Question, lexicon

NOT_UNDERSTOOD = "not_understood"
NOT_MEASURABLE = "not_measurable"
FIGURE = "figure"  # one figure by its metric, where no kind of question gave what was asked

Answering = Callable[[Discussion, Question], str | None]  # None: not meant after all, try the next


def _help(_: Discussion, __: Question) -> str:
    rows = bullets(f"{intent.about}: “{intent.example}”" for intent in lexicon().intents.values() if intent.example)
    return f"You can ask:\n{rows}\n\nAnswers cite their evidence; `show E1` opens it."


def _overview(discussion: Discussion, question: Question) -> str | None:
    summary = advice.summarise(discussion, question)
    if summary is None:
        return None
    return blocks([steps.longest_first(discussion, question), summary, job_output.small_wait(discussion)])


PAGED = {
    *("kernels", "layers", "code_lines", "worst_shape", "device_gaps", "two_places", "overlap", "settings"),
    *("counts", "streams"),
}
# Kinds whose answers are no figures, or that say by themselves what they cannot give.
OF_NO_FIGURE = {
    "single_collective",
    "help", "workload", "what_if", "identifiers", "gaps", "comparison", "two_places", "timeline", "event", "settings",
    "hosts", "optimizer", "not_recorded", "similar_cases", "certainty", "workers", "change", "flops", "bound",
    "longer_steps", "code_lines", "layers", "worst_shape", "group_cost", "device_gaps", "overlap", "whole_run",
    "device_doing", "kind_of_work", "recording", "host_use", "throughput", "pipeline_schedule", "drift", "timeouts",
    "skipped_steps",
    "flop_rate", "start", "percentile", "critical_path", "hang", "slower_since", "low_rate", "awaited", "rhythm",
    "sampled_devices", "last_call", "save_interval", "save_cost", "other_process",
    "two_runs", "slower_cpu", "evaluations",
    "one_step", "changed_after", "first_step", "how_steady", "between_epochs", "restarted", "batch_size", "precision",
    "epochs", "devices", "saves", "not_finite", "stage_layers", "experts", "stated_eta",
}  # fmt: skip
# Kinds that speak of the question itself, or of a change and a case in words of their own.
OF_THEIR_OWN = {
    NOT_UNDERSTOOD, FIGURE, "help", "identifiers", "workload", "what_if", "similar_cases", "not_recorded", "change",
    "settings", "gaps", "certainty",
}  # fmt: skip
OF_PARTS = {"suspicion", "host_use", "bound", "utilisation", "not_recorded", "overlap", "launch_queue"}
BROAD = {  # kinds that answer whatever holds one of their words
    NOT_UNDERSTOOD, NOT_MEASURABLE, "ranks", "steps", "breakdown", "overview", "suspicion", "definition", "duration",
}  # fmt: skip
OF_TROUBLE = {
    "ranks",
    "bound",
    "timeouts",
    "suspicion",
    "longer_steps",
}  # asked of what is wrong: the diagnosis is of it
OPINIONS = {NOT_UNDERSTOOD, "suspicion", "definition", "overview"}  # no answers to a question for a figure
OF_ALL_RANKS = {"steps"}  # their answers do not look at the ranks named
OF_ALL_STEPS = {
    "ranks", "waiting", "utilisation", "launch_queue", "memory", "named_work", "operation", "host_calls",
    "collectives", "percentile", "worst_shape", "group_cost", "flops",
}  # fmt: skip
OF_ANY_RANK = {
    "help",
    "identifiers",
    "similar_cases",
    "kind_of_work",
    "recording",
    "named_work",
    "definition",
    "suspicion",
    "timeouts",
    "drift",
    "hang",
    "last_call",
    "slower_since",
    "low_rate",
    "sampled_devices",
}
ANSWERS: Mapping[str, Answering] = MappingProxyType(
    {
        "help": _help,
        "pipeline_schedule": pipelines.pipeline_schedule,
        "last_call": last_call,
        "hang": hangs.hang,
        "slower_since": drifts.slower_since,
        "low_rate": job_output.low_rate,
        "awaited": ranks.awaited,
        "sampled_devices": hangs.sampled_devices,
        "other_process": other_processes.which_process,
        "slower_cpu": other_processes.slower_cpu,
        "rhythm": steps.rhythm,
        "drift": drifts.drift,
        "timeouts": hangs.timeouts,
        "not_finite": job_output.not_finite,
        "stated_eta": job_output.stated_eta,
        "experts": setup.experts,
        "stage_layers": pipelines.stage_layers,
        "skipped_steps": job_output.skipped_steps,
        "flop_rate": job_output.flop_rate,
        "one_step": logged_steps.one_step,
        "changed_after": logged_steps.changed_after,
        "first_step": logged_steps.first_step,
        "how_steady": logged_steps.how_steady,
        "between_epochs": logged_steps.between_epochs,
        "restarted": logged_steps.restarted,
        "batch_size": logged_setup.batch_size,
        "precision": logged_setup.precision,
        "epochs": logged_setup.epochs,
        "devices": logged_setup.devices,
        "evaluations": logged_work.evaluations,
        "saves": logged_work.saves,
        "start": job_output.start,
        "workload": setup.workload,
        "what_if": advice.what_if,
        "of_length": bounded.of_length,
        "identifiers": evidence_lookup.explain_ids,
        "gaps": certainty.unanswered_checks,
        "comparison": advice.against_baseline,
        "two_runs": comparisons.two_runs,
        "two_places": comparisons.two_places,
        "timeline": setup.timeline,
        "event": events.one_event,
        "single_collective": single_collective.one_collective,
        "overlap": overlaps.overlap,
        "phases": places.phase_times,
        "layers": places.layers,
        "code_lines": places.lines,
        "worst_shape": places.shapes,
        "group_cost": places.group_cost,
        "device_gaps": overlaps.gaps,
        "settings": setup.settings,
        "bound": lambda discussion, question: blocks(
            [device.which_limit(discussion, question), steps.break_down(discussion, question)]
        ),
        "longer_steps": setup.longer_steps,
        "counts": counts.how_many,
        "streams": counts.streams,
        "throughput": throughput.rate,
        "whole_run": whole_run.whole_run,
        "checkpoints": checkpoints.saved_states,
        "save_interval": checkpoints.interval_range,
        "save_cost": checkpoints.save_cost,
        "hosts": setup.hosts,
        "optimizer": setup.optimizer,
        "host_use": setup.host_use,
        "not_recorded": setup.not_recorded,
        "similar_cases": evidence_lookup.similar_cases,
        "certainty": certainty.how_sure,
        "workers": advice.how_many_workers,
        "named_work": device.named_work,
        "operation": events.operation,
        "percentile": percentiles.percentiles,
        "duration": steps.how_long,
        "kernels": events.longest_kernels,
        "host_calls": events.top_calls,
        "collectives": device.collectives_by_kind,
        "waiting": ranks.why_wait,
        "launch_queue": device.launch_queue,
        "flops": setup.flops,
        "utilisation": device.how_busy,
        "memory": device.memory_peak,
        "device_doing": lambda discussion, question: blocks(
            [device.how_busy(discussion, question), steps.break_down(discussion, question)]
        ),
        "kind_of_work": setup.kind_of_work,
        "recording": device.what_is_recorded,
        "critical_path": steps.on_critical_path,
        "breakdown": steps.break_down,
        "change": advice.what_to_change,
        "ranks": ranks.which_rank,
        "steps": steps.which_step,
        "overview": _overview,
        "definition": causes.define,
        "suspicion": alternatives.suspect_each,
    }
)
