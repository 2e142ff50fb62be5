"""Display names of causes, families, parts of a step and scopes, for all frontends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tools.knowledge.taxonomy import Name, causes

if TYPE_CHECKING:
    from hermes_agent.model.diagnosis import CaseRecord, CauseRecord
    from hermes_agent.model.run_record import RecordedRecord, RunRecord

FAMILY_TITLES = {
    "parallel": "overlap and critical path",
    "io": "data input",
    "cpu": "host program",
    "computation": "computation",
    "communication": "communication",
    "memory": "memory",
    "storage": "storage",
}
WORK_TITLES = {**FAMILY_TITLES, "idle": "launch gaps"}

NO_WORK_RECORDED = "(none of its work is recorded)"  # behind the name of a device
MAY_BE_DEVICE = "(may be a device; not read)"
WORK_MISSING = (NO_WORK_RECORDED, MAY_BE_DEVICE)
NOT_USED = "(not used: ran on the CPU)"  # behind a device that a trace names and its program did not use

PART_TITLES = {
    "compute": "computation",
    "exposed_communication": "exposed communication",
    "exposed_memcpy": "exposed copies",
    "data_wait": "data wait",
    "host": "host",
    "idle": "idle with queued kernels",
}
WIDE_RANGE = 5.0  # a speedup's upper end so many times its lower one says no more than that much is possible
PLACE_TITLES = {**PART_TITLES, "step": "whole step"}  # of leads: records alone do not show the parts of a step


def plain(identifier: str) -> str:
    """An id of the taxonomy in words."""
    return identifier.replace("_", " ")


def family_title(family: str) -> str:
    """A family of causes, or of work on the critical path: ``data input``."""
    return WORK_TITLES.get(family, plain(family))


def cause_title(cause: str, mechanism: str | None) -> str:
    """A cause within a sentence, by its mechanism where one is known: ``heavy data transforms``."""
    return _name(cause, mechanism).phrase


def cause_heading(cause: str, mechanism: str | None) -> str:
    """The same as a heading: ``Heavy data transforms``."""
    return _name(cause, mechanism).title


def costs(cause: str, mechanism: str | None) -> str:
    """``cost`` or ``costs``, as the cause is named in the plural or the singular."""
    return "cost" if _name(cause, mechanism).plural else "costs"


def _name(cause: str, mechanism: str | None) -> Name:
    known = causes().get(cause)
    title = plain(mechanism or cause)
    return known.called(mechanism) if known else Name(title.capitalize(), title)


def saved_ms(cause: CauseRecord) -> str:
    """What fixing a cause saves per step: ``24.3 ms``, or ``at most 24.3 ms`` where how much less is not known."""
    return f"{'at most ' if cause.at_most else ''}{cause.impact_ms_per_step:.1f} ms"


def similar_cases_title(records: Iterable[CaseRecord]) -> str:
    """The heading above a list of cases."""
    return "Similar cases, public and private" if any(record.private for record in records) else "Similar public cases"


def speedup_range(low: float, high: float) -> str:
    """A prediction interval of a speedup, as a lower bound where its upper end says nothing."""
    return f"at least {low:.2f}x" if high > WIDE_RANGE * low else f"{low:.2f}x to {high:.2f}x"


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 rank``, ``2 ranks``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def rank_count(run: RunRecord) -> str:
    """``8 ranks``, ``7 of 8 ranks`` of a larger job; of many ``1,021 ranks (12 read in full)``."""
    screening, world = run.screening, run.layout.get("world_size")
    known = len(run.ranks) if screening is None else screening.summarized
    of_job = isinstance(world, int) and world > known > 0
    text = f"{known:,} of {world:,} ranks" if of_job else counted(known, "rank")
    return text if screening is None else f"{text} ({len(run.ranks)} read in full)"


def recorded_count(recorded: RecordedRecord, world: object = None) -> tuple[str, str]:
    """Ranks and steps of records: ``2 ranks``, ``60 steps``; of a log ``job of 256 ranks``, ``6 of steps 10 to 60`` or
    ``5 intervals between recorded steps, the last to step 60``, and ``ranks not stated`` where neither its lines name
    ranks nor anything says how many the job has.

    ``world``: the number of ranks of the job, where it is known.
    """
    count = sum(last - first + 1 for first, last in recorded.steps) + recorded.steps_not_listed
    ranks = _recorded_ranks(recorded, world)
    if recorded.epochs:
        lines = (
            f"{counted(count, 'interval')} between recorded steps"
            if recorded.between_lines
            else counted(count, "step line")
        )
        return ranks, f"{lines} of {counted(recorded.epochs, 'epoch')}"
    if len(recorded.steps) < 2:
        return ranks, counted(count, "step")
    if recorded.between_lines:
        return ranks, f"{counted(count, 'interval')} between recorded steps, the last to step {recorded.steps[-1][1]}"
    return ranks, f"{count:,} of steps {recorded.steps[0][0]} to {recorded.steps[-1][1]}"


def _recorded_ranks(recorded: RecordedRecord, world: object) -> str:
    if isinstance(world, int) and (world > len(recorded.ranks) or not recorded.ranks_stated):
        return f"job of {counted(world, 'rank')}"
    if recorded.workers:
        return f"{counted(len(recorded.ranks), 'worker')} ({recorded.workers})"
    if recorded.ranks_stated:
        return counted(len(recorded.ranks), "rank")
    return f"job of at least {counted(recorded.least_ranks, 'rank')}" if recorded.least_ranks else "ranks not stated"


def numbered(noun: str, numbers: Iterable[int], most: int = 8) -> str:
    """``rank 3``, ``ranks 0, 1 and 4``, ``ranks 0 to 7``, or how many where there are more than ``most``."""
    known = sorted(numbers)
    if len(known) == 1:
        return f"{noun} {known[0]}"
    if len(known) > 2 and known == list(range(known[0], known[-1] + 1)):
        return f"{noun}s {known[0]} to {known[-1]}"
    if len(known) > most:
        return f"{len(known)} {noun}s"
    return f"{noun}s {', '.join(str(number) for number in known[:-1])} and {known[-1]}"


MOST_SINGLE, MOST_SPANS = 8, 6  # ranks that are named one by one, and unbroken rows of ranks


def rank_list(ranks: Iterable[int]) -> str:
    """``rank 3``, ``ranks 0, 1 and 4``, ``ranks 0 to 7``; of many ``ranks 0 to 12 and 14 to 63``."""
    known = sorted(ranks)
    return numbered("rank", known) if len(known) <= MOST_SINGLE else span_list(spans(known))


def spans(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending numbers as first and last of each unbroken row of them."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def span_list(rows: Sequence[tuple[int, int]]) -> str:
    """The same of unbroken rows of ranks, first and last; of many rows how many ranks there are and between which."""
    if len(rows) > MOST_SPANS:
        return f"{sum(last - first + 1 for first, last in rows):,} ranks between {rows[0][0]} and {rows[-1][1]}"
    texts = [f"{first}" if first == last else f"{first} to {last}" for first, last in rows]
    noun = "rank" if len(rows) == 1 and rows[0][0] == rows[0][1] else "ranks"
    return f"{noun} {' and '.join(filter(None, (', '.join(texts[:-1]), texts[-1])))}"


def on_ranks(ranks: Sequence[int], all_ranks: Sequence[int], stands_for: Sequence[tuple[int, int]] = ()) -> str:
    """`` on rank 1``, or on the ranks that these stand for; empty when it is all ranks."""
    if not ranks or set(ranks) == set(all_ranks):
        return ""
    return f" on {span_list(stands_for) if stands_for else rank_list(ranks)}"
