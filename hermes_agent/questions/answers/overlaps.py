"""Answers about what happens at the same time: overlap of communication with compute, and gaps of the device."""

from __future__ import annotations

import re

from hermes_agent.evidence.ledger import quoted
from hermes_agent.model.display import counted, plain
from hermes_agent.questions.answers.device import COLLECTIVE_NAMES, slowest_rank
from hermes_agent.questions.answers.events import more
from hermes_agent.questions.discussion import Discussion
from hermes_agent.questions.prose import ORDINALS, blocks, bullets, milliseconds, paragraph, row_table
from hermes_agent.questions.reading.lengths import bounds, lengths
from hermes_agent.questions.reading.question import Question, of_all_steps, wording
from hermes_agent.questions.tool_context import called
from tools.agent_tools.collective_instances import CollectiveRow
from tools.agent_tools.gaps import GapRow

LISTED = 5
HOST_LISTED = 2  # activities named per gap
ORDINAL = re.compile(rf"\b(?:(?P<word>{'|'.join(ORDINALS)})|(?P<number>\d{{1,4}})(?:st|nd|rd|th))\b")


def overlap(discussion: Discussion, question: Question) -> str:
    """How much communication overlaps with compute: of one collective that is named, else of the rank or run."""
    kind = next((kind for kind, name in COLLECTIVE_NAMES.items() if re.search(rf"\b{name}s?\b", question.words)), None)
    ordinal = ORDINAL.search(question.words)
    if kind is not None and (ordinal or question.steps):
        return _single(discussion, question, kind, _number(ordinal))
    rank = question.ranks[0] if question.ranks else None
    found = called(discussion, "collective_instances", rank=rank, limit=1)
    if not found.total:
        return wording("no_overlap")
    of = "" if rank is None else f" of rank {rank}"
    text = (
        f"{{communication_overlap_pct}} of the communication{of} overlaps with compute: per step "
        "{part_ms:part=overlapped_communication} overlap and {part_ms:part=exposed_communication} are exposed."
    )
    single = "“Is the second all-reduce of rank 0 overlapped with backward?” asks for one collective."
    return blocks([of_all_steps(question), discussion.say(text, rank=rank), single])


def gaps(discussion: Discussion, question: Question) -> str:
    """The longest gaps of a device, and what the host did in them."""
    rank = question.ranks[0] if question.ranks else slowest_rank(discussion)
    asked = lengths(question.text)
    step = question.steps[0] if question.steps else None
    found = called(discussion, "gaps", question.page, rank=rank, step=step, limit=LISTED, **bounds(asked))
    rows = [row for row in found.rows if isinstance(row, GapRow)]
    if not rows:
        why = f"The device of rank {rank} has no gap{f' {asked.text}' if asked else ''} in its steps."
        return paragraph(found.notes) or why
    so_long = f" {asked.text}" if asked else ""
    idle = discussion.say(f"The device of rank {rank} is idle for {{device_idle_ms}} per step", rank=rank)
    where = "" if step is None else f" in step {step}"
    lead = f"{idle}; gaps{so_long}{where}: {found.total}, the longest first, in ms."
    cells = [
        [row.id, str(row.step), milliseconds(row.duration_ms), row.reason, row.host[0].name if row.host else ""]
        for row in rows
    ]
    table = row_table(("id", "step", "gap", "reason", "mostly in"), cells)
    doing = bullets(_host(row) for row in rows)
    return blocks([lead, table, "What the host did in them, time of its own in each:", doing, more(found)])


def _host(row: GapRow) -> str:
    named = [f"{quoted(each.name)} {milliseconds(each.own_ms)} ms ({each.id})" for each in row.host[:HOST_LISTED]]
    return f"{row.id}: {', '.join(named) or 'nothing that was recorded'}"


def _number(ordinal: re.Match[str] | None) -> int | None:
    if ordinal is None:
        return None
    return ORDINALS.index(ordinal["word"]) + 1 if ordinal["word"] else int(ordinal["number"])


def _single(discussion: Discussion, question: Question, kind: str, number: int | None) -> str:
    rank = question.ranks[0] if question.ranks else None
    given = {"rank": rank, "kind": kind, "index": number, "limit": LISTED}
    step = question.steps[0] if question.steps else None
    found = called(discussion, "collective_instances", question.page, **given, step=step)
    rows = [row for row in found.rows if isinstance(row, CollectiveRow)]
    if not rows:
        return f"There is no such {plain(kind)}. {paragraph(found.notes)}".strip()
    cells = [
        [row.id, str(row.rank), str(row.step), *map(milliseconds, (row.duration_ms, row.overlapped_ms, row.exposed_ms)),
         ", ".join(f"{name} {milliseconds(ms)}" for name, ms in row.overlaps_ms.items()) or "nothing"]
        for row in rows
    ]  # fmt: skip
    heads = ("id", "rank", "step", "takes", "overlapped", "exposed", "runs during")
    place = "" if number is None else f"{ORDINALS[number - 1] if number <= len(ORDINALS) else number} "
    lead = f"The {place}{plain(kind)} of a step, in ms; {counted(found.total, 'instance')}:"
    return blocks([_verdict(discussion, question, rows[0]), lead, row_table(heads, cells), more(found)])


def _verdict(discussion: Discussion, question: Question, row: CollectiveRow) -> str:
    """One sentence on the first of them: overlapped as asked or not, with its figures."""
    phase = next((name for name in ("forward", "backward", "optimizer") if name in question.words.split()), None)
    whole = discussion.measure("instance_ms", collective=row.id)
    part = discussion.measure("instance_overlap_ms", collective=row.id, **({"phase": phase} if phase else {}))
    share = 100.0 * part.value / whole.value if whole.value else 0.0
    hidden_pct = discussion.profile().thresholds["hidden_collective_pct"]
    yes = "Yes" if share >= hidden_pct else "Only in part" if part.value > 0 else "No"
    with_what = f"the {phase} pass" if phase else "compute"
    text = (
        f"{yes}: {row.id} on rank {row.rank} in step {row.step} takes {{0}}, and {{1}} of it overlap with {with_what}."
    )
    return discussion.say(text, whole, part)
