"""Answers about how many events of a kind a step holds and how long they run: kernels, copies, launches, streams."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hermes_agent.model.display import counted, rank_list
from hermes_agent.questions.answers.device import COLLECTIVE_NAMES, RANKS_LISTED, slowest_rank
from hermes_agent.questions.answers.events import group_table, more
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import blocks, capital, paragraph, table
from hermes_agent.questions.reading.lengths import Lengths, bounds, lengths, without_side
from hermes_agent.questions.reading.question import Question, lexicon, of_all_steps, wording
from hermes_agent.questions.tool_context import called
from tools.agent_tools.find_events import GroupRow

LISTED = 5


def how_many(discussion: Discussion, question: Question) -> str | None:
    """Number and time of the events of the kind that is named, by rank, and by name on one rank."""
    kind = next((each for each in lexicon().event_kinds if re.search(rf"\b(?:{each.words})\b", question.words)), None)
    if (
        kind is None
        or question.names
        or any(re.search(rf"\b{name}s?\b", question.words) for name in COLLECTIVE_NAMES.values())
    ):
        return None
    if without_side(question.text):
        return wording("without_side")
    profile = discussion.profile()
    recorded = [view.rank.rank for view in profile.ranks]
    ranks = [rank for rank in question.ranks or recorded if rank in recorded]
    if kind.device and not any(profile.rank(rank).rank.has_device for rank in ranks):
        return wording("no_device_events").format(kind.title)
    asked = _Asked(kind.title, kind.kind, kind.part, lengths(question.text))
    shown = ranks if len(ranks) <= RANKS_LISTED else sorted(ranks, key=lambda rank: -asked.count(discussion, rank))
    if not any(asked.count(discussion, rank) for rank in shown):
        return f"There are no {asked.named} in the recorded steps of {rank_list(shown)}."
    one = question.ranks[0] if question.ranks else slowest_rank(discussion)
    if question.page:
        return asked.by_name(discussion, question.page, one)
    some = f"The {RANKS_LISTED} of {len(ranks)} ranks with most." if len(ranks) > RANKS_LISTED else ""
    return blocks(
        [
            of_all_steps(question),
            f"{capital(asked.named)} by rank, as the mean per step; what runs at the same time counts once:",
            asked.by_rank(discussion, shown[:RANKS_LISTED]),
            some,
            asked.by_name(discussion, question.page, one),
        ]
    )


def streams(discussion: Discussion, question: Question) -> str:
    """The streams of a rank's device with the time of their kernels, on a CPU its threads."""
    rank = question.ranks[0] if question.ranks else slowest_rank(discussion)
    device = discussion.profile().rank(rank).rank.has_device
    kind = "device" if device else "operator"
    found = called(discussion, "find_events", question.page, rank=rank, kind=kind, group_by="stream", limit=LISTED)
    rows = [row for row in found.rows if isinstance(row, GroupRow)]
    if not rows:
        return paragraph(found.notes) or f"Nothing of rank {rank} runs inside its steps."
    what = "device streams of rank {} with their work" if device else "threads of rank {} with their operators"
    none = "" if device else wording("no_streams")
    lead = f"The {what.format(rank)}, the busiest first, in ms per step ({found.total} in all):"
    return blocks([none, lead, group_table(rows), more(found)])


@dataclass(frozen=True)
class _Asked:
    """Events of one kind whose name holds ``part`` and that are so long; ``title`` names them."""

    title: str
    kind: str
    part: str
    length: Lengths | None

    @property
    def named(self) -> str:
        """``kernels of at least 1 ms``."""
        return f"{self.title} {self.length.text}" if self.length else self.title

    def count(self, discussion: Discussion, rank: int) -> float:
        """How many a step of the rank holds."""
        return discussion.measure("kind_count", rank=rank, **self._given()).value

    def by_rank(self, discussion: Discussion, ranks: Sequence[int]) -> str:
        """Number and time per step of each rank."""
        metrics = ("kind_count", "kind_ms")
        rows = [
            [f"rank {rank}", *(discussion.figure(name, rank=rank, **self._given()) for name in metrics)]
            for rank in ranks
        ]
        return table(("rank", "per step", "time per step"), rows)

    def by_name(self, discussion: Discussion, page: int, rank: int) -> str:
        """The names with most time on one rank; empty where it has none."""
        if not self.count(discussion, rank):
            return ""
        given = {"kind": self.kind, "contains": self.part or None, **bounds(self.length)}
        found = called(discussion, "find_events", page, rank=rank, group_by="name", limit=LISTED, **given)
        rows = [row for row in found.rows if isinstance(row, GroupRow)]
        lead = f"By name on rank {rank}, in ms per step, the count over all its steps ({counted(found.total, 'name')}):"
        return blocks([lead, group_table(rows), more(found)])

    def _given(self) -> dict[str, str | float | None]:
        return {"kind": self.kind, "part": self.part or None, **bounds(self.length)}
