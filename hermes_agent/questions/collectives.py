"""Which collectives run, how often and for how long?"""

from __future__ import annotations

import re

from hermes_agent.model.display import plain
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.places import no_such_rank
from hermes_agent.questions.prose import blocks, paragraph, table
from hermes_agent.questions.question import Question
from tools.knowledge.name_patterns import COLLECTIVE_KINDS
from tools.views.collectives import collectives

NAMES = {kind: plain(kind).replace(" ", " ?") for kind, _ in COLLECTIVE_KINDS}
UNNAMED = "of a kind the trace does not tell"


def by_kind(discussion: Discussion, question: Question) -> str:
    """Number and time per step of every kind of collective, or of the kind that was named."""
    if refusal := no_such_rank(discussion, question):
        return refusal
    return blocks(_listed(discussion, question, rank) for rank in (question.ranks or (None,)))


def none_recorded(discussion: Discussion) -> str:
    """That the steps hold no collective at all, with the count; empty when they hold some."""
    table_of = collectives(discussion.material.profile())
    if (table_of["step"] >= 0).any():
        return ""
    fact = discussion.measure("collective_count")
    return discussion.say("There are no collectives in the recorded steps: {0} per step.", fact)


def asked_kind(words: str) -> str | None:
    """The kind of collective that normalised words name; the longer names hold the shorter ones."""
    return next((kind for kind, name in NAMES.items() if re.search(rf"\b{name}s?\b", words)), None)


def _listed(discussion: Discussion, question: Question, rank: int | None) -> str:
    profile = discussion.material.profile()
    known = collectives(profile)
    known = known[known["step"] >= 0]
    known = known if rank is None else known[known["rank"] == rank]
    if known.empty:
        return none_recorded(discussion) or f"There are no collectives in the recorded steps of rank {rank}."
    spent = (known["end_ns"] - known["start_ns"]).groupby(known["kind"]).sum()
    kinds = [str(kind) for kind in spent.sort_values(ascending=False, kind="stable").index]
    wanted = asked_kind(question.words)
    absent = (
        f"There is no {plain(wanted)} in the recorded steps; there are these." if wanted and wanted not in kinds else ""
    )
    rows = [_row(discussion, kind, rank) for kind in kinds if wanted in (None, kind) or absent]
    whose = f" of rank {rank}" if rank is not None else " and rank" if len(profile.ranks) > 1 else ""
    lead = f"Collectives per step{whose}, the longest first; their time holds the waiting for late ranks."
    return blocks([paragraph([absent, lead]), table(("kind", "per step", "time per step", "mean of one"), rows)])


def _row(discussion: Discussion, kind: str, rank: int | None) -> list[str]:
    where = {} if rank is None else {"rank": rank}
    metrics = ("collective_count", "collective_ms", "collective_mean_ms")
    cells = [discussion.say("{0}", discussion.measure(metric, kind=kind, **where)) for metric in metrics]
    return [plain(kind) or UNNAMED, *cells]
