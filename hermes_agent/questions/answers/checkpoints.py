"""Answers about how often and how long the training saves its state."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hermes_agent.model.display import counted
from hermes_agent.questions.answers.causes import about
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, bullets, listed
from hermes_agent.questions.reading.question import Question, subject_of, wording
from tools.metrics.recorded.saves import saves
from tools.metrics.recorded.series import rank_stalls

INTERVAL = re.compile(
    r"\b(?:sav(?:e|es|ed|ing)|checkpoint\w*|snapshots?)\b.*\bevery (?P<every>\d{1,7}) (?:steps?|iterations?|batches)\b"
)


def saved_states(discussion: Discussion, question: Question) -> str:
    """The recorded steps in which a state is saved, by rank; else what the checks say, and what is missing."""
    profile = discussion.profile()
    ranks = [view.rank.rank for view in (profile.ranks if profile.traced else ()) if view.rank.has_device]
    rows = [_of_rank(discussion, rank) for rank in ranks if not question.ranks or rank in question.ranks]
    if any(rows):
        return blocks(["Steps that save a state, as the trace shows them:", bullets(rows)])
    subject = subject_of("checkpoints")
    found = any(each.cause == "checkpoint_stall" for each in discussion.diagnosis.causes)
    noted = discussion.measured("noted_saves")
    said = wording("no_saves") if noted is None else discussion.say(wording("noted_saves"), noted)
    return blocks(["" if found else said, about(discussion, subject) if subject else ""])


def other_interval(discussion: Discussion, question: Question) -> str:
    """The mean step if the state were saved every so many steps, where its saves show as periodic stalls; else why not
    and what is known; empty where the question names no such interval."""
    named = INTERVAL.search(question.words)
    if named is None:
        return ""
    every, stalls = int(named["every"]), _stalls(discussion)
    if stalls is None or not every:
        return _interval_open(discussion)
    where = f" of rank {stalls.rank}" if len(discussion.ranks) > 1 else ""
    return _said(discussion, stalls, wording("interval").format(where=where, every=every), every=every)


def interval_range(discussion: Discussion, _: Question) -> str:
    """The intervals at which saves would cost little, where they show as periodic stalls; else why not."""
    stalls = _stalls(discussion)
    return _interval_open(discussion) if stalls is None else _said(discussion, stalls, wording("interval_range"))


def save_cost(discussion: Discussion, _: Question) -> str | None:
    """How much longer a step with a save takes, where saves show as periodic stalls; else None."""
    stalls = _stalls(discussion)
    return None if stalls is None else _said(discussion, stalls, wording("save_cost"))


@dataclass(frozen=True)
class _Stalls:
    """The rank that loses most to periodic stalls, and the lead of these where no record says that they are saves."""

    rank: int
    lead: str = ""


def _stalls(discussion: Discussion) -> _Stalls | None:
    """Periodic stalls that were found to be saves, or may well be; None without such."""
    profile = discussion.profile()
    stalls = rank_stalls(profile) if profile.series is not None else {}
    if not stalls:
        return None
    worst = max(stalls, key=lambda each: (stalls[each].cost_ms, -each))
    if any(each.cause == "checkpoint_stall" for each in discussion.diagnosis.causes):
        return _Stalls(worst)
    leads = (each for each in discussion.diagnosis.leads if each.place.part == "step")
    lead = next((each.id for each in leads if [one.cause for one in each.candidates[:1]] == ["checkpoint_stall"]), None)
    return None if lead is None else _Stalls(worst, lead)


def _said(discussion: Discussion, stalls: _Stalls, text: str, every: int | None = None) -> str:
    """The text with its figures, after the condition on which it holds where no record says what the stalls are."""
    assumed = wording("assumed_saves").format(lead=stalls.lead) if stalls.lead else ""
    return discussion.say(f"{assumed} {text}".lstrip(), rank=stalls.rank, every=every)


def _interval_open(discussion: Discussion) -> str:
    subject = subject_of("checkpoints")
    return blocks([wording("interval_open"), about(discussion, subject) if subject else ""])


def _of_rank(discussion: Discussion, rank: int) -> str:
    profile = discussion.profile()
    steps = saves(profile, rank).steps
    if not steps:
        return ""
    share = f"{counted(len(steps), 'step')} of {len(profile.rank(rank).steps)}"
    text = (
        f"rank {rank}: {share} ({listed([str(step) for step in steps])}); each copies {{saved_bytes}} to the host, and "
        "the device waits {save_stall_ms} per step, as the mean over all steps"
    )
    return discussion.say(text, rank=rank)
