"""A diagnosis in full as sections of items, for every form of the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermes_agent.model.display import (
    NOT_USED,
    PART_TITLES,
    cause_heading,
    cause_title,
    counted,
    numbered,
    on_ranks,
    saved_ms,
    similar_cases_title,
    span_list,
)
from hermes_agent.report.clocks import clock_lines
from tools.knowledge.taxonomy import EFFORTS

if TYPE_CHECKING:
    from hermes_agent.model.diagnosis import (
        AdviceRecord,
        CauseRecord,
        CheckRecord,
        Diagnosis,
        HypothesisRecord,
        LeadRecord,
        RecordNextRecord,
        RouteRecord,
    )
    from hermes_agent.model.run_record import RankGroupRecord, RunRecord, ScreeningRecord, SourceRecord

MARKS = {"found": "!", "clean": "ok", "cannot_answer": "?"}
COLUMNS = ("wall", "compute", "exposed_communication", "exposed_memcpy", "data_wait", "host", "idle")
WHOLE_PCT = 99.95  # of a step, as printed 100.0
NOTHING_CITED = "Nothing there has a name and a time that could be cited."
BEFORE_BREAKDOWN = ("comparison", "causes", "leads", "hypotheses", "routes", "advice", "ranks")
MOST_LISTED = 10  # traces that could not be read, notes on sources, groups of ranks
NOTED_SHARE = 0.05  # of all waiting: ranks that cause less are not named


@dataclass(frozen=True)
class Item:
    """One entry: its number or id, a title, the text after it and further lines below."""

    mark: str
    title: str
    text: str = ""
    lines: tuple[str, ...] = ()
    url: str = ""


@dataclass(frozen=True)
class Section:
    """A heading with its items; ``before`` and ``after`` are sentences around them."""

    title: str
    items: tuple[Item, ...]
    before: str = ""
    after: tuple[str, ...] = ()


def sections(diagnosis: Diagnosis) -> dict[str, Section]:
    """Everything but the answer, the breakdown and the evidence; empty sections are left out."""
    compared, cases = diagnosis.comparison, diagnosis.cases
    changes = tuple(Item("-", "", change) for change in compared.changes) if compared else ()
    causes = tuple(_cause(f"{place}.", cause, diagnosis) for place, cause in enumerate(diagnosis.causes, start=1))
    advice = tuple(map(_change, diagnosis.advice))
    alike = tuple(Item(f"[{case.id}]", case.title, f": {case.why}", url=case.url) for case in cases)
    suggestions = f"{similar_cases_title(cases)} (suggestions, no evidence for this run)"
    found = {
        "comparison": Section("Against the baseline", changes, compared.headline if compared else ""),
        "causes": Section("Causes, largest saving first", causes),
        "leads": Section("Leads: seen, not explained", tuple(map(_lead, diagnosis.leads))),
        "hypotheses": Section("Hypotheses tested", tuple(map(_hypothesis, diagnosis.hypotheses))),
        "routes": Section("Deep looks, where the time is", tuple(map(_route, diagnosis.routes))),
        "advice": Section("What to change, largest gain first", advice, after=interval_meaning(diagnosis)),
        "ranks": rank_groups(diagnosis.run.screening),
        "checks": Section("Checks", _checks(diagnosis.checks)),
        "record_next": Section("What to record next", tuple(map(_recording, diagnosis.record_next))),
        "cases": Section(suggestions, alike) if cases else Section("Similar cases", (), diagnosis.recall_note),
        "clocks": Section("Clocks of the sources", tuple(Item("-", "", line) for line in clock_lines(diagnosis))),
        "notes": Section("Notes", tuple(Item("-", "", note) for note in notes_of(diagnosis))),
    }
    return {name: section for name, section in found.items() if section.items or section.before}


def rank_groups(screening: ScreeningRecord | None) -> Section:
    """The groups of ranks that look alike, who is waited for, and what could not be read; empty without many ranks."""
    if screening is None:
        return Section("", ())
    items = [Item("-", span_list(group.ranks), group_text(group)) for group in screening.groups[:MOST_LISTED]]
    left_out = len(screening.groups) + screening.more_groups - len(items)
    unread, more = screening.unread[:MOST_LISTED], screening.found - screening.summarized
    after = [
        f"and {left_out:,} more groups" if left_out else "",
        waited_for(screening),
        *(f"Not read: {each.name}: {each.reason}" for each in unread),
        f"and {more - len(unread):,} more traces that could not be read" if more > len(unread) else "",
    ]
    title = "Groups of ranks by summary, ms per step"
    return Section(title, tuple(items), after=tuple(filter(None, after)))


def group_text(group: RankGroupRecord) -> str:
    """What a group of ranks looks like: how it differs from its peers, else its step."""
    stage = "" if group.stage is None else f" in stage {group.stage}"
    if group.differs:
        parts = (f"{PART_TITLES[each.part]} {each.median_ms:.2f}, peers {each.peers_ms:.2f}" for each in group.differs)
        return f" ({group.count:,}){stage}: {'; '.join(parts)}"
    medians = {part: group.medians_ms[part] for part in COLUMNS if part != "wall"}
    noted = (f"{PART_TITLES[part]} {value:.2f}" for part, value in medians.items() if value >= 0.01)
    return f" ({group.count:,}) alike{stage}: step {group.medians_ms['wall']:.2f}; {', '.join(noted)}"


def waited_for(screening: ScreeningRecord) -> str:
    """The ranks that the others wait for most; empty where there is no such rank."""
    late = [each for each in screening.waited_for if each.share >= NOTED_SHARE]
    if not late:
        return ""
    shares = [f"rank {each.rank} ({100.0 * each.share:.1f} %" for each in late[:3]]
    named = ", ".join([f"{shares[0]} of the waiting of all ranks)", *(f"{share})" for share in shares[1:])])
    return f"The {'rank' if len(late) == 1 else 'ranks'} most waited for in collectives: {named}."


def _cause(mark: str, cause: CauseRecord, diagnosis: Diagnosis) -> Item:
    named = "/".join(filter(None, (cause.cause, cause.mechanism)))
    text = f" ({named}): {cause_facts(cause, diagnosis)}"
    return Item(mark, cause_heading(cause.cause, cause.mechanism), text, (cause.claim, *cause_lines(cause)))


def _lead(lead: LeadRecord) -> Item:
    known = lead.impact_ms_per_step > 0.0
    size = f"{lead.impact_ms_per_step:.1f} ms, {lead.impact_pct:.1f} % of the step: " if known else ""
    text = f" {size}{lead.claim}"
    likely = [
        f"{cause_title(each.cause, each.mechanism)} ({each.likelihood:.2f}): {each.why}" for each in lead.candidates
    ]
    return Item(lead.id, "", text.strip(), (*likely, f"Decided by: {lead.decide_by}."))


def hypothesis_title(hypothesis: HypothesisRecord) -> str:
    """What it says, in a few words: ``refuted: straggler (L1)``; a proposal of a model is marked as such."""
    place = f" ({hypothesis.place})" if hypothesis.place else ""
    by = ", proposed by the model" if hypothesis.proposed_by == "model" else ""
    return f"{hypothesis.status}: {cause_title(hypothesis.cause, hypothesis.mechanism)}{place}{by}"


def _hypothesis(hypothesis: HypothesisRecord) -> Item:
    return Item(hypothesis.id, hypothesis_title(hypothesis), hypothesis_reason(hypothesis))


def hypothesis_reason(hypothesis: HypothesisRecord) -> str:
    """The figure that decided, and what would decide where none did."""
    measured = f". {hypothesis.judged_by}" if hypothesis.judged_by else ""
    wanted = f". To decide, record {hypothesis.next_test}" if hypothesis.next_test else ""
    return f"{measured}{wanted}."


def _route(route: RouteRecord) -> Item:
    """A deep look: why it was taken and what it showed, or why not."""
    if not route.taken:
        return Item("-", route.look, f": not taken. {route.reason}.")
    return Item("-", route.look, f": {route.reason}. {route.text or NOTHING_CITED}")


SLOW_OPERATORS = "operators below what the processor can do"  # low utilization where there is no device


def lead_outlook(lead: LeadRecord, devices: bool = True) -> str:
    """The candidates of a lead, most likely first, and what decides between them.

    Of the step as a whole nothing points to any of them, but for what leads before it say. ``devices``: False where the
    run is traced and has none.
    """
    named = ", ".join(
        SLOW_OPERATORS if not devices and each.cause == "underutilization" else cause_title(each.cause, each.mechanism)
        for each in lead.candidates
    )
    decided = f"Decided by: {lead.decide_by}."
    if not named:
        return decided
    if is_whole_step(lead):
        return f"Beyond that, nothing recorded tells possible causes apart ({named}). {decided}"
    return f"Likely: {named}. {decided}"


def on_devices(run: RunRecord) -> bool:
    """Whether the run may compute on devices: False where traces were read and hold none."""
    return any(not device.endswith(NOT_USED) for device in run.devices) or not run.ranks


def is_whole_step(lead: LeadRecord) -> bool:
    """Whether the lead is only that a step takes its time, which is no loss."""
    return lead.place.part == "step" and lead.impact_pct >= WHOLE_PCT


def cause_facts(cause: CauseRecord, diagnosis: Diagnosis) -> str:
    """Saving, share, ranks where not all, confidence and method of a cause."""
    recorded = diagnosis.run.recorded
    all_ranks = diagnosis.run.ranks or (recorded.ranks if recorded else ())
    where = on_ranks(cause.ranks, all_ranks, cause.stands_for).replace(" on ", ", ", 1)
    saving = f"{saved_ms(cause)}, {cause.impact_pct:.1f} % of the step{where}"
    return f"{saving}; confidence {cause.confidence:.2f}, by {cause.method.replace('_', ' ')}"


def cause_lines(cause: CauseRecord) -> list[str]:
    """The lines below a cause's claim: details, symptoms, evidence against it, and what would disprove it."""
    return [
        *masked(cause),
        *shared(cause),
        *cause.details,
        *(f"Symptom: {symptom}" for symptom in cause.symptoms),
        *(f"Against: {contrary}" for contrary in cause.against),
        *([f"Where: {cause.where}."] if cause.where else []),
        *([f"Would be disproved if {cause.disproved_by}."] if cause.disproved_by else []),
    ]


def masked(cause: CauseRecord) -> list[str]:
    """The causes that mask this one, and what it saves without them; nothing where none does."""
    if not cause.masked_by:
        return []
    fixes = "that fix" if len(cause.masked_by) == 1 else "those fixes"
    return [f"Masked by {numbered('cause', cause.masked_by)}; saves {cause.then_ms_per_step:.1f} ms after {fixes}."]


def shared(cause: CauseRecord) -> list[str]:
    """The causes that explain some of the same milliseconds; nothing where none does."""
    if not cause.shared_with:
        return []
    return [f"Overlaps with {numbered('cause', cause.shared_with)}: the time that both would save is counted once."]


def _change(item: AdviceRecord) -> Item:
    about = f" (for {cause_title(item.for_, item.mechanism)}; {EFFORTS[item.effort]} of work)"
    like = f"Like {', '.join(f'[{case}]' for case in item.cases)}" if item.cases else ""
    lines = (item.how, item.text, f"Risk: {item.risk}. Verify: {item.verify}.", like)
    return Item(item.id, item.optimization, about, tuple(filter(None, lines)))


def _recording(each: RecordNextRecord) -> Item:
    answered = f" (answers {counted(len(each.checks), 'check')})" if each.checks else " (for the verdict)"
    return Item("-", "", f"{each.do}: {each.shows}{answered}")


def _checks(checks: Sequence[CheckRecord]) -> tuple[Item, ...]:
    """Each check with what it says; those that cannot answer for the same reason stand together, at the first one."""
    together: dict[tuple[str, str], list[str]] = {}
    for check in checks:
        said = " ".join(check.text)
        if check.status == "cannot_answer":
            said = f"not assessable: {check.reason.rstrip('.')}. Needs {check.needs.rstrip('.')}."
        together.setdefault((check.status, said), []).append(check.analyzer)
    return tuple(
        Item(f"{MARKS[status]:>3}", ", ".join(names), f": {said}") for (status, said), names in together.items()
    )


def interval_meaning(diagnosis: Diagnosis) -> tuple[str, ...]:
    """The meaning of the ranges in the advice; empty without any."""
    if not any(item.interval for item in diagnosis.advice):
        return ()
    return (f"Ranges are {diagnosis.interval_covers_pct:.0f} % prediction intervals.",)


def notes_of(diagnosis: Diagnosis) -> list[str]:
    """Notes on the files and on what was assumed, each once."""
    noted = [source for source in diagnosis.run.sources if source.note]
    partial = [f"{source.path}: {source.note}" for source in noted[:MOST_LISTED]]
    partial += [f"{len(noted) - MOST_LISTED:,} more files have a note"] if len(noted) > MOST_LISTED else []
    others = [note for note in diagnosis.notes if not any(_repeats(source, note) for source in noted)]
    return list(dict.fromkeys([*partial, *others]))


def _repeats(source: SourceRecord, note: str) -> bool:
    """Return whether the note says no more of the file than the file's own note."""
    name = source.path.rsplit("/", 1)[-1]
    rest = note.removeprefix(name).lstrip(": ") if note.startswith(name) else ""
    return source.note in note or (bool(rest) and rest in source.note)
