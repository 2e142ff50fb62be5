"""A diagnosis as plain text for a terminal or a file."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from hermes_agent.evidence.recalled import similar_cases_title
from hermes_agent.model.diagnosis import AdviceRecord, BreakdownRow, CauseRecord, CheckRecord, Diagnosis, SourceRecord
from hermes_agent.model.display import cause_title, rank_list

Style = Callable[[str, str], str]  # (text, style name) -> text

EFFORTS = {1: "minutes", 2: "hours", 3: "days"}
MARKS = {"found": "!", "clean": "ok", "cannot_answer": "?"}
RANKS_SHOWN = 16
CLASSES_SHOWN = 8
HIDDEN_RATIO = 1.5  # a cause worth this much more after the ones above it is said to be hidden


def unstyled(text: str, _: str) -> str:
    """The text as it is."""
    return text


def render_text(diagnosis: Diagnosis, width: int = 100, style: Style = unstyled, verbose: bool = False) -> str:
    """The whole diagnosis; ``width`` is the longest line, apart from URLs and code; ``verbose`` shows every check."""
    blocks = [
        _title(diagnosis),
        _verdict(diagnosis, width, style),
        _breakdown(diagnosis, style),
        _causes(diagnosis, width, style),
        _advice(diagnosis, width, style),
        _other_views(diagnosis, width, style),
        _comparison(diagnosis, width, style),
        _checks(diagnosis, width, style, verbose),
        _cases(diagnosis, width, style),
        _notes(diagnosis, width, style),
        "hermes-dx show E1 measures a figure again and prints the rows behind it.",
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _wrap(text: str, width: int, indent: str = "", first: str | None = None) -> str:
    return textwrap.fill(
        text,
        width,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def all_ranks(diagnosis: Diagnosis) -> set[int]:
    """The traced ranks, those of the records where there is no trace."""
    recorded = diagnosis.run.recorded
    return set(diagnosis.run.ranks or (recorded.ranks if recorded else ()))


def _title(diagnosis: Diagnosis) -> str:
    run = diagnosis.run
    names = [source.path.rsplit("/", 1)[-1] for source in run.sources if source.status != "excluded"]
    shown = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    if not run.ranks and run.recorded is not None:
        return f"{shown} · {len(run.recorded.ranks)} rank(s) · {diagnosis.step_time_ms.steps} step(s) · no trace"
    device = ", ".join(run.devices) or "CPU only"
    return f"{shown} · {len(run.ranks)} rank(s) · {len(run.steps)} step(s) · {device}"


def _verdict(diagnosis: Diagnosis, width: int, style: Style) -> str:
    lead = f"{diagnosis.verdict.upper()}: "
    wrapped = _wrap(lead + diagnosis.answer[0], width)
    first = style(lead, diagnosis.verdict) + wrapped.removeprefix(lead)
    return "\n".join([first, *(_wrap(sentence, width) for sentence in diagnosis.answer[1:])])


def _breakdown(diagnosis: Diagnosis, style: Style) -> str:
    rows = [row for row in diagnosis.breakdown if row.step is None]
    if not rows:
        return ""
    head = f"{'rank':>5} {'wall':>9} {'compute':>9} {'exposed':>9} {'exposed':>9} {'data':>9} {'host':>9} {'idle':>9}"
    more = f"{'':>5} {'ms':>9} {'':>9} {'comm.':>9} {'copies':>9} {'wait':>9} {'':>9} {'':>9}"
    lines = [style("Where a step goes, mean over steps", "heading"), head, more]
    lines += [_breakdown_row(row) for row in rows[:RANKS_SHOWN]]
    if len(rows) > RANKS_SHOWN:
        lines.append(f"  and {len(rows) - RANKS_SHOWN} more: hermes-dx ranks RUN")
    return "\n".join(lines)


def _breakdown_row(row: BreakdownRow) -> str:
    parts = (
        row.wall_ms,
        row.compute_ms,
        row.exposed_communication_ms,
        row.exposed_memcpy_ms,
        row.data_wait_ms,
        row.host_ms,
        row.idle_ms,
    )
    return f"{row.rank:>5} " + " ".join(f"{value:>9.2f}" for value in parts)


def _other_views(diagnosis: Diagnosis, width: int, style: Style) -> str:
    """Kernel classes, and the TensorBoard plugin's attribution for comparison, of the first rank that has them."""
    lines = []
    if diagnosis.kernel_classes:
        rank = diagnosis.kernel_classes[0].rank
        classes = [row for row in diagnosis.kernel_classes if row.rank == rank][:CLASSES_SHOWN]
        listed = ", ".join(f"{row.kernel_class} {row.ms_per_step:.2f}" for row in classes)
        lines.append(_wrap(f"Kernels by class, rank {rank}, ms per step: {listed}", width, "  "))
    for row in diagnosis.plugin_attribution[:1]:
        listed = ", ".join(f"{role.replace('_', ' ')} {value:.2f}" for role, value in row.roles_ms.items())
        text = f"By the TensorBoard plugin's priorities, rank {row.rank}, ms of {row.step_ms:.2f}: {listed}"
        lines.append(_wrap(text, width, "  "))
    return "\n".join([style("Other views", "heading"), *lines]) if lines else ""


def _causes(diagnosis: Diagnosis, width: int, style: Style) -> str:
    if not diagnosis.causes:
        return ""
    blocks = [style("Why", "heading")]
    blocks += [_cause(place, cause, diagnosis, width, style) for place, cause in enumerate(diagnosis.causes, start=1)]
    return "\n".join(blocks)


def _cause(place: int, cause: CauseRecord, diagnosis: Diagnosis, width: int, style: Style) -> str:
    where = "" if set(cause.ranks) == all_ranks(diagnosis) else f", {rank_list(cause.ranks)}"
    facts = (
        f"{cause.impact_ms_per_step:.1f} ms, {cause.impact_pct:.1f} % of the step{where}; "
        f"confidence {cause.confidence:.2f}, by {cause.method.replace('_', ' ')}"
    )
    title = style(f"{place}. {cause_title(cause.cause, cause.mechanism)}", "cause")
    lines = [f"{title}: {facts}", _wrap(cause.claim, width, "   ")]
    if cause.then_ms_per_step > HIDDEN_RATIO * max(cause.impact_ms_per_step, 0.01):
        lines.append(f"   Hidden by what stands above it: worth {cause.then_ms_per_step:.1f} ms once that is gone.")
    lines += [_wrap(detail, width, "   ") for detail in cause.details]
    lines += [_wrap(f"Symptom: {symptom}", width, "   ") for symptom in cause.symptoms]
    lines += [_wrap(f"Against: {contrary}", width, "   ") for contrary in cause.against]
    if cause.disproved_by:
        lines.append(_wrap(f"What would disprove it: {cause.disproved_by}.", width, "   "))
    return "\n".join(lines)


def _advice(diagnosis: Diagnosis, width: int, style: Style) -> str:
    if not diagnosis.advice:
        return ""
    blocks = [style("What to change, most gain for the effort first", "heading")]
    blocks += [_advice_item(item, width, style) for item in diagnosis.advice]
    return "\n".join([*blocks, *(_wrap(meaning, width) for meaning in interval_meaning(diagnosis))])


def interval_meaning(diagnosis: Diagnosis) -> tuple[str, ...]:
    """What the intervals of the advice claim; nothing where there is none."""
    if not any(item.interval for item in diagnosis.advice):
        return ()
    return (
        f"An interval (expect between) claims to hold the truth in {diagnosis.interval_covers_pct:.0f} % of cases.",
    )


def _advice_item(item: AdviceRecord, width: int, style: Style) -> str:
    title = style(f"{item.id} {item.optimization}", "cause")
    lines = [f"{title} (for {cause_title(item.for_, item.mechanism)}; {EFFORTS[item.effort]} of work)"]
    lines.append(_wrap(item.how, width, "   "))
    if item.text:
        lines.append(_wrap(item.text, width, "   "))
    lines.append(_wrap(f"Risk: {item.risk}. Verify: {item.verify}.", width, "   "))
    if item.cases:
        lines.append(f"   Like {', '.join(f'[{case}]' for case in item.cases)}")
    return "\n".join(lines)


def _comparison(diagnosis: Diagnosis, width: int, style: Style) -> str:
    comparison = diagnosis.comparison
    if comparison is None:
        return ""
    lines = [style("Against the baseline", "heading"), _wrap(comparison.headline, width)]
    return "\n".join([*lines, *(_wrap(change, width, "  ", "- ") for change in comparison.changes)])


def _checks(diagnosis: Diagnosis, width: int, style: Style, verbose: bool) -> str:
    if not verbose:
        return _checks_in_short(diagnosis, width, style)
    lines = [style("What was looked at", "heading")]
    return "\n".join([*lines, *(_check(check, width) for check in diagnosis.checks)])


def _checks_in_short(diagnosis: Diagnosis, width: int, style: Style) -> str:
    """Names of what was found and what is clean, and each open question's reason once."""
    lines = [style("What was looked at (-v shows the figures)", "heading")]
    for status, title in (("found", "found"), ("clean", "clean")):
        names = [check.analyzer for check in diagnosis.checks if check.status == status]
        if names:
            lines.append(_wrap(", ".join(names), width, "    ", f"{MARKS[status]:>3} {title}: "))
    open_questions: dict[tuple[str, str], list[str]] = {}
    for check in diagnosis.checks:
        if check.status == "cannot_answer":
            open_questions.setdefault((check.reason, check.needs), []).append(check.analyzer)
    for (reason, needs), names in open_questions.items():
        said = f"{', '.join(names)}: {reason.rstrip('.')}. Needs {needs.rstrip('.')}."
        lines.append(_wrap(said, width, "    ", f"{MARKS['cannot_answer']:>3} open: "))
    return "\n".join(lines)


def _check(check: CheckRecord, width: int) -> str:
    mark = f"{MARKS[check.status]:>3} {check.analyzer}: "
    match check.status:
        case "found":
            said = " ".join(check.text)
        case "clean":
            said = " ".join(check.text)
        case _:
            said = f"cannot be answered: {check.reason.rstrip('.')}. Needs {check.needs.rstrip('.')}."
    return _wrap(said, width, "    ", mark)


def _cases(diagnosis: Diagnosis, width: int, style: Style) -> str:
    if not diagnosis.cases:
        return f"Similar cases: {diagnosis.recall_note}" if diagnosis.recall_note else ""
    title = similar_cases_title(diagnosis.cases)
    lines = [style(f"{title} (they suggest; they are no evidence for this run)", "heading")]
    for case in diagnosis.cases:
        lines.append(_wrap(f"[{case.id}] {case.title} (similarity {case.similarity:.2f})", width, "     "))
        lines += [f"     {case.url}"] if case.url else []
    return "\n".join(lines)


def notes_of(diagnosis: Diagnosis) -> list[str]:
    """What a reader has to know about the files and what was assumed; each once."""
    told = [source for source in diagnosis.run.sources if source.note]
    partial = [f"{source.path}: {source.note}" for source in told]
    others = [note for note in diagnosis.notes if not any(_repeats(source, note) for source in told)]
    return list(dict.fromkeys([*partial, *others]))


def _repeats(source: SourceRecord, note: str) -> bool:
    """Whether the note says of the file what the file's own note says, in full or with less of it."""
    name = source.path.rsplit("/", 1)[-1]
    rest = note.removeprefix(name).lstrip(": ") if note.startswith(name) else ""
    return source.note in note or (bool(rest) and rest in source.note)


def _notes(diagnosis: Diagnosis, width: int, style: Style) -> str:
    notes = notes_of(diagnosis)
    if not notes:
        return ""
    return "\n".join([style("To know", "heading"), *(_wrap(note, width, "  ", "- ") for note in notes)])
