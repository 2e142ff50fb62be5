"""Answers about processes that are not of the run: whether they take the training's cores, and which they are."""

from __future__ import annotations

from hermes_agent.model.display import cause_title
from hermes_agent.questions.answers.certainty import check_text
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, capital, paragraph
from hermes_agent.questions.reading.question import Question, wording

CHECK = "cpu.contention"
DELAY = "training_run_delay_us"


def which_process(discussion: Discussion, _: Question) -> str:
    """Whether the training waits for a core, and the name of the process that has it where the monitor noted it."""
    named = _named(discussion)
    seen = "The monitor's agent last noted these other processes, 100 % is one core: {n0}."
    noted = discussion.say(seen, names=(named,)) if named else wording("process_unnamed")
    cause = next((each for each in discussion.diagnosis.causes if each.cause == "cpu_contention"), None)
    if cause is not None:
        lead = f"The cause found is {cause_title(cause.cause, cause.mechanism)}."
        return blocks([paragraph([lead, cause.claim, *cause.details]), noted])
    check = next((each for each in discussion.diagnosis.checks if each.analyzer == CHECK), None)
    if check is None or check.status == "cannot_answer":
        return blocks([paragraph([wording("process_open"), check_text(check) if check else ""]), noted])
    lead = "" if check.status == "found" else f"{capital(cause_title('cpu_contention', None))} was not found."
    return blocks([paragraph([lead, *check.text]), noted])


def slower_cpu(discussion: Discussion, question: Question) -> str | None:
    """Whether a rank gets less of its core than others, by how long its training thread waits for one.

    None where that is not recorded of all of them.
    """
    rank = question.ranks[0]
    others = question.ranks[1:] or tuple(each for each in discussion.ranks if each != rank)
    waits = {each: discussion.measured("counter_ms_per_step", rank=each, field=DELAY) for each in (rank, *others)}
    known = {each: fact for each, fact in waits.items() if fact is not None}
    series = discussion.profile().series
    if len(known) < 2 or len(known) < len(waits) or series is None:
        return None
    most = max(others, key=lambda each: known[each].value)
    excess_pct = 100.0 * (known[rank].value - known[most].value) / series.mean_ms
    noted = discussion.profile().thresholds["noted_pct"]
    lead = "Yes" if excess_pct >= noted else "No, the other way round" if excess_pct <= -noted else "No"
    text = f"{lead}: the training thread of rank {rank} has no core for {{0}} per step, that of rank {most} for {{1}}."
    said = discussion.say(text, known[rank], known[most])
    return paragraph([said, wording("core_alike") if lead == "No" else wording("core_is_shared")])


def _named(discussion: Discussion) -> str:
    """The processes of others at the last anomaly at which the monitor's agent noted any; empty where it did not."""
    records = discussion.profile().run.records
    noted = [] if records is None else [str(each) for each in records.anomalies.get("foreign", ()) if each]
    return noted[-1] if noted else ""
