"""Answers about how often and how long the training saves its state."""

from __future__ import annotations

import re

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
    return blocks(["" if found else wording("no_saves"), about(discussion, subject) if subject else ""])


def other_interval(discussion: Discussion, question: Question) -> str:
    """The mean step if the state were saved every so many steps, where its saves show as periodic stalls; else why not
    and what is known; empty where the question names no such interval."""
    named = INTERVAL.search(question.words)
    if named is None:
        return ""
    every, rank = int(named["every"]), _saving_rank(discussion)
    if rank is None or not every:
        return _interval_open(discussion)
    where = f" of rank {rank}" if len(discussion.ranks) > 1 else ""
    return discussion.say(wording("interval").format(where=where, every=every), rank=rank, every=every)


def interval_range(discussion: Discussion, _: Question) -> str:
    """The intervals at which saves would cost little, where they show as periodic stalls; else why not."""
    rank = _saving_rank(discussion)
    return _interval_open(discussion) if rank is None else discussion.say(wording("interval_range"), rank=rank)


def save_cost(discussion: Discussion, _: Question) -> str | None:
    """How much longer a step with a save takes, where saves show as periodic stalls; else None."""
    rank = _saving_rank(discussion)
    return None if rank is None else discussion.say(wording("save_cost"), rank=rank)


def _saving_rank(discussion: Discussion) -> int | None:
    """The rank that loses most to periodic stalls that were found to be saves; None without such."""
    profile = discussion.profile()
    found = any(each.cause == "checkpoint_stall" for each in discussion.diagnosis.causes)
    stalls = rank_stalls(profile) if found and profile.series is not None else {}
    return max(stalls, key=lambda each: (stalls[each].cost_ms, -each)) if stalls else None


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
