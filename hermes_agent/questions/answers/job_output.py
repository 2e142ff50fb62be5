"""Answers from the job's own output: skipped steps, a loss that is no finite number, rates, and the first line."""

from __future__ import annotations

import re

from hermes_agent.evidence.citations import cited_ids
from hermes_agent.questions.answers.setup import flops
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, paragraph
from hermes_agent.questions.reading.question import Question, wording
from tools.run.recorded.job_log import SINGLE
from tools.views.profile import Profile

OUTPUT = "step_time.output"
NOT_A_NUMBER = re.compile(r"\b(nans?|infs?|infinite)\b")


def small_wait(discussion: Discussion) -> str:
    """That steps hardly wait for data, where the job's own lines state it and the diagnosis does not; else empty."""
    check, taken = discussion.check("io.data_loader"), discussion.diagnosis.step_time_ms
    by_lines = taken is not None and taken.unprofiled is not None and taken.unprofiled.source == "job log"
    if not by_lines or check is None or check.status != "clean":
        return ""
    text, known = paragraph(check.text), " ".join(discussion.diagnosis.answer)
    return text if cited_ids(text) and not set(cited_ids(text)) & set(cited_ids(known)) else ""


def low_rate(discussion: Discussion, question: Question) -> str:
    """The rate as the job states it, where it does, and what the diagnosis says slows the steps down."""
    stated = "" if discussion.profile().traced else flop_rate(discussion, question)
    return blocks([stated if cited_ids(stated) else "", " ".join(discussion.diagnosis.answer)])


def skipped_steps(discussion: Discussion, question: Question) -> str:
    """Steps that were skipped for overflow, of all printed steps and of the later half."""
    not_a_number = _not_finite(discussion) if NOT_A_NUMBER.search(question.words) else ""
    later, all_steps = (discussion.measured("skipped_steps_pct", settled=settled) for settled in (1, 0))
    count = discussion.measured("skipped_steps")
    if all_steps is None or count is None:
        lines = discussion.measured("warning_lines", kind="fp16_overflow")
        said = wording("skipped_open") if lines is None else discussion.say(wording("overflow_lines"), lines)
        return paragraph([said, not_a_number])
    lead = "Yes, steps were skipped:" if all_steps.value > 0 else "No step was skipped for overflow:"
    if later is None:
        said = discussion.say(f"{lead} {{0}}, {{1}} of all printed ones.", count, all_steps)
        return paragraph([said, wording("skipped_at_start"), not_a_number])
    text = f"{lead} {{0}}, {{1}} of all printed steps, {{2}} of the later half."
    return paragraph([discussion.say(text, count, all_steps, later), not_a_number])


def _not_finite(discussion: Discussion) -> str:
    """In how many printed steps the loss is no finite number, or that none states so."""
    share = discussion.measured("not_finite_pct")
    if share is None:
        return wording("nan_not_read")
    return discussion.say("Loss or gradient norm is NaN or infinite in {0} of the printed steps.", share)


def not_finite(discussion: Discussion, _: Question) -> str:
    """In which steps the loss is no finite number, and what shows why."""
    if discussion.profile().run.job_log is None:
        return wording("nan_open")
    check = discussion.check(OUTPUT)
    lines = [] if check is None else [each for each in check.text if "NaN" in each]
    return blocks([paragraph(lines), wording("nan_why")]) if lines else wording("nan_not_read")


def stated_eta(discussion: Discussion, _: Question) -> str | None:
    """What an ETA that the output prints is worth: the mean step, and a long start; None where no step is known."""
    if not discussion.profile().measured:
        return None
    return blocks([" ".join(discussion.diagnosis.answer), wording("eta_is_mean")])


def flop_rate(discussion: Discussion, question: Question) -> str:
    """FLOP/s per device as the job states them; of a trace the MFU by the recorded shapes."""
    profile = discussion.profile()
    if profile.traced:
        rank = question.ranks[0] if question.ranks else min(profile.run.rank_numbers)
        rate = discussion.measured("achieved_tflops", rank=rank)
        text = f"Rank {rank} computes {{0}} over its mean step, by the operations whose shapes were recorded."
        return blocks(["" if rate is None else discussion.say(text, rate), flops(discussion, question)])
    if discussion.measured("stated_tflops") is None:
        return wording("no_tflops")
    return discussion.say("{stated_tflops} per device, as the mean of what the job's step lines state.")


def start(discussion: Discussion, _: Question) -> str:
    """The first step that the job's output prints against the usual ones."""
    if discussion.measured("first_step_ms") is None:
        return wording("start_open")
    first = _first_line(discussion.profile())
    if discussion.measured("first_step_excess_pct") is None:
        return discussion.say(f"{first}; of all printed ones the median is {{logged_step_ms:statistic=median}}.")
    usual = "those after the warm-up take {series_step_ms:statistic=mean} on average: it differs by"
    return discussion.say(f"{first}, {usual} {{first_step_excess_pct}}.")


def _first_line(profile: Profile) -> str:
    """What the first line with a time is of: one step, or a mean over several, which the first step may exceed."""
    log = profile.run.job_log
    assert log is not None  # its first step is measured
    row = log.steps[log.steps["wall_ms"].notna()].iloc[0]
    step, span = int(row["step"]), int(row["span"])
    if log.step_time in SINGLE:
        return f"The first printed step (step {step}) takes {{first_step_ms}}"
    series = profile.series
    why = f" ({series.averaged})" if series is not None and series.averaged else ""
    of = f"steps {step - span + 1} to {step}" if span > 1 else f"step {step}"
    return f"The first line with a step time, of {of}, gives {{first_step_ms}} a step{why}"
