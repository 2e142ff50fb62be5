"""Answers about a job that hangs: who is waited for, time-outs, and devices that samples tell apart."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hermes_agent.questions.answers.advice import summarise
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets, general, paragraph
from hermes_agent.questions.reading.question import YES_OR_NO, Question, wording
from tools.analyzers.steps.reported_errors import NOT_ARRIVED, WAITS

TIMEOUTS = "communication.timeouts"
HCCL_ERRORS = "communication.hccl_errors"
WAITING = (TIMEOUTS, HCCL_ERRORS)  # these name who waited
OF_COLLECTIVES = ("communication.flight_recorder", "communication.ras")  # these name who is missing
REPORTED = "communication.reported_ranks"
HANGS = (REPORTED, *OF_COLLECTIVES, TIMEOUTS, HCCL_ERRORS, "cpu.sampled_stacks")  # who is missing before who waited
SAMPLED = ("computation.clocks", "computation.devices_alike")  # checks of samples that tell devices apart
LOOK_THERE = "look there first"  # of a check that names who is missing or behind
MISSING_NAMED = re.compile(rf"\b[Rr]anks? [\d, and]+(of the communicator )?{NOT_ARRIVED}")
WHO = re.compile(r"\b(who|which|what) ?(ranks?|gpus?|nodes?|workers?)?\b")


def hang(discussion: Discussion, question: Question) -> str | None:
    """Who is waited for, by time-outs and the records of collectives, and what to look at next; None where no source
    shows a hang."""
    found = _found(discussion, HANGS)
    needs = discussion.diagnosis.next_measurements[:1]
    if found is None and not discussion.profile().measured:  # what else was read may show what waits
        return summarise(discussion, question)
    if found is None or not needs:
        return found
    of_waiting = _found(discussion, (REPORTED, *OF_COLLECTIVES)) is None and _found(discussion, WAITING) is not None
    of_waiting = of_waiting and not MISSING_NAMED.search(found)
    unnamed = of_waiting and LOOK_THERE not in found and WHO.search(question.words) is not None
    record = "To know more, record:\n" + bullets(f"{general(each)}." for each in needs)
    return blocks(
        [
            paragraph([wording("missing_unnamed") if unnamed else "", found]),
            wording("hang_next") if of_waiting else "",
            record,
        ]
    )


def sampled_devices(discussion: Discussion, _: Question) -> str | None:
    """Devices that samples tell apart; None where none are told apart so, or a trace tells more."""
    return None if discussion.profile().traced else _found(discussion, SAMPLED)


def _found(discussion: Discussion, names: Sequence[str]) -> str | None:
    """The sentences of those of the checks that found something."""
    checks = (discussion.check(name) for name in names)
    return blocks(paragraph(each.text) for each in checks if each is not None and each.status == "found") or None


def timeouts(discussion: Discussion, question: Question) -> str:
    """Whether a collective timed out, by the job's own output; who waited, where it is no question for yes or no."""
    check = discussion.check(TIMEOUTS)
    if not YES_OR_NO.search(question.words) and (found := _found(discussion, HANGS)) is not None:
        return hang(discussion, question) or found
    if check is not None and check.status == "found":
        ranks = discussion.check("communication.reported_ranks")
        return paragraph(["Yes:", *check.text, *([] if ranks is None else ranks.text)])
    log = discussion.profile().run.job_log
    waits = log is not None and any(each.code in WAITS for each in log.errors)
    if waits and (errors := discussion.check(HCCL_ERRORS)) is not None:
        return paragraph(["Yes:", *errors.text])
    return wording("timeouts_open") if discussion.profile().run.job_log is None else wording("no_timeouts")
